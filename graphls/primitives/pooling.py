"""Maximum and average over windows of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import Value
from graphls.ir.types import Type, float32, int64
from graphls.primitives.primitive import Array, Primitive, f32, require_float, sample
from graphls.primitives.shape import reshaped
from graphls.primitives.windows import Pads, Pair, as_result, fold, in_single, remainders, window_counts, windows

Shape = tuple[int, ...]

_NO_PADS = (0, 0, 0, 0)
_CASES: tuple[tuple[Shape, Shape, dict[str, Any]], ...] = (
    ((2, 3, 4, 6), (2, 3, 2, 3), {"kernel": (2, 2), "strides": (2, 2)}),
    ((1, 2, 5, 5), (1, 2, 3, 2), {"kernel": (3, 2), "strides": (1, 2)}),
    ((2, 1, 5, 6), (2, 1, 3, 4), {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 2)}),
    ((2, 2, 4, 4), (2, 2, 1, 1), {"kernel": (4, 4), "strides": (1, 1)}),
    ((0, 2, 4, 4), (0, 2, 2, 2), {"kernel": (2, 2), "strides": (2, 2)}),
)


def _pooled(name: str, x: Type, kernel: Pair, strides: Pair, pads: Pads) -> Type:
    """The type of a pooled x; raises GraphlsError where the windows do not fit."""
    require_float(name, x)
    down, across = window_counts(name, x, kernel, strides, pads)
    if max(pads[0], pads[2]) >= kernel[0] or max(pads[1], pads[3]) >= kernel[1]:
        raise GraphValueError(f"{name} takes padding {pads} smaller than its kernel {kernel}.")
    return x.with_shape((*x.shape[:2], down, across))


class MaxPool2d(Primitive):
    """The largest element of each window of images (N, C, H, W), nan where one is, and its position.

    The positions are int64 and count the elements of x in row-major order; the first of equal ones is taken,
    and that of a window with nan is not said. Padding is never the largest. In ONNX a window of only -inf, or one
    of both infinities, gives the lowest number or nan.
    """

    half = "exact"
    samples = tuple(sample(f32(*x), **attrs) for x, _, attrs in _CASES)

    def infer(self, x: Type, kernel: Pair, strides: Pair = (1, 1), pads: Pads = _NO_PADS) -> tuple[Type, Type]:
        y = _pooled(self.name, x, kernel, strides, pads)
        return y, y.with_dtype(int64)

    def numpy(
        self, x: Array, kernel: Pair, strides: Pair = (1, 1), pads: Pads = _NO_PADS
    ) -> tuple[Array, Array]:
        view = windows(x, kernel, strides, pads, fill=-np.inf)
        positions = windows(np.arange(x.size).reshape(x.shape), kernel, strides, pads, fill=-1)
        flat = view.reshape(*view.shape[:4], kernel[0] * kernel[1])
        positions = positions.reshape(flat.shape)
        found = np.argmax(flat, axis=-1)[..., None]
        values, indices = (np.take_along_axis(a, found, -1)[..., 0] for a in (flat, positions))
        return values, np.where(indices < 0, positions.max(axis=-1, initial=0), indices)

    def vjp(
        self,
        e: Builder,
        g: Any,
        x: Value,
        y: Value,
        indices: Value,
        kernel: Pair,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
    ) -> Any:
        if g[0] is None:
            return None
        flat = e.reshape(g[0], shape=(y.type.size,))
        places = e.reshape(indices, shape=(y.type.size,))
        gx = e.gather_gradient(flat, places, axis=0, size=x.type.size)
        return e.reshape(gx, shape=x.type.shape)

    def onnx(
        self, e: Any, x: str, kernel: Pair, strides: Pair = (1, 1), pads: Pads = _NO_PADS
    ) -> Any:
        """The CPU's kernel skips nans, which an average keeps, and has no position where it saw nothing else."""
        attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        (x,) = in_single(e, x)
        y, indices = e.MaxPool(x, outputs=2, **attributes)
        lowest = e.const(-np.inf, e.in_types[0].dtype if e.in_types[0].dtype.is_half else float32)
        y = e.Max(y, e.Min(e.AveragePool(x, **attributes), lowest))
        return as_result(e, y), e.Max(indices, e.ints([0]))


class AvgPool2d(Primitive):
    """The mean of each window of images (N, C, H, W).

    Padding counts as zeros with `count_include_pad`, and else not at all.
    """

    samples = (
        *(sample(f32(*x), **attrs) for x, _, attrs in _CASES),
        sample(f32(2, 1, 5, 6), kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 2), count_include_pad=True),
    )

    def infer(
        self,
        x: Type,
        kernel: Pair,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        count_include_pad: bool = False,
    ) -> Type:
        return _pooled(self.name, x, kernel, strides, pads)

    def numpy(
        self,
        x: Array,
        kernel: Pair,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        count_include_pad: bool = False,
    ) -> Array:
        total = windows(x, kernel, strides, pads).sum(axis=(4, 5))
        return np.divide(total, _counts(x.shape, kernel, strides, pads, count_include_pad), dtype=x.dtype)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, **geometry: Any) -> Any:
        return e.avg_pool2d_gradient(g, shape=x.type.shape, **geometry)

    def onnx(
        self,
        e: Any,
        x: str,
        kernel: Pair,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        count_include_pad: bool = False,
    ) -> Any:
        (x,) = in_single(e, x)
        included = int(count_include_pad)
        y = e.AveragePool(x, kernel_shape=kernel, strides=strides, pads=pads, count_include_pad=included)
        return as_result(e, y)


def _counts(shape: Shape, kernel: Pair, strides: Pair, pads: Pads, count_include_pad: bool) -> Array:
    """How many elements the mean of each window is over, as float32 of shape (rows, columns)."""
    ones = np.ones((1, 1, *shape[2:]), np.float32)
    counts = windows(ones, kernel, strides, pads, fill=float(count_include_pad)).sum(axis=(4, 5))
    return np.asarray(counts[0, 0])


class AvgPool2dGradient(Primitive):
    """The gradient of the images, which have the given shape, from that of their average pooling."""

    name = "avg_pool2d_gradient"
    samples = (
        *(sample(f32(*g), shape=x, **attrs) for x, g, attrs in _CASES),
        sample(
            f32(2, 1, 3, 4), shape=(2, 1, 5, 6), kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 2), count_include_pad=True
        ),
    )

    def infer(
        self,
        g: Type,
        shape: Shape,
        kernel: Pair,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        count_include_pad: bool = False,
    ) -> Type:
        x = g.with_shape(shape)
        expected = _pooled(self.name, x, kernel, strides, pads)
        if g != expected:
            raise GraphValueError(f"{self.name} takes the gradient of a {expected}, not a {g}.")
        return x

    def numpy(
        self,
        g: Array,
        shape: Shape,
        kernel: Pair,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        count_include_pad: bool = False,
    ) -> Array:
        shares = np.divide(g, _counts(shape, kernel, strides, pads, count_include_pad), dtype=g.dtype)
        return fold(np.broadcast_to(shares[..., None, None], (*g.shape, *kernel)), shape, strides, pads)

    def vjp(self, e: Builder, gg: Value, g: Value, out: Value, shape: Shape, **geometry: Any) -> Any:
        return e.avg_pool2d(gg, **geometry)

    def onnx(
        self,
        e: Any,
        g: str,
        shape: Shape,
        kernel: Pair,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        count_include_pad: bool = False,
    ) -> Any:
        counts = _counts(shape, kernel, strides, pads, count_include_pad)
        shares = e.Div(g, e.const(counts, e.in_types[0].dtype))
        batch, channels, down, across = e.in_types[0].shape
        if kernel == strides and shape[2:] == (down * kernel[0], across * kernel[1]):
            spread = reshaped(e, shares, (batch, channels, down, 1, across, 1))
            spread = e.Expand(spread, e.ints((batch, channels, down, kernel[0], across, kernel[1])))
            return reshaped(e, spread, shape)
        (shares,) = in_single(e, reshaped(e, shares, (batch * channels, 1, down, across)))
        ones = e.const(np.ones((1, 1, *kernel)), e.in_types[0].dtype if e.in_types[0].dtype.is_half else float32)
        spread = e.ConvTranspose(
            shares, ones, strides=strides, pads=pads, output_padding=remainders(shape, kernel, strides, pads)
        )
        return reshaped(e, as_result(e, spread), shape)
