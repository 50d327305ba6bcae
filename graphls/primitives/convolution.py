"""Convolution of images with one to three axes and its two adjoints, each of which the others differentiate.

All three take `strides`, `pads`, `dilations` and `groups`, with the defaults of `Geometry.over`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float64
from graphls.primitives import convolution_in_xla as in_xla
from graphls.primitives.emitter import Emitter
from graphls.primitives.im2col import convolved, transposed, weight_gradient
from graphls.primitives.primitive import Array, Primitive, f32, require_float, sample
from graphls.primitives.shape import concatenated, reshaped
from graphls.primitives.windows import Geometry, Shape, attributes, fold, padded, require_windows, windows

_CASES: tuple[tuple[Shape, Shape, Shape, dict[str, Any]], ...] = (
    ((2, 3, 5, 4), (4, 3, 3, 2), (2, 4, 3, 3), {}),
    ((2, 2, 5, 6), (4, 2, 3, 3), (2, 4, 3, 3), {"strides": (2, 2), "pads": (1, 0, 1, 1)}),
    (
        (1, 4, 6, 7),
        (2, 2, 2, 3),
        (1, 2, 4, 3),
        {"pads": (0, 2, 1, 0), "dilations": (3, 2), "strides": (1, 2), "groups": 2},
    ),
    ((2, 3, 4, 4), (3, 1, 1, 1), (2, 3, 2, 2), {"strides": (3, 3), "groups": 3}),
    ((2, 8, 4, 3), (3, 8, 2, 2), (2, 3, 2, 3), {"strides": (2, 1), "pads": (0, 1, 1, 0)}),
    ((2, 4, 7), (2, 2, 3), (2, 2, 4), {"strides": (2,), "pads": (1, 1), "groups": 2}),
    ((1, 2, 3, 4, 3), (3, 2, 2, 1, 2), (1, 3, 2, 2, 3), {"strides": (2, 2, 1), "pads": (1, 0, 0, 0, 0, 1)}),
    ((0, 2, 3, 3), (1, 2, 3, 3), (0, 1, 1, 1), {}),
)
_FEW = 8
"""Channels below which the slices of a float32 image are joined faster than its windows are gathered."""


def _convolved(name: str, x: Type, w: Type, at: Geometry) -> Type:
    """The type of the convolution of x with w; raises GraphlsError where they do not fit."""
    require_float(name, x, w)
    if w.rank < 3:
        raise GraphValueError(f"{name} takes kernels of shape (outputs, inputs, sizes...), not {w}.")
    require_windows(name, x, w.shape[2:], at)
    if x.shape[1] != w.shape[1] * at.groups or w.shape[0] % at.groups:
        is_last = x.shape[-1] == w.shape[1] * at.groups
        advice = "; images have their channels on axis 1, and these seem to have them last: transpose them"
        raise GraphValueError(
            f"{name} with {at.groups} groups cannot apply kernels {w} to images {x}{advice if is_last else ''}."
        )
    return x.with_shape((x.shape[0], w.shape[0], *at.counts(x.shape, w.shape[2:])))


def _require_gradient(name: str, g: Type, expected: Type) -> None:
    if g != expected:
        raise GraphValueError(f"{name} takes the gradient of a {expected}, not a {g}.")


def _products(y: Type, kernels: Shape) -> int:
    """The operations of a convolution with the result y: a product and a sum per element of y and of one kernel."""
    return 2 * y.size * prod(kernels[1:])


def _of_windows(g: Array, groups: int) -> Array:
    """The outputs of all windows, as (batch, groups, outputs of a group, windows)."""
    return g.reshape(g.shape[0], groups, g.shape[1] // groups, prod(g.shape[2:]))


def _columns(x: Array, kernel: Shape, at: Geometry) -> Array:
    """im2col: the windows as matrices (batch, groups, inputs of a group * positions in the kernel, windows)."""
    patches = _kernel_first(windows(x, kernel, at))
    counts = patches.shape[2 + len(kernel) :]
    return patches.reshape(x.shape[0], at.groups, x.shape[1] // at.groups * prod(kernel), prod(counts))


def _kernel_first(patches: Array) -> Array:
    """Transposes (batch, channels, windows..., kernel...) to (batch, channels, kernel..., windows...), and back."""
    axes = patches.ndim // 2 - 1
    return np.moveaxis(patches, range(2, 2 + axes), range(-axes, 0))


def _in_rows(array: Array, groups: int) -> Array:
    """Kernels as (groups, outputs of a group, inputs * positions)."""
    return array.reshape(groups, array.shape[0] // groups, prod(array.shape[1:]))


class Convolution(Primitive):
    """The cross-correlation of images (N, C, sizes...) with kernels (O, C / groups, kernel...); floats.

    The result is (N, O, windows...), with one element for each window of the zero-padded images.
    """

    is_convolution = True
    is_product = True
    lowered_at = ("O1", "auto")
    session_from = 1 << 20
    keywords = Geometry.over
    samples = tuple(sample(f32(*x), f32(*w), **attrs) for x, w, _, attrs in _CASES)

    def infer(self, x: Type, w: Type, **geometry: Any) -> Type:
        return _convolved(self.name, x, w, Geometry.over(w.shape[2:], **geometry))

    def numpy(self, x: Array, w: Array, **geometry: Any) -> Array:
        at = Geometry.over(w.shape[2:], **geometry)
        y = np.matmul(_in_rows(w, at.groups), _columns(x, w.shape[2:], at))
        return np.asarray(y.reshape(x.shape[0], w.shape[0], *at.counts(x.shape, w.shape[2:])))

    def xla(self, jax: Any, x: Any, w: Any, **geometry: Any) -> Any:
        return in_xla.convolved(jax, x, w, Geometry.over(w.shape[2:], **geometry))

    def vjp(self, e: Builder, g: Value, x: Value, w: Value, y: Value, **geometry: Any) -> Any:
        gx = e.convolution_input_gradient(g, w, shape=x.type.shape, **geometry)
        return gx, e.convolution_weight_gradient(x, g, shape=w.type.shape, **geometry)

    def summed_axes(self, x: Type, w: Type, **geometry: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The channels and the positions of both."""
        axes = tuple(range(1, x.rank))
        return axes, axes

    def onnx(self, e: Emitter, x: str, w: str, **geometry: Any) -> str:
        shape, kernels = (t.shape for t in e.in_types[:2])
        return convolved(e, x, w, shape, kernels, Geometry.over(kernels[2:], **geometry))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """A multiplication and an addition for each element of each window, padding included."""
        return _products(outputs[0], inputs[1].shape)


class ConvolutionAdd(Primitive):
    """`convolution` of images and kernels plus a bias for each channel (O); 16-bit floats round after the sum."""

    is_convolution = True
    is_product = True
    lowered_at = ("O1", "auto")
    keywords = Geometry.over
    samples = tuple(sample(f32(*x), f32(*w), f32(w[0]), **attrs) for x, w, _, attrs in _CASES)

    def infer(self, x: Type, w: Type, c: Type, **geometry: Any) -> Type:
        require_float(self.name, x, w, c)
        if c.shape != w.shape[:1]:
            raise GraphValueError(f"{self.name} adds a number for each of {w.shape[0]} channels, not {c}.")
        return _convolved(self.name, x, w, Geometry.over(w.shape[2:], **geometry))

    def numpy(self, x: Array, w: Array, c: Array, **geometry: Any) -> Array:
        return np.asarray(_CONVOLUTION.numpy(x, w, **geometry) + c.reshape(-1, *(1,) * (x.ndim - 2)))

    def xla(self, jax: Any, x: Any, w: Any, c: Any, **geometry: Any) -> Any:
        """The sum is in float32 for 16-bit floats, so that it rounds once."""
        y = _CONVOLUTION.xla(jax, x, w, **geometry)
        return y + c.astype(y.dtype).reshape(-1, *(1,) * (x.ndim - 2))

    def vjp(self, e: Builder, g: Value, x: Value, w: Value, c: Value, y: Value, **geometry: Any) -> Any:
        axes = tuple(i for i in range(g.type.rank) if i != 1)
        return *_CONVOLUTION.vjp(e, g, x, w, y, **geometry), e.sum(g, axis=axes)

    def summed_axes(self, x: Type, w: Type, c: Type, **geometry: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those of the convolution."""
        return _CONVOLUTION.summed_axes(x, w)

    def onnx(self, e: Emitter, x: str, w: str, c: str, **geometry: Any) -> str:
        """One operator in 16 bits, so that it rounds once."""
        kind, kernels = (t.shape for t in e.in_types[:2])
        if e.is_gpu or not e.in_types[0].dtype.is_half:
            return e.Add(_CONVOLUTION.onnx(e, x, w, **geometry), reshaped(e, c, (-1, *(1,) * (len(kind) - 2))))
        at = Geometry.over(kernels[2:], **geometry)
        return e.Conv(x, w, c, **attributes(kernels[2:], at), group=at.groups)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """The operations of the convolution, and an addition for each element."""
        return _CONVOLUTION.flops(inputs, outputs, attrs) + outputs[0].size


_CONVOLUTION = Convolution()


class ConvolutionInputGradient(Primitive):
    """The gradient in the images, which have the given shape, from that of a convolution with w.

    Of five lowerings ConvTranspose was the fastest for small images and near the fastest for large ones.
    """

    is_convolution = True
    is_product = True
    lowered_at = ("O1", "auto")
    session_from = 1 << 20
    keywords = Geometry.over
    samples = tuple(sample(f32(*g), f32(*w), shape=x, **attrs) for x, w, g, attrs in _CASES)

    def infer(self, g: Type, w: Type, shape: Shape, **geometry: Any) -> Type:
        x = g.with_shape(shape)
        _require_gradient(self.name, g, _convolved(self.name, x, w, Geometry.over(w.shape[2:], **geometry)))
        return x

    def numpy(self, g: Array, w: Array, shape: Shape, **geometry: Any) -> Array:
        at, kernel = Geometry.over(w.shape[2:], **geometry), w.shape[2:]
        columns = np.matmul(_in_rows(w, at.groups).swapaxes(1, 2), _of_windows(g, at.groups))
        patches = columns.reshape(*shape[:2], *kernel, *g.shape[2:])
        return fold(_kernel_first(patches), shape, at)

    def xla(self, jax: Any, g: Any, w: Any, shape: Shape, **geometry: Any) -> Any:
        return in_xla.input_gradient(jax, g, w, shape, Geometry.over(w.shape[2:], **geometry))

    def vjp(self, e: Builder, gg: Value, g: Value, w: Value, out: Value, shape: Shape, **geometry: Any) -> Any:
        gw = e.convolution_weight_gradient(gg, g, shape=w.type.shape, **geometry)
        return e.convolution(gg, w, **geometry), gw

    def summed_axes(self, g: Type, w: Type, **attrs: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The channels of the gradient, which are the first axis of the kernels, and the positions of both."""
        positions = tuple(range(2, g.rank))
        return (1, *positions), (0, *positions)

    def onnx(self, e: Emitter, g: str, w: str, shape: Shape, **geometry: Any) -> str:
        kernels = e.in_types[1].shape
        return transposed(e, g, w, shape, kernels, Geometry.over(kernels[2:], **geometry))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """The products of the convolution."""
        return _products(inputs[0], inputs[1].shape)


class ConvolutionWeightGradient(Primitive):
    """The gradient in the kernels, which have the given shape, from that of a convolution of x.

    One matrix product over all windows of all images was faster than a convolution with batch and channels exchanged.
    """

    is_product = True
    session_from = 1 << 20
    keywords = Geometry.over
    samples = tuple(sample(f32(*x), f32(*g), shape=w, **attrs) for x, w, g, attrs in _CASES)

    def infer(self, x: Type, g: Type, shape: Shape, **geometry: Any) -> Type:
        w = x.with_shape(shape)
        _require_gradient(self.name, g, _convolved(self.name, x, w, Geometry.over(shape[2:], **geometry)))
        return w

    def numpy(self, x: Array, g: Array, shape: Shape, **geometry: Any) -> Array:
        at = Geometry.over(shape[2:], **geometry)
        patches = np.moveaxis(_kernel_first(windows(x, shape[2:], at)), 0, len(shape) - 1)
        every = x.shape[0] * prod(g.shape[2:])
        columns = patches.reshape(at.groups, prod(shape[1:]), every)
        rows = g.swapaxes(0, 1).reshape(at.groups, shape[0] // at.groups, every)
        return np.asarray(np.matmul(rows, columns.swapaxes(1, 2)).reshape(shape))

    def xla(self, jax: Any, x: Any, g: Any, shape: Shape, **geometry: Any) -> Any:
        return in_xla.weight_gradient(jax, x, g, shape, Geometry.over(shape[2:], **geometry))

    def vjp(self, e: Builder, gg: Value, x: Value, g: Value, out: Value, shape: Shape, **geometry: Any) -> Any:
        gx = e.convolution_input_gradient(g, gg, shape=x.type.shape, **geometry)
        return gx, e.convolution(x, gg, **geometry)

    def summed_axes(self, x: Type, g: Type, **attrs: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The images and the positions of both."""
        axes = 0, *range(2, x.rank)
        return axes, axes

    def onnx(self, e: Emitter, x: str, g: str, shape: Shape, **geometry: Any) -> str:
        at = Geometry.over(shape[2:], **geometry)
        if not e.in_types[1].size:
            return e.const(np.zeros(shape), e.out_types[0].dtype)
        if e.in_types[0].dtype is float64 or (at.groups == 1 and shape[1] >= _FEW):
            return weight_gradient(e, x, g, e.in_types[0].shape, shape, at)
        return _by_slices(e, x, g, shape, at)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """The products of the convolution."""
        return _products(inputs[1], attrs["shape"])


def _by_slices(e: Emitter, x: str, g: str, shape: Shape, at: Geometry) -> str:
    """The matrix product where windows have few channels: each position in the kernel has a row for each of them."""
    outputs, inputs = shape[:2]
    batch, _, *counts = e.in_types[1].shape
    positions, windows_of_all = prod(shape[2:]), batch * prod(counts)
    order = (1, 0, *range(2, len(shape)))
    sizes = at.with_sides(e.in_types[0].shape)
    moved = e.Transpose(padded(e, x, at), perm=order)
    patches = _slices_by_position(e, reshaped(e, moved, (at.groups, 1, inputs, batch, *sizes)), shape[2:], counts, at)
    g = e.Transpose(g, perm=order)
    if at.groups == 1:  # no runtime copies the columns for this form
        rows, columns = (reshaped(e, t, (-1, windows_of_all)) for t in (g, patches))
        product = e.Gemm(rows, columns, transB=1)
    else:
        columns = reshaped(e, patches, (at.groups, positions * inputs, windows_of_all))
        grouped = reshaped(e, g, (at.groups, outputs // at.groups, windows_of_all))
        product = e.MatMul(grouped, e.Transpose(columns, perm=(0, 2, 1)))
    product = e.Transpose(reshaped(e, product, (outputs, positions, inputs)), perm=(0, 2, 1))
    return reshaped(e, product, shape)


def _slices_by_position(e: Emitter, x: str, kernel: Shape, counts: Sequence[int], at: Geometry) -> str:
    """The elements of x, (groups, 1, inputs, batch, sizes...), at each position of a kernel in all windows, on axis 1.

    One axis after the other, from the last on: a kernel of 5x5 makes 10 slices, of which 5 are long rows, and not 25.
    """
    for axis in reversed(range(len(kernel))):
        starts = [i * at.dilations[axis] for i in range(kernel[axis])]
        reach = at.strides[axis] * (counts[axis] - 1) + 1
        along, steps = e.ints([4 + axis]), e.ints([at.strides[axis]])
        parts = [e.Slice(x, e.ints([start]), e.ints([start + reach]), along, steps) for start in starts]
        x = concatenated(e, parts, axis=1)
    return x
