"""Padding of every kind against NumPy's, and windows of images against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

MODES = {"reflect": "reflect", "symmetric": "symmetric", "replicate": "edge", "circular": "wrap"}
SHAPES: list[Any] = [
    ((5,), (3, 2)), ((2, 4), (2, 0)), ((4, 3), (1, 2, 0, 3)), ((2, 1, 3, 4), (2, 1, 0, 2)), ((0, 4), (1, 2)),
    ((4, 5, 4), (0, 3, 2, 0, 1, 1)), ((2, 3), ()), ((3, 4), (-1, 2, -1, -1)), ((3, 4), (0, -4)),
    ((2, 3, 4), (0, 0, 1, 1)),
]  # fmt: skip


def numbers(shape: Any) -> Any:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def padded(x: Any, padding: Any, mode: str, **options: Any) -> Any:
    """NumPy's padding, after what negative numbers cut away."""
    pairs = list(zip(padding[0::2], padding[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    x = x[tuple(slice(max(0, -a), n + min(0, b)) for n, (a, b) in zip(x.shape, pairs, strict=True))]
    return np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], mode, **options)


@pytest.mark.parametrize(("shape", "padding"), SHAPES)
def test_constants(shape: Any, padding: Any) -> None:
    x = numbers(shape)
    agree(lambda x: ops.pad(x, padding), padded(x, padding, "constant"), x)
    for value in (1.5, 0.0):
        expected = padded(x, padding, "constant", constant_values=value)
        agree(lambda x, v=value: ops.pad(x, padding, value=v), expected, x)
        assert_slopes(lambda x, v=value: ops.pad(x, padding, value=v), x)
    halves = x.astype(np.float16)
    agree(lambda x: ops.pad(x, padding, "constant", 7), padded(halves, padding, "constant", constant_values=7), halves)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "padding"), [case for case in SHAPES if case[1] != (0, -4)])
def test_modes(shape: Any, padding: Any, mode: str) -> None:
    x = numbers(shape)
    if mode == "reflect" and padding == (-1, 2, -1, -1):
        padding = (-1, 1, -1, -1)
    agree(lambda x: ops.pad(x, padding, mode), padded(x, padding, MODES[mode]), x)
    assert_slopes(lambda x: ops.pad(x, padding, mode), x)


def test_operator_classes() -> None:
    x, paddings = numbers((2, 3)), ((1, 0), (2, 1))
    agree(lambda x: ops.Pad(paddings)(x), np.pad(x, paddings), x)
    agree(lambda x: ops.MirrorPad()(x, graphls.Tensor(paddings)), np.pad(x, paddings, "reflect"), x)
    agree(lambda x: ops.MirrorPad("SYMMETRIC")(x, paddings), np.pad(x, paddings, "symmetric"), x)


WINDOWS: list[Any] = [
    ((2, 3, 5, 4), 2, 1, 0, 1), ((1, 2, 5, 6), (3, 2), 1, (1, 0), 2), ((2, 1, 6, 7), (2, 3), 2, 1, (1, 2)),
    ((0, 2, 4, 4), 2, 1, 0, 2), ((1, 1, 3, 3), 3, 1, 0, 5),
]  # fmt: skip


def pair(value: Any) -> Any:
    return (value, value) if isinstance(value, int) else value


def unfolded(x: Any, *settings: Any) -> Any:
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = map(pair, settings)
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    columns = [
        x[:, :, i : i + dh * kh : dh, j : j + dw * kw : dw].reshape(len(x), x.shape[1] * kh * kw)
        for i in range(0, x.shape[2] - dh * (kh - 1), sh)
        for j in range(0, x.shape[3] - dw * (kw - 1), sw)
    ]
    return np.stack(columns, -1)


@pytest.mark.parametrize(("shape", "kernel", "dilation", "padding", "stride"), WINDOWS)
def test_windows_as_columns_and_back(shape: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> None:
    x, settings = numbers(shape), (kernel, dilation, padding, stride)
    columns = unfolded(x, *settings)
    agree(lambda x: ops.unfold(x, *settings), columns, x)
    assert_slopes(lambda x: ops.unfold(x, *settings), x)
    other = np.random.default_rng(4).normal(size=columns.shape).astype(np.float32)
    size = int(np.prod(shape[1:]))
    matrix = unfolded(np.eye(size).reshape(size, *shape[1:]), *settings).reshape(size, -1)
    expected = (other.reshape(shape[0], matrix.shape[1]) @ matrix.T).reshape(shape)
    agree(lambda c: ops.fold(c, shape[2:], *settings), expected, other, rtol=1e-5, atol=1e-5)
    assert_slopes(lambda c: ops.fold(c, shape[2:], *settings), other)


IMAGE = np.ones((1, 2, 4, 4), np.float32)
WRONG: list[Any] = [
    (lambda x: ops.pad(x, (1, 2, 3)), ValueError, "a pair of numbers for each axis"),
    (lambda x: ops.pad(x, (1,) * 10), ValueError, "8 at most"),
    (lambda x: ops.pad(x, 1), TypeError, "tuple of integers"),
    (lambda x: ops.pad(x, (1.0, 2)), TypeError, "tuple of integers"),
    (lambda x: ops.pad(x, (1, 2), "mirror"), ValueError, "'circular', not 'mirror'"),
    (lambda x: ops.pad(x, (4, 0), "reflect"), ValueError, "cannot add 4 elements to 4 along axis 3"),
    (lambda x: ops.pad(x, (0, 5), "circular"), ValueError, "cannot add 5 elements to 4"),
    (lambda x: ops.pad(x[..., :0], (0, 5), "replicate"), ValueError, "cannot add 5 elements to 0"),
    (lambda x: ops.pad(x, (0, 1), "reflect", 2), ValueError, "in the mode 'constant'"),
    (lambda x: ops.pad(x, (-3, -3)), ValueError, "cannot take 3 and 3 elements of 4"),
    (lambda x: ops.Pad(((1, 1),))(x), ValueError, "a pair for each of 4 axes"),
    (lambda x: ops.MirrorPad("EDGE")(x, ((0, 0),) * 4), ValueError, "'REFLECT' or 'SYMMETRIC'"),
    (lambda x: ops.unfold(x, 5), ValueError, r"no window of \(5, 5\) fits into \(4, 4\)"),
    (lambda x: ops.unfold(x[0], 2), ValueError, "images of shape"),
    (lambda x: ops.unfold(x, 2, 0), ValueError, "'dilation' is 1 or more"),
    (lambda x: ops.unfold(x, (1, 2, 3)), TypeError, "'kernel_size' is one integer or two"),
    (lambda x: ops.fold(x[0], (4, 4), 2), ValueError, r"\(N, C \* 4, 9\)"),
]  # fmt: skip


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int, is_traced: bool) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, IMAGE, backend="numpy") if is_traced else function(graphls.Tensor(IMAGE))
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_padding.py")
