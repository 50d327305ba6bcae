"""Convolution and pooling against sums over windows that are written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls import ops
from tests.ops.agree import agree

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 4, 7, 6)).astype(np.float32)
W = RNG.normal(size=(6, 2, 3, 2)).astype(np.float32)
BIAS = RNG.normal(size=6).astype(np.float32)


def padded(x: Any, sides: tuple[int, int, int, int], fill: float) -> Any:
    top, bottom, left, right = sides
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)


def same_sides(size: tuple[int, int], kernel: tuple[int, int], stride: int, dilation: int = 1) -> Any:
    sides = []
    for n, k in zip(size, kernel, strict=True):
        rows = -(-n // stride)
        total = max(0, (rows - 1) * stride + dilation * (k - 1) + 1 - n)
        sides += [total // 2, total - total // 2]
    return tuple(sides)


def slow_conv(x: Any, w: Any, stride: int, dilation: int, groups: int) -> Any:
    n, _, height, width = x.shape
    o, c, kh, kw = w.shape
    rows = (height - dilation * (kh - 1) - 1) // stride + 1
    columns = (width - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((n, o, rows, columns))
    for i, k, r, q in np.ndindex(y.shape):
        group = k // (o // groups)
        down, across = r * stride, q * stride
        window = x[i, group * c : (group + 1) * c, down : down + dilation * (kh - 1) + 1 : dilation,
                   across : across + dilation * (kw - 1) + 1 : dilation]  # fmt: skip
        y[i, k, r, q] = (window * w[k]).sum()
    return y


@pytest.mark.parametrize("pad_mode", ["same", "valid", "pad"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_convolution(pad_mode: str, stride: int, dilation: int) -> None:
    sides = {"valid": (0,) * 4, "pad": (1, 2, 0, 3), "same": same_sides((7, 6), (3, 2), stride, dilation)}[pad_mode]
    expected = slow_conv(padded(X, sides, 0), W, stride, dilation, 2) + BIAS[:, None, None]
    padding = sides if pad_mode == "pad" else 0

    def conv(x: Any, w: Any, b: Any) -> Any:
        return ops.conv2d(x, w, b, stride, pad_mode, padding, dilation, 2)

    agree(conv, expected, X, W, BIAS, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pad_mode", ["same", "valid", "pad"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pooling(pad_mode: str, stride: int) -> None:
    sides = {"valid": (0,) * 4, "pad": (1, 1, 0, 0), "same": same_sides((7, 6), (3, 2), stride)}[pad_mode]
    padding = sides if pad_mode == "pad" else 0
    lowest, zeros, counts = (padded(a, sides, f) for a, f in ((X, -np.inf), (X, 0), (np.ones_like(X), 0)))

    def pooled(x: Any, reduce: Any) -> Any:
        view = np.lib.stride_tricks.sliding_window_view(x, (3, 2), axis=(2, 3))[:, :, ::stride, ::stride]
        return reduce(view, axis=(-2, -1))

    agree(lambda x: ops.max_pool2d(x, (3, 2), stride, padding, pad_mode=pad_mode), pooled(lowest, np.max), X)
    agree(lambda x: ops.avg_pool2d(x, (3, 2), stride, padding, pad_mode=pad_mode, count_include_pad=False),
          pooled(zeros, np.sum) / pooled(counts, np.sum), X, rtol=1e-5)  # fmt: skip
    counted = pooled(zeros, np.mean) if pad_mode == "pad" else pooled(zeros, np.sum) / pooled(counts, np.sum)
    agree(lambda x: ops.avg_pool2d(x, (3, 2), stride, padding, pad_mode=pad_mode), counted, X, rtol=1e-5)


def test_windows_of_nothing_but_padding() -> None:
    lowest = np.full((1, 1, 1), -np.inf, X.dtype)
    agree(lambda x: ops.max_pool2d(x, 2, padding=1), lowest, np.zeros((1, 0, 0), X.dtype))


def test_the_stride_of_a_maximum_is_its_window_and_of_an_average_one() -> None:
    agree(lambda x: ops.max_pool2d(x, 2), X[:, :, :6].reshape(2, 4, 3, 2, 3, 2).max((3, 5)), X)
    agree(lambda x: ops.avg_pool2d(x, 2, 2), X[:, :, :6].reshape(2, 4, 3, 2, 3, 2).mean((3, 5)), X, rtol=1e-5)
    agree(lambda x: ops.avg_pool2d(x, 2), ops.avg_pool2d(X, 2, stride=1).asnumpy(), X, rtol=1e-5)
    assert ops.avg_pool2d(X, 2).shape == (2, 4, 6, 5)
