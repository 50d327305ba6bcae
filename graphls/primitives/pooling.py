"""Maximum and average pooling of images with one to three axes.

`strides`, `pads` and, for the maximum, `dilations` have the defaults of `Geometry.over`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import accumulate
from math import prod
from operator import add
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float32, float64, int32, int64
from graphls.primitives.emitter import Emitter
from graphls.primitives.im2col import convolved, transposed
from graphls.primitives.primitive import Array, Primitive, f32, require_float, sample
from graphls.primitives.shape import reshaped
from graphls.primitives.windows import (
    Geometry,
    Shape,
    apart,
    attributes,
    by_position,
    fold,
    padded,
    require_windows,
    slices,
    windows,
)

_CASES: tuple[tuple[Shape, Shape, dict[str, Any]], ...] = (
    ((2, 3, 4, 6), (2, 3, 2, 3), {"kernel": (2, 2), "strides": (2, 2)}),
    ((1, 2, 5, 5), (1, 2, 3, 2), {"kernel": (3, 2), "strides": (1, 2)}),
    ((2, 1, 5, 6), (2, 1, 3, 4), {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 2)}),
    ((2, 2, 4, 4), (2, 2, 1, 1), {"kernel": (4, 4)}),
    ((2, 2, 7), (2, 2, 4), {"kernel": (3,), "strides": (2,), "pads": (1, 1)}),
    ((1, 2, 3, 4, 3), (1, 2, 2, 2, 3), {"kernel": (2, 2, 1), "strides": (2, 2, 1), "pads": (1, 0, 0, 0, 0, 0)}),
    ((0, 2, 4, 4), (0, 2, 2, 2), {"kernel": (2, 2), "strides": (2, 2)}),
)
_PADDED: dict[str, Any] = {**_CASES[2][2], "count_include_pad": True}
_DILATED: dict[str, Any] = {"kernel": (2, 3), "strides": (1, 2), "pads": (1, 1, 0, 2), "dilations": (3, 2)}


def _pooled(name: str, x: Type, kernel: Shape, at: Geometry) -> Type:
    """The type of a pooled x; raises GraphlsError where the windows do not fit."""
    require_float(name, x)
    require_windows(name, x, kernel, at)
    if at.groups != 1:
        raise GraphTypeError(f"{name} takes no groups.")
    if any(max(sides) >= reach for sides, reach in zip(at.sides(), at.reach(kernel), strict=True)):
        raise GraphValueError(f"{name} takes padding smaller than its kernel {kernel}, not {at.pads}.")
    return x.with_shape((*x.shape[:2], *at.counts(x.shape, kernel)))


def _elements_in_windows(y: Type, kernel: Shape) -> int:
    """The number of elements in all windows of the result y."""
    return y.size * prod(kernel)


class MaxPool(Primitive):
    """The largest element of each window of images (N, C, sizes...), nan where one is, and its position.

    The positions are int64 and count the elements of x in row-major order: that of the first of equal ones, and in a
    window with nan that of the first nan or infinity. In a window of -inf only it is unspecified. Padding never wins.
    """

    half = "exact"
    gives_positions = True
    session_from = 1 << 18
    keywords = Geometry.over
    samples = (*(sample(f32(*x), **attrs) for x, _, attrs in _CASES), sample(f32(1, 2, 6, 7), **_DILATED))

    def infer(self, x: Type, kernel: Shape, **geometry: Any) -> tuple[Type, Type]:
        y = _pooled(self.name, x, kernel, Geometry.over(kernel, **geometry))
        return y, y.with_dtype(int64)

    def numpy(self, x: Array, kernel: Shape, **geometry: Any) -> tuple[Array, Array]:
        at, image = Geometry.over(kernel, **geometry), prod(x.shape[2:])
        patches = by_position(x, kernel, at, fill=-np.inf)
        indices = by_position(np.arange(image).reshape(1, 1, *x.shape[2:]), kernel, at)
        y, first = patches[0].copy(), np.broadcast_to(indices[0], patches[0].shape).copy()
        has_nan = np.isnan(x).any()
        for values, positions in zip(patches[1:], indices[1:], strict=True):
            is_larger = values > y
            if has_nan:
                is_larger |= np.isnan(values) & (y < np.inf)
            np.copyto(first, positions, where=is_larger)
            np.maximum(y, values, out=y)
        return y, first + image * np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(kernel))

    def xla(self, jax: Any, x: Any, kernel: Shape, **geometry: Any) -> tuple[Any, Any]:
        """One loop over all windows, which is faster on CPUs than a reduce_window without positions."""
        jnp, at, image = jax.numpy, Geometry.over(kernel, **geometry), prod(x.shape[2:])
        steps = row_major_strides(x.shape[2:])
        y, *others = by_position(x, kernel, at, fill=-np.inf)
        first = jnp.zeros(y.shape, np.int32)
        for values, offset in zip(others, _offsets(kernel, steps, at)[1:], strict=True):
            is_larger = (values > y) | (jnp.isnan(values) & (y < np.inf))
            y, first = jnp.maximum(y, values), jnp.where(is_larger, np.int32(offset), first)
        images = image * np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(kernel))
        return y, jnp.maximum(first + images + corners(steps, y.shape[2:], at), 0)

    def vjp(self, e: Builder, g: Any, x: Value, y: Value, indices: Any, kernel: Shape, **geometry: Any) -> Any:
        if g[0] is None:
            return None
        flat = e.reshape(g[0], shape=(y.type.size,))
        if x.type.size < 2**31:  # some engines have no int64
            indices = e.cast(indices, dtype=int32)
        positions = e.reshape(indices, shape=(y.type.size,))
        return e.reshape(e.gather_gradient(flat, positions, axis=0, size=x.type.size), shape=x.type.shape)

    def onnx(self, e: Emitter, x: str, kernel: Shape, **geometry: Any) -> tuple[str, ...]:
        """By strided slices: the CPU's MaxPool skips nans, and its position output was slower."""
        kind, counts = e.in_types[0], e.out_types[0].shape[2:]
        at = Geometry.over(kernel, **geometry)
        parts = slices(e, x, kernel, counts, at, fill=-np.inf)
        y = e.Max(*parts)
        steps = row_major_strides(kind.shape[2:])
        offsets = _offsets(kernel, steps, at)
        bound = e.Where(e.IsNaN(y), e.const(np.inf, kind.dtype), y)
        first = e.Add(_first_equal(e, parts, bound, offsets), e.const(corners(steps, counts, at)))
        images = prod(kind.shape[2:]) * np.arange(prod(kind.shape[:2])).reshape(*kind.shape[:2], *[1] * len(kernel))
        return y, e.Max(e.Add(first, e.const(images)), e.ints([0]))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """A comparison for each element of each window, padding included."""
        return _elements_in_windows(outputs[0], attrs["kernel"])


def row_major_strides(sizes: Shape) -> Shape:
    """The row-major stride of each axis of an image, in elements."""
    return tuple(accumulate((1, *sizes[:0:-1]), lambda a, b: a * b))[::-1]


def _offsets(kernel: Shape, steps: Shape, at: Geometry) -> list[int]:
    """The distance of each position in the kernel from the first one, in elements of an image."""
    return [int(np.dot(np.multiply(position, at.dilations), steps)) for position in np.ndindex(*kernel)]


def corners(steps: Shape, counts: Shape, at: Geometry) -> Array:
    """The positions in one image of the first element of each window."""
    total: Array = np.zeros(counts, np.int64)
    for i, (step, count) in enumerate(zip(steps, counts, strict=True)):
        starts = step * (at.strides[i] * np.arange(count) - at.pads[i])
        total = total + starts.reshape([-1 if j == i else 1 for j in range(len(counts))])
    return total


def _first_equal(e: Emitter, parts: list[str], y: str, offsets: list[int]) -> str:
    """The int64 offset of the first element that is nan or not less than y, computed in floats, which are exact here.

    It is d1 * (x0 < y) + d2 * (x0 < y and x1 < y) + ... for the differences d of the offsets, evaluated from the end.
    """
    total = e.const(0.0, float32)
    for x, step in zip(parts[-2::-1], np.diff(offsets)[::-1], strict=True):
        total = e.Mul(e.cast(e.Less(x, y), float32), e.Add(total, e.const(step, float32)))
    return e.cast(total, int64)


class AvgPool(Primitive):
    """The mean of each window of images (N, C, sizes...).

    Padding counts as zeros with `count_include_pad`, else not at all.
    """

    session_from = 1 << 18
    keywords = Geometry.over
    samples = (*(sample(f32(*x), **attrs) for x, _, attrs in _CASES), sample(f32(2, 1, 5, 6), **_PADDED))

    def infer(self, x: Type, kernel: Shape, count_include_pad: bool = False, **geometry: Any) -> Type:
        return _averaged(self.name, x, kernel, Geometry.over(kernel, **geometry))

    def numpy(self, x: Array, kernel: Shape, count_include_pad: bool = False, **geometry: Any) -> Array:
        at = Geometry.over(kernel, **geometry)
        total = reduce(add, by_position(x, kernel, at))
        result: Array = total / _sizes(x.shape, kernel, at, count_include_pad).astype(x.dtype)
        return result

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, **attrs: Any) -> Any:
        return e.avg_pool_gradient(g, shape=x.type.shape, **attrs)

    def onnx(self, e: Emitter, x: str, kernel: Shape, count_include_pad: bool = False, **geometry: Any) -> str:
        at = Geometry.over(kernel, **geometry)
        if e.in_types[0].dtype is float64:
            return _summed(e, x, kernel, at, count_include_pad)
        if at.is_uneven() or (count_include_pad and any(at.pads)):
            return _padded_first(e, x, kernel, at, count_include_pad)
        return _averages(e, x, e.in_types[0].shape, kernel, at)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """An addition for each element of each window, padding included; the last one counts as the division."""
        return _elements_in_windows(outputs[0], attrs["kernel"])


def _averaged(name: str, x: Type, kernel: Shape, at: Geometry) -> Type:
    """The type of an averaged x; raises GraphlsError where the windows do not fit."""
    if set(at.dilations) != {1}:
        raise GraphTypeError(f"{name} takes no dilations.")
    return _pooled(name, x, kernel, at)


def _pool_attributes(kernel: Shape, at: Geometry) -> dict[str, Any]:
    options = attributes(kernel, at)
    del options["dilations"]
    return options


def _averages(e: Emitter, x: str, shape: Shape, kernel: Shape, at: Geometry) -> str:
    """AveragePool itself on a tensor of that shape."""
    return e.AveragePool(apart(e, x, shape), **_pool_attributes(kernel, at))


def _padded_first(e: Emitter, x: str, kernel: Shape, at: Geometry, count_include_pad: bool) -> str:
    """Pads with zeros first, because newer runtimes miscount uneven padding and padding that counts."""
    shape, inner = e.in_types[0].shape, at.without_pads()
    sizes = (n + first + last for n, (first, last) in zip(shape[2:], at.sides(), strict=True))
    means = _averages(e, padded(e, x, at), (*shape[:2], *sizes), kernel, inner)
    share = prod(kernel) / _sizes(shape, kernel, at, count_include_pad)
    return e.Mul(means, e.const(share, e.in_types[0].dtype))


def _summed(e: Emitter, x: str, kernel: Shape, at: Geometry, count_include_pad: bool) -> str:
    """Sums by a convolution of single channels, for a dtype without AveragePool."""
    shape, dtype = e.in_types[0].shape, e.in_types[0].dtype
    images = (shape[0] * shape[1], 1, *shape[2:])
    ones = e.const(np.ones((1, 1, *kernel)), dtype)
    total = convolved(e, reshaped(e, x, images), ones, images, (1, 1, *kernel), at)
    total = reshaped(e, total, e.out_types[0].shape)
    return e.Div(total, e.const(_sizes(shape, kernel, at, count_include_pad), dtype))


def _sizes(shape: Shape, kernel: Shape, at: Geometry, count_include_pad: bool) -> Array:
    """The element count of each window's mean, as float32 in the shape of one image of the result."""
    ones = np.ones((1, 1, *shape[2:]), np.float32)
    patches = windows(ones, kernel, at, fill=float(count_include_pad))[0, 0]
    return np.asarray(patches.reshape(*patches.shape[: len(kernel)], -1).sum(axis=-1))


class AvgPoolGradient(Primitive):
    """The gradient in the images, which have the given shape, from that of their average pooling."""

    session_from = 1 << 18
    keywords = Geometry.over
    samples = (
        *(sample(f32(*g), shape=x, **attrs) for x, g, attrs in _CASES),
        sample(f32(2, 1, 3, 4), shape=(2, 1, 5, 6), **_PADDED),
    )

    def infer(self, g: Type, shape: Shape, kernel: Shape, count_include_pad: bool = False, **geometry: Any) -> Type:
        x = g.with_shape(shape)
        expected = _averaged(self.name, x, kernel, Geometry.over(kernel, **geometry))
        if g != expected:
            raise GraphValueError(f"{self.name} takes the gradient of a {expected}, not a {g}.")
        return x

    def numpy(self, g: Array, shape: Shape, kernel: Shape, count_include_pad: bool = False, **geometry: Any) -> Array:
        at = Geometry.over(kernel, **geometry)
        shares = np.divide(g, _sizes(shape, kernel, at, count_include_pad), dtype=g.dtype)
        every = shares.reshape(*g.shape, *[1] * len(kernel))
        return fold(np.broadcast_to(every, (*g.shape, *kernel)), shape, at)

    def xla(
        self, jax: Any, g: Any, shape: Shape, kernel: Shape, count_include_pad: bool = False, **geometry: Any
    ) -> Any:
        """Sums of the spread gradient along one axis after the other, with fewer terms than those of all positions."""
        at = Geometry.over(kernel, **geometry)
        shares = g / _sizes(shape, kernel, at, count_include_pad).astype(g.dtype)
        sides = [(*pads, s - 1) for pads, s in zip(at.adjoint_sides(shape, kernel), at.strides, strict=True)]
        total = jax.lax.pad(shares, g.dtype.type(0), [(0, 0, 0), (0, 0, 0), *sides])
        for axis, size in enumerate(kernel, 2):
            total = sum(jax.lax.slice_in_dim(total, i, i + shape[axis], axis=axis) for i in range(size))
        return total

    def vjp(self, e: Builder, gg: Value, g: Value, out: Value, shape: Shape, **attrs: Any) -> Any:
        return e.avg_pool(gg, **attrs)

    def onnx(
        self, e: Emitter, g: str, shape: Shape, kernel: Shape, count_include_pad: bool = False, **geometry: Any
    ) -> Any:
        """A transposed convolution of single channels; Expand took five times as long except for one window."""
        at, dtype = Geometry.over(kernel, **geometry), e.in_types[0].dtype
        batch, channels, *counts = e.in_types[0].shape
        shares = e.Div(g, e.const(_sizes(shape, kernel, at, count_include_pad), dtype))
        if set(counts) == {1} and kernel == tuple(shape[2:]):
            return e.Expand(shares, e.ints(shape))
        images = (batch * channels, 1, *shape[2:])
        ones = e.const(np.ones((1, 1, *kernel)), dtype)
        shares = reshaped(e, shares, (batch * channels, 1, *counts))
        return reshaped(e, transposed(e, shares, ones, images, (1, 1, *kernel), at), shape)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """An addition for each element of each window, padding included, and a division for each window."""
        return _elements_in_windows(inputs[0], attrs["kernel"]) + inputs[0].size
