"""Maximum and average over windows of images; `strides` and `pads` have the defaults of `Geometry`."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.graph import Value
from graphls.ir.types import Type, float32, int64
from graphls.primitives.primitive import Array, Primitive, f32, require_float, sample
from graphls.primitives.shape import reshaped
from graphls.primitives.windows import (
    Geometry,
    Pair,
    Shape,
    as_result,
    attributes,
    fold,
    in_single,
    require_windows,
    slices,
    transposed,
    windows,
)

_CASES: tuple[tuple[Shape, Shape, dict[str, Any]], ...] = (
    ((2, 3, 4, 6), (2, 3, 2, 3), {"kernel": (2, 2), "strides": (2, 2)}),
    ((1, 2, 5, 5), (1, 2, 3, 2), {"kernel": (3, 2), "strides": (1, 2)}),
    ((2, 1, 5, 6), (2, 1, 3, 4), {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 2)}),
    ((2, 2, 4, 4), (2, 2, 1, 1), {"kernel": (4, 4)}),
    ((0, 2, 4, 4), (0, 2, 2, 2), {"kernel": (2, 2), "strides": (2, 2)}),
)
_PADDED: dict[str, Any] = {**_CASES[2][2], "count_include_pad": True}


def _pooled(name: str, x: Type, kernel: Pair, at: Geometry) -> Type:
    """The type of a pooled x; raises GraphlsError where the windows do not fit."""
    require_float(name, x)
    require_windows(name, x, kernel, at)
    if at[2:] != Geometry()[2:]:
        raise GraphTypeError(f"{name} takes neither dilations nor groups.")
    if max(at.pads[::2]) >= kernel[0] or max(at.pads[1::2]) >= kernel[1]:
        raise GraphValueError(f"{name} takes padding smaller than its kernel {kernel}, not {at.pads}.")
    return x.with_shape((*x.shape[:2], *at.counts(x.shape, kernel)))


class MaxPool2d(Primitive):
    """The largest element of each window of images (N, C, H, W), nan where one is, and its position.

    The positions are int64 and count the elements of x in row-major order; the first of equal ones is taken.
    That of a window with nan, or with nothing but -inf, is not said. Padding is never the largest.
    """

    half = "exact"
    samples = tuple(sample(f32(*x), **attrs) for x, _, attrs in _CASES)

    def infer(self, x: Type, kernel: Pair, **geometry: Any) -> tuple[Type, Type]:
        y = _pooled(self.name, x, kernel, Geometry(**geometry))
        return y, y.with_dtype(int64)

    def numpy(self, x: Array, kernel: Pair, **geometry: Any) -> tuple[Array, Array]:
        at = Geometry(**geometry)
        seen = windows(x, kernel, at, fill=-np.inf)
        places = windows(np.arange(x.size).reshape(x.shape), kernel, at, fill=0)
        flat = (*seen.shape[:4], kernel[0] * kernel[1])
        found = np.argmax(seen.reshape(flat), axis=-1)[..., None]
        y, indices = (np.take_along_axis(a.reshape(flat), found, -1)[..., 0] for a in (seen, places))
        return y, indices

    def vjp(self, e: Builder, g: Any, x: Value, y: Value, indices: Value, kernel: Pair, **geometry: Any) -> Any:
        if g[0] is None:
            return None
        flat = e.reshape(g[0], shape=(y.type.size,))
        places = e.reshape(indices, shape=(y.type.size,))
        return e.reshape(e.gather_gradient(flat, places, axis=0, size=x.type.size), shape=x.type.shape)

    def onnx(self, e: Any, x: str, kernel: Pair, **geometry: Any) -> Any:
        """By strided slices: the CPU's MaxPool skips nans, and its positions took longer than all of this."""
        kind, y_kind = e.in_types[0], e.out_types[0]
        at, counts = Geometry(**geometry), (y_kind.shape[2], y_kind.shape[3])
        seen = slices(e, x, kernel, counts, at, fill=-np.inf)
        y = e.Max(*seen)
        offsets = [i * kind.shape[3] + j for i, j in np.ndindex(*kernel)]
        first = e.Add(_first_equal(e, seen, y, offsets), e.const(_corners(kind.shape, counts, at)))
        images = np.arange(0, kind.size, kind.shape[2] * kind.shape[3]).reshape(*kind.shape[:2], 1, 1)
        return y, e.Max(e.Add(first, e.const(images)), e.ints([0]))


def _corners(shape: Shape, counts: Pair, at: Geometry) -> Array:
    """The positions in one image of the first element of each window."""
    rows = at.strides[0] * np.arange(counts[0]) - at.pads[0]
    columns = at.strides[1] * np.arange(counts[1]) - at.pads[1]
    return np.asarray(np.add.outer(rows * shape[3], columns))


def _first_equal(e: Any, seen: list[str], y: str, offsets: list[int]) -> str:
    """The int64 offset of the first element that is not less than y, computed in floats, which hold it exactly.

    It is d1 * (x0 < y) + d2 * (x0 < y and x1 < y) + ... for the differences d of the offsets, from the inside out.
    """
    total = e.const(0.0, float32)
    for x, step in zip(seen[-2::-1], np.diff(offsets)[::-1], strict=True):
        total = e.Mul(e.cast(e.Less(x, y), float32), e.Add(total, e.const(step, float32)))
    return str(e.cast(total, int64))


class AvgPool2d(Primitive):
    """The mean of each window of images (N, C, H, W).

    Padding counts as zeros with `count_include_pad`, and else not at all.
    """

    samples = (*(sample(f32(*x), **attrs) for x, _, attrs in _CASES), sample(f32(2, 1, 5, 6), **_PADDED))

    def infer(self, x: Type, kernel: Pair, count_include_pad: bool = False, **geometry: Any) -> Type:
        return _pooled(self.name, x, kernel, Geometry(**geometry))

    def numpy(self, x: Array, kernel: Pair, count_include_pad: bool = False, **geometry: Any) -> Array:
        at = Geometry(**geometry)
        total = windows(x, kernel, at).sum(axis=(4, 5))
        return np.asarray(np.divide(total, _sizes(x.shape, kernel, at, count_include_pad), dtype=x.dtype))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, **attrs: Any) -> Any:
        return e.avg_pool2d_gradient(g, shape=x.type.shape, **attrs)

    def onnx(self, e: Any, x: str, kernel: Pair, count_include_pad: bool = False, **geometry: Any) -> Any:
        at = Geometry(**geometry)
        (single,) = in_single(e, x)
        if at.pads[:2] != at.pads[2:] or (count_include_pad and any(at.pads)):
            return as_result(e, _padded_first(e, single, kernel, at, count_include_pad))
        options = attributes(kernel, at) | {"count_include_pad": int(count_include_pad)}
        return as_result(e, e.AveragePool(single, **options))


def _padded_first(e: Any, x: str, kernel: Pair, at: Geometry, count_include_pad: bool) -> str:
    """Zeros around first, because newer runtimes miscount padding that is counted or that is uneven."""
    top, left, bottom, right = at.pads
    wide = e.Pad(x, e.ints([0, 0, top, left, 0, 0, bottom, right]))
    means = e.AveragePool(wide, **attributes(kernel, at._replace(pads=(0, 0, 0, 0))))
    share = kernel[0] * kernel[1] / _sizes(e.in_types[0].shape, kernel, at, count_include_pad)
    dtype = e.in_types[0].dtype
    return str(e.Mul(means, e.const(share, dtype if dtype.is_half else float32)))


def _sizes(shape: Shape, kernel: Pair, at: Geometry, count_include_pad: bool) -> Array:
    """How many elements the mean of each window is over, as float32 of shape (rows, columns)."""
    ones = np.ones((1, 1, *shape[2:]), np.float32)
    return np.asarray(windows(ones, kernel, at, fill=float(count_include_pad)).sum(axis=(4, 5))[0, 0])


class AvgPool2dGradient(Primitive):
    """The gradient of the images, which have the given shape, from that of their average pooling."""

    name = "avg_pool2d_gradient"
    samples = (
        *(sample(f32(*g), shape=x, **attrs) for x, g, attrs in _CASES),
        sample(f32(2, 1, 3, 4), shape=(2, 1, 5, 6), **_PADDED),
    )

    def infer(self, g: Type, shape: Shape, kernel: Pair, count_include_pad: bool = False, **geometry: Any) -> Type:
        x = g.with_shape(shape)
        expected = _pooled(self.name, x, kernel, Geometry(**geometry))
        if g != expected:
            raise GraphValueError(f"{self.name} takes the gradient of a {expected}, not a {g}.")
        return x

    def numpy(
        self, g: Array, shape: Shape, kernel: Pair, count_include_pad: bool = False, **geometry: Any
    ) -> Array:
        at = Geometry(**geometry)
        shares = np.divide(g, _sizes(shape, kernel, at, count_include_pad), dtype=g.dtype)
        return fold(np.broadcast_to(shares[..., None, None], (*g.shape, *kernel)), shape, at)

    def vjp(self, e: Builder, gg: Value, g: Value, out: Value, shape: Shape, **attrs: Any) -> Any:
        return e.avg_pool2d(gg, **attrs)

    def onnx(
        self, e: Any, g: str, shape: Shape, kernel: Pair, count_include_pad: bool = False, **geometry: Any
    ) -> Any:
        """A convolution of single channels; Expand took five times as long for all but one window."""
        at, dtype = Geometry(**geometry), e.in_types[0].dtype
        batch, channels, down, across = e.in_types[0].shape
        shares = e.Div(g, e.const(_sizes(shape, kernel, at, count_include_pad), dtype))
        if (down, across, *kernel) == (1, 1, *shape[2:]):
            return e.Expand(shares, e.ints(shape))
        shares = reshaped(e, shares, (batch * channels, 1, down, across))
        ones = e.const(np.ones((1, 1, *kernel)), dtype)
        return reshaped(e, transposed(e, shares, ones, shape, kernel, at), shape)
