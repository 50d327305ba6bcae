"""Two-dimensional convolution and its two adjoints, each of which the others differentiate.

All three take `strides`, `pads`, `dilations` and `groups`, with the defaults of `Geometry`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import Value
from graphls.ir.types import Type
from graphls.primitives.primitive import Array, Primitive, f32, require_float, sample
from graphls.primitives.shape import reshaped
from graphls.primitives.windows import (
    Geometry,
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
    ((0, 2, 3, 3), (1, 2, 3, 3), (0, 1, 1, 1), {}),
)


def _convolved(name: str, x: Type, w: Type, at: Geometry) -> Type:
    """The type of the convolution of x with w; raises GraphlsError where they do not fit."""
    require_float(name, x, w)
    if w.rank != 4:
        raise GraphValueError(f"{name} takes kernels of shape (outputs, inputs, height, width), not {w}.")
    require_windows(name, x, w.shape[2:], at)
    if x.shape[1] != w.shape[1] * at.groups or w.shape[0] % at.groups:
        raise GraphValueError(f"{name} with {at.groups} groups cannot apply kernels {w} to images {x}.")
    return x.with_shape((x.shape[0], w.shape[0], *at.counts(x.shape, w.shape[2:])))


def _require_gradient(name: str, g: Type, expected: Type) -> None:
    if g != expected:
        raise GraphValueError(f"{name} takes the gradient of a {expected}, not a {g}.")


def _in_groups(array: Array, axis: int, groups: int) -> Array:
    """The array with an axis split into the groups and what each of them has."""
    shape = array.shape
    return array.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


class Conv2d(Primitive):
    """The cross-correlation of images (N, C, H, W) with kernels (O, C / groups, height, width); floats.

    The result is (N, O, rows, columns), for as many windows as lie on the images padded with zeros. In ONNX a
    float64 is computed in float32.
    """

    samples = tuple(sample(f32(*x), f32(*w), **attrs) for x, w, _, attrs in _CASES)

    def infer(self, x: Type, w: Type, **geometry: Any) -> Type:
        return _convolved(self.name, x, w, Geometry(**geometry))

    def numpy(self, x: Array, w: Array, **geometry: Any) -> Array:
        at = Geometry(**geometry)
        seen = _in_groups(windows(x, w.shape[2:], at), 1, at.groups)
        y = np.einsum("ngchwij,gocij->ngohw", seen, _in_groups(w, 0, at.groups), optimize=True)
        return np.asarray(y.reshape(x.shape[0], w.shape[0], *y.shape[3:]))

    def vjp(self, e: Builder, g: Value, x: Value, w: Value, y: Value, **geometry: Any) -> Any:
        gx = e.conv2d_input_gradient(g, w, shape=x.type.shape, **geometry)
        return gx, e.conv2d_weight_gradient(x, g, shape=w.type.shape, **geometry)

    def onnx(self, e: Any, x: str, w: str, **geometry: Any) -> Any:
        at, kernel = Geometry(**geometry), e.in_types[1].shape[2:]
        return as_result(e, e.Conv(*in_single(e, x, w), **attributes(kernel, at), group=at.groups))


class Conv2dInputGradient(Primitive):
    """The gradient of the images, which have the given shape, from that of a convolution with w.

    Of five lowerings ConvTranspose was the fastest for small images and near the fastest for large ones.
    """

    name = "conv2d_input_gradient"
    samples = tuple(sample(f32(*g), f32(*w), shape=x, **attrs) for x, w, g, attrs in _CASES)

    def infer(self, g: Type, w: Type, shape: Shape, **geometry: Any) -> Type:
        x = g.with_shape(shape)
        _require_gradient(self.name, g, _convolved(self.name, x, w, Geometry(**geometry)))
        return x

    def numpy(self, g: Array, w: Array, shape: Shape, **geometry: Any) -> Array:
        at = Geometry(**geometry)
        grouped, kernels = _in_groups(g, 1, at.groups), _in_groups(w, 0, at.groups)
        columns = np.einsum("ngohw,gocij->ngchwij", grouped, kernels, optimize=True)
        return fold(columns.reshape(*shape[:2], *columns.shape[3:]), shape, at)

    def vjp(self, e: Builder, gg: Value, g: Value, w: Value, out: Value, shape: Shape, **geometry: Any) -> Any:
        return e.conv2d(gg, w, **geometry), e.conv2d_weight_gradient(gg, g, shape=w.type.shape, **geometry)

    def onnx(self, e: Any, g: str, w: str, shape: Shape, **geometry: Any) -> Any:
        return transposed(e, g, w, shape, e.in_types[1].shape[2:], Geometry(**geometry))


class Conv2dWeightGradient(Primitive):
    """The gradient of the kernels, which have the given shape, from that of a convolution of x.

    One matrix product over all windows of all images was faster than ConvGrad and than a convolution
    with batch and channels exchanged.
    """

    name = "conv2d_weight_gradient"
    samples = tuple(sample(f32(*x), f32(*g), shape=w, **attrs) for x, w, g, attrs in _CASES)

    def infer(self, x: Type, g: Type, shape: Shape, **geometry: Any) -> Type:
        w = x.with_shape(shape)
        _require_gradient(self.name, g, _convolved(self.name, x, w, Geometry(**geometry)))
        return w

    def numpy(self, x: Array, g: Array, shape: Shape, **geometry: Any) -> Array:
        at = Geometry(**geometry)
        seen, grouped = _in_groups(windows(x, shape[2:], at), 1, at.groups), _in_groups(g, 1, at.groups)
        return np.asarray(np.einsum("ngchwij,ngohw->gocij", seen, grouped, optimize=True).reshape(shape))

    def vjp(self, e: Builder, gg: Value, x: Value, g: Value, out: Value, shape: Shape, **geometry: Any) -> Any:
        return e.conv2d_input_gradient(g, gg, shape=x.type.shape, **geometry), e.conv2d(x, gg, **geometry)

    def onnx(self, e: Any, x: str, g: str, shape: Shape, **geometry: Any) -> Any:
        if not e.in_types[1].size:
            return e.const(np.zeros(shape), e.out_types[0].dtype)
        at, (outputs, inputs, *kernel) = Geometry(**geometry), shape
        batch, _, down, across = e.in_types[1].shape
        places = batch * down * across
        seen = slices(e, e.Transpose(x, perm=(1, 0, 2, 3)), shape[2:], (down, across), at)
        columns = e.Concat(*(reshaped(e, s, (at.groups, 1, inputs, places)) for s in seen), axis=1)
        columns = reshaped(e, columns, (at.groups, len(seen) * inputs, places))
        grouped = reshaped(e, e.Transpose(g, perm=(1, 0, 2, 3)), (at.groups, outputs // at.groups, places))
        product = e.MatMul(grouped, e.Transpose(columns, perm=(0, 2, 1)))
        return e.Transpose(reshaped(e, product, (outputs, *kernel, inputs)), perm=(0, 3, 1, 2))
