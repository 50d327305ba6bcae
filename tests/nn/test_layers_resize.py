"""Resizing, padding, moving pixels, dropping channels and small reductions against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.ops.agree import BACKENDS, agree

RNG = np.random.default_rng(6)
X = RNG.normal(size=(2, 4, 5, 6)).astype(np.float32)


def bilinear(x: Any, rows: Any, columns: Any) -> Any:
    """Each new pixel between its four neighbours, one at a time."""
    y = np.zeros((*x.shape[:2], len(rows), len(columns)))
    last = x.shape[2] - 1, x.shape[3] - 1
    for i, j in np.ndindex(len(rows), len(columns)):
        r, c = (min(max(at, 0.0), end) for at, end in zip((rows[i], columns[j]), last, strict=True))
        top, left = int(r), int(c)
        for row, column in np.ndindex(2, 2):
            weight = (r - top if row else 1 - r + top) * (c - left if column else 1 - c + left)
            y[:, :, i, j] += weight * x[:, :, min(top + row, last[0]), min(left + column, last[1])]
    return y


@pytest.mark.parametrize(("half", "aligned"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(7, 3), (5, 12), (1, 1)])
def test_resize_bilinear(half: bool, aligned: bool, size: tuple[int, int]) -> None:
    def positions(old: int, new: int) -> Any:
        if aligned:
            return np.arange(new) * ((old - 1) / max(new - 1, 1))
        return (np.arange(new) + half / 2) * old / new - half / 2

    expected = bilinear(X, positions(5, size[0]), positions(6, size[1]))
    cell = nn.ResizeBilinear(half_pixel_centers=half)
    agree(lambda x: cell(x, size, align_corners=aligned), expected, X, rtol=1e-4, atol=1e-5)


def test_resize_bilinear_by_a_factor() -> None:
    agree(lambda x: nn.ResizeBilinear()(x, scale_factor=2), bilinear(X, np.arange(10) / 2, np.arange(12) / 2), X,
          rtol=1e-4, atol=1e-5)  # fmt: skip


def test_upsample() -> None:
    agree(nn.Upsample(scale_factor=(2, 3)), X.repeat(2, 2).repeat(3, 3), X)
    agree(nn.Upsample(size=(3, 3)), X[:, :, [0, 1, 3]][..., [0, 2, 4]], X)
    agree(nn.Upsample(size=5, mode="linear", align_corners=True), X[..., 0], X[..., 0])
    sums = graphls.grad(lambda x: ops.sum(nn.Upsample(scale_factor=(2, 3))(x)))(X)
    np.testing.assert_array_equal(sums.asnumpy(), np.full(X.shape, 6.0))


def test_nearest_keeps_infinities_to_themselves() -> None:
    x = X.copy()
    x[0, 0, 2, 2] = np.inf
    for mode in ("nearest", "bilinear"):
        for backend in BACKENDS:
            y = graphls.compile(nn.Upsample(size=(10, 12), mode=mode), x, backend=backend)(x).asnumpy()
            assert not np.isfinite(y[0, 0]).all() and np.isfinite(y[1:]).all() and np.isfinite(y[0, 1:]).all()
            assert np.isfinite(y[0, 0, :2]).all() and np.isfinite(y[0, 0, -2:]).all()


def test_pixels_and_channels() -> None:
    shuffled = X.reshape(2, 1, 2, 2, 5, 6).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 10, 12)
    agree(nn.PixelShuffle(2), shuffled, X)
    agree(nn.PixelUnshuffle(2), X, shuffled)
    agree(nn.PixelShuffle(2), shuffled[0], X[0])
    assert nn.PixelShuffle(2)(X[:0]).shape == (0, 1, 10, 12)
    agree(nn.Unflatten(1, (2, -1)), X.reshape(2, 2, 2, 5, 6), X)
    agree(nn.Unflatten(-1, (3, 2)), X.reshape(2, 4, 5, 3, 2), X)
    agree(nn.Flatten(0, 2), X.reshape(40, 6), X)
    agree(nn.Flatten(), X.reshape(2, 120), X)


SIDES = ((0, 0), (0, 0), (2, 1), (1, 3))
PADS: dict[str, tuple[nn.Cell, Any, Any]] = {
    "Pad": (nn.Pad(((1, 0), (0, 0), (2, 1), (1, 3))), X, np.pad(X, ((1, 0), *SIDES[1:]))),
    "Pad reflect": (nn.Pad(SIDES, "REFLECT"), X, np.pad(X, SIDES, mode="reflect")),
    "Pad symmetric": (nn.Pad(SIDES, "SYMMETRIC"), X, np.pad(X, SIDES, mode="symmetric")),
    "ConstantPad1d": (nn.ConstantPad1d((1, 3), 2.5), X, np.pad(X, ((0, 0),) * 3 + SIDES[3:], constant_values=2.5)),
    "ConstantPad2d": (nn.ConstantPad2d((1, 3, 2, 1), -1), X, np.pad(X, SIDES, constant_values=-1)),
    "ConstantPad3d": (nn.ConstantPad3d(1, 2.0), X, np.pad(X, ((0, 0), *[(1, 1)] * 3), constant_values=2.0)),
    "ZeroPad2d": (nn.ZeroPad2d((1, 3, 2, 1)), X, np.pad(X, SIDES)),
    "ZeroPad2d, negative": (nn.ZeroPad2d((-1, 0, 0, -2)), X, X[:, :, :-2, 1:]),
    "ReflectionPad1d": (nn.ReflectionPad1d((1, 3)), X[0], np.pad(X[0], ((0, 0), (0, 0), (1, 3)), mode="reflect")),
    "ReflectionPad2d": (nn.ReflectionPad2d((1, 3, 2, 1)), X, np.pad(X, SIDES, mode="reflect")),
    "ReflectionPad3d": (nn.ReflectionPad3d(2), X[None], np.pad(X[None], ((0, 0), (0, 0), *[(2, 2)] * 3), "reflect")),
    "ReplicationPad1d": (nn.ReplicationPad1d(2), X[0], np.pad(X[0], ((0, 0), (0, 0), (2, 2)), mode="edge")),
    "ReplicationPad2d": (nn.ReplicationPad2d((1, 3, 2, 1)), X, np.pad(X, SIDES, mode="edge")),
    "ReplicationPad3d": (nn.ReplicationPad3d(3), X, np.pad(X, ((0, 0), *[(3, 3)] * 3), mode="edge")),
}


@pytest.mark.parametrize("name", PADS)
def test_padding(name: str) -> None:
    cell, x, expected = PADS[name]
    agree(cell, expected, x)
    weights = RNG.normal(size=expected.shape).astype(np.float32)
    direction = RNG.normal(size=x.shape).astype(np.float32)
    gradient = graphls.grad(lambda x: ops.sum(cell(x) * graphls.Tensor(weights)))(x)
    moved = cell(x + direction).asnumpy() - cell(x).asnumpy()
    np.testing.assert_allclose((gradient.asnumpy() * direction).sum(), (moved * weights).sum(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("cell", "axes"), [(nn.Dropout1d, 1), (nn.Dropout2d, 2), (nn.Dropout3d, 3)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_channels_are_dropped_in_training(cell: Any, axes: int, backend: str) -> None:
    layer, x = cell(0.25), np.ones((40, 50, *[3] * axes), np.float32)
    np.testing.assert_array_equal(layer(x).asnumpy(), x)
    step = graphls.compile(layer.set_train(), x, backend=backend)
    first, second = step(x).asnumpy(), step(x).asnumpy()
    assert abs((first == 0).mean() - 0.25) < 0.05 and (first != second).any()
    channels = first.reshape(40, 50, -1)
    np.testing.assert_allclose(np.unique(channels), [0, 1 / 0.75], rtol=1e-6)
    assert (channels == channels[..., :1]).all(), "a channel goes as a whole"


def test_reductions() -> None:
    agree(nn.Moments((1, 2), True), (X.mean((1, 2), keepdims=True), X.var((1, 2), keepdims=True)), X, rtol=1e-4)
    agree(nn.Moments(), (X.mean(), X.var()), X, rtol=1e-4)
    agree(nn.Norm(1), np.linalg.norm(X, axis=1), X, rtol=1e-5)
    agree(nn.Norm((0, 2), keep_dims=True), np.sqrt((X**2).sum((0, 2), keepdims=True)), X, rtol=1e-5)
    large = X + 1000
    agree(nn.ReduceLogSumExp((1, -1)), np.log(np.exp(X.astype(float)).sum((1, 3))) + 1000, large, rtol=1e-6)
    agree(nn.ReduceLogSumExp((), True), np.log(np.exp(X).sum(keepdims=True)), X, rtol=1e-5)
    agree(nn.ReduceLogSumExp(1), np.full((2, 3), -np.inf), np.full((2, 4, 3), -np.inf, np.float32))
    half = nn.Moments()((X * 1000).astype(np.float16))
    assert half[0].dtype is graphls.float16 and np.isinf(half[1].asnumpy())


def test_clip_by_norm() -> None:
    whole = np.linalg.norm(X)
    agree(lambda x: nn.ClipByNorm()(x, 2.0), X * 2 / whole, X, rtol=1e-5)
    agree(lambda x: nn.ClipByNorm()(x, 200.0), X, X)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    limit = float(np.median(norms))
    agree(lambda x: nn.ClipByNorm(1)(x, limit), X * np.minimum(1, limit / norms), X, rtol=1e-5)
    zeros = graphls.grad(lambda x: ops.sum(nn.ClipByNorm()(x, 1.0)))(np.zeros(3, np.float32))
    np.testing.assert_array_equal(zeros.asnumpy(), np.ones(3))


WRONG: list[Any] = [
    (lambda: ops.interpolate(X), ValueError, "either a 'size' or a 'scale_factor'"),
    (lambda: ops.interpolate(X, 2, 2), ValueError, "either a 'size' or a 'scale_factor'"),
    (lambda: ops.interpolate(X, 2.5), TypeError, "'size' is one number, or 2"),
    (lambda: ops.interpolate(X, 0), ValueError, "so small"),
    (lambda: ops.interpolate(X, scale_factor=0.1), ValueError, "so small"),
    (lambda: ops.interpolate(X, (2, 2, 2)), TypeError, "'size'"),
    (lambda: ops.interpolate(X, 2, mode="cubic"), ValueError, "'mode'"),
    (lambda: ops.interpolate(X, 2, mode=["area"]), ValueError, "'mode'"),
    (lambda: ops.interpolate(X, 2, mode="linear"), ValueError, "rank 3"),
    (lambda: ops.interpolate(X, 2, align_corners=True), ValueError, "no 'align_corners'"),
    (lambda: ops.interpolate(X, 2, recompute_scale_factor=True), ValueError, "recompute_scale_factor"),
    (lambda: nn.ResizeBilinear()(X), ValueError, "either a 'size'"),
    (lambda: nn.ResizeBilinear()(X, 3), TypeError, "two integers"),
    (lambda: nn.ResizeBilinear()(X[0], (3, 3)), ValueError, "rank 4"),
    (lambda: nn.ResizeBilinear(True)(X, (3, 3), align_corners=True), ValueError, "'align_corners'"),
    (lambda: nn.PixelShuffle(3)(X), ValueError, "3 x 3 pixels of 4 channels"),
    (lambda: nn.PixelUnshuffle(4)(X), ValueError, "5 x 6 pixels by 4"),
    (lambda: ops.pixel_shuffle(X[0, 0], 2), ValueError, "rank 3 or more"),
    (lambda: ops.pixel_shuffle(X, 2.0), TypeError, "integer factor"),
    (lambda: nn.Unflatten(1, (3, -1))(X), ValueError, "axis of size 4"),
    (lambda: nn.Pad((1, 2)), TypeError, "a pair for each axis"),
    (lambda: nn.Pad(((1, 2),), "EDGE"), ValueError, "'EDGE'"),
    (lambda: nn.Pad(((1, 2),))(X), ValueError, "as many axes"),
    (lambda: nn.ZeroPad2d((1, 2)), TypeError, "an integer or 4"),
    (lambda: nn.ConstantPad1d(1, "a"), TypeError, "'value'"),
    (lambda: nn.ReflectionPad1d(1)(X), ValueError, "rank 2 or 3"),
    (lambda: nn.ReflectionPad2d(7)(X), ValueError, "pad"),
    (lambda: nn.Dropout2d(2.0), ValueError, "'p'"),
    (lambda: nn.Moments("a"), TypeError, "'axis'"),
    (lambda: nn.Norm(1.5), TypeError, "'axis'"),
    (lambda: nn.Moments(keep_dims=1), TypeError, "'keep_dims'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_layers_resize.py")
