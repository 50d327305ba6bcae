"""Two-dimensional convolution and its two adjoints, each of which the others differentiate."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import Value
from graphls.ir.types import Type
from graphls.primitives.primitive import Array, Primitive, f32, require_float, sample
from graphls.primitives.shape import reshaped
from graphls.primitives.windows import Pads, Pair, as_result, fold, in_single, remainders, window_counts, windows

Shape = tuple[int, ...]

_NO_PADS = (0, 0, 0, 0)
_CASES: tuple[tuple[Shape, Shape, Shape, dict[str, Any]], ...] = (
    ((2, 3, 5, 4), (4, 3, 3, 2), (2, 4, 3, 3), {}),
    ((2, 2, 5, 6), (4, 2, 3, 3), (2, 4, 3, 3), {"strides": (2, 2), "pads": (1, 0, 1, 1)}),
    ((1, 4, 6, 7), (2, 2, 2, 3), (1, 2, 4, 3), {"pads": (0, 2, 1, 0), "dilations": (3, 2), "strides": (1, 2), "groups": 2}),
    ((2, 3, 4, 4), (3, 1, 1, 1), (2, 3, 2, 2), {"strides": (3, 3), "groups": 3}),
    ((0, 2, 3, 3), (1, 2, 3, 3), (0, 1, 1, 1), {}),
)  # fmt: skip


def _geometry(name: str, x: Type, w: Type, strides: Pair, pads: Pads, dilations: Pair, groups: int) -> Type:
    """The type of the convolution of x with w; raises GraphlsError where they do not fit."""
    require_float(name, x, w)
    if w.rank != 4:
        raise GraphValueError(f"{name} takes kernels of shape (outputs, inputs, height, width), not {w}.")
    down, across = window_counts(name, x, (w.shape[2], w.shape[3]), strides, pads, dilations)
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise GraphValueError(f"{name} with {groups} groups cannot apply kernels {w} to images {x}.")
    return x.with_shape((x.shape[0], w.shape[0], down, across))


def _require_gradient(name: str, g: Type, expected: Type) -> None:
    if g != expected:
        raise GraphValueError(f"{name} takes the gradient of a {expected}, not a {g}.")


def _grouped_windows(x: Array, kernel: Pair, groups: int, *geometry: Any) -> Array:
    view = windows(x, kernel, *geometry)
    return view.reshape(x.shape[0], groups, x.shape[1] // groups, *view.shape[2:])


def _attributes(kernel: Pair, strides: Pair, pads: Pads, dilations: Pair, groups: int) -> dict[str, Any]:
    return {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations, "group": groups}


class Conv2d(Primitive):
    """The cross-correlation of images (N, C, H, W) with kernels (O, C / groups, height, width); floats.

    `pads` are the zeros added at the top, left, bottom and right. The result is (N, O, rows, columns) for as
    many kernels as fit. In ONNX a float64 is computed in float32.
    """

    samples = tuple(sample(f32(*x), f32(*w), **attrs) for x, w, _, attrs in _CASES)

    def infer(
        self, x: Type, w: Type, strides: Pair = (1, 1), pads: Pads = _NO_PADS, dilations: Pair = (1, 1), groups: int = 1
    ) -> Type:
        return _geometry(self.name, x, w, strides, pads, dilations, groups)

    def numpy(
        self,
        x: Array,
        w: Array,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Array:
        view = _grouped_windows(x, w.shape[2:], groups, strides, pads, dilations)
        kernels = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
        y = np.einsum("ngchwij,gocij->ngohw", view, kernels, optimize=True)
        return y.reshape(x.shape[0], w.shape[0], *y.shape[3:])

    def vjp(self, e: Builder, g: Value, x: Value, w: Value, y: Value, **geometry: Any) -> Any:
        gx = e.conv2d_input_gradient(g, w, shape=x.type.shape, **geometry)
        return gx, e.conv2d_weight_gradient(x, g, shape=w.type.shape, **geometry)

    def onnx(
        self,
        e: Any,
        x: str,
        w: str,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Any:
        kernel = e.in_types[1].shape[2:]
        x, w = in_single(e, x, w)
        return as_result(e, e.Conv(x, w, **_attributes(kernel, strides, pads, dilations, groups)))


class Conv2dInputGradient(Primitive):
    """The gradient of the images, which have the given shape, from that of a convolution with w.

    ConvTranspose was the fastest of five lowerings at small images, and near the fastest at large ones.
    """

    name = "conv2d_input_gradient"
    samples = tuple(sample(f32(*g), f32(*w), shape=x, **attrs) for x, w, g, attrs in _CASES)

    def infer(
        self,
        g: Type,
        w: Type,
        shape: Shape,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Type:
        x = g.with_shape(shape)
        _require_gradient(self.name, g, _geometry(self.name, x, w, strides, pads, dilations, groups))
        return x

    def numpy(
        self,
        g: Array,
        w: Array,
        shape: Shape,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Array:
        kernels = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
        grouped = g.reshape(g.shape[0], groups, g.shape[1] // groups, *g.shape[2:])
        columns = np.einsum("ngohw,gocij->ngchwij", grouped, kernels, optimize=True)
        return fold(columns.reshape(*shape[:2], *columns.shape[3:]), shape, strides, pads, dilations)

    def vjp(self, e: Builder, gg: Value, g: Value, w: Value, out: Value, shape: Shape, **geometry: Any) -> Any:
        return e.conv2d(gg, w, **geometry), e.conv2d_weight_gradient(gg, g, shape=w.type.shape, **geometry)

    def onnx(
        self,
        e: Any,
        g: str,
        w: str,
        shape: Shape,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Any:
        kernel = e.in_types[1].shape[2:]
        g, w = in_single(e, g, w)
        left_over = remainders(shape, kernel, strides, pads, dilations)
        attributes = _attributes(kernel, strides, pads, dilations, groups)
        return as_result(e, e.ConvTranspose(g, w, output_padding=left_over, **attributes))


class Conv2dWeightGradient(Primitive):
    """The gradient of the kernels, which have the given shape, from that of a convolution of x.

    One matrix product over all windows of all images; it was faster than ConvGrad and than a
    convolution with batch and channels exchanged.
    """

    name = "conv2d_weight_gradient"
    samples = tuple(sample(f32(*x), f32(*g), shape=w, **attrs) for x, w, g, attrs in _CASES)

    def infer(
        self,
        x: Type,
        g: Type,
        shape: Shape,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Type:
        w = x.with_shape(shape)
        _require_gradient(self.name, g, _geometry(self.name, x, w, strides, pads, dilations, groups))
        return w

    def numpy(
        self,
        x: Array,
        g: Array,
        shape: Shape,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Array:
        view = _grouped_windows(x, (shape[2], shape[3]), groups, strides, pads, dilations)
        grouped = g.reshape(g.shape[0], groups, g.shape[1] // groups, *g.shape[2:])
        return np.einsum("ngchwij,ngohw->gocij", view, grouped, optimize=True).reshape(shape)

    def vjp(self, e: Builder, gg: Value, x: Value, g: Value, out: Value, shape: Shape, **geometry: Any) -> Any:
        return e.conv2d_input_gradient(g, gg, shape=x.type.shape, **geometry), e.conv2d(x, gg, **geometry)

    def onnx(
        self,
        e: Any,
        x: str,
        g: str,
        shape: Shape,
        strides: Pair = (1, 1),
        pads: Pads = _NO_PADS,
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Any:
        if not e.in_types[1].size:
            return e.const(np.zeros(shape), e.out_types[0].dtype)
        outputs, inputs, *kernel = shape
        batch, _, down, across = e.in_types[1].shape
        places = batch * down * across
        columns = _columns(e, x, (kernel[0], kernel[1]), (down, across), strides, pads, dilations)
        columns = [reshaped(e, c, (groups, 1, inputs, places)) for c in columns]
        joined = e.Concat(*columns, axis=1) if len(columns) > 1 else columns[0]
        joined = reshaped(e, joined, (groups, len(columns) * inputs, places))
        grouped = reshaped(e, e.Transpose(g, perm=(1, 0, 2, 3)), (groups, outputs // groups, places))
        product = e.MatMul(grouped, e.Transpose(joined, perm=(0, 2, 1)))
        return e.Transpose(reshaped(e, product, (outputs, *kernel, inputs)), perm=(0, 3, 1, 2))


def _columns(
    e: Any, x: str, kernel: Pair, counts: Pair, strides: Pair, pads: Pads, dilations: Pair
) -> list[str]:
    """For each place in the kernel, what it sees in all windows, as (channels, batch, down, across)."""
    x = e.Transpose(x, perm=(1, 0, 2, 3))
    if any(pads):
        x = e.Pad(x, e.ints((0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3])))
    columns = []
    for i, j in np.ndindex(*kernel):
        first = (i * dilations[0], j * dilations[1])
        stops = [f + s * (n - 1) + 1 for f, s, n in zip(first, strides, counts, strict=True)]
        columns.append(e.Slice(x, e.ints(first), e.ints(stops), e.ints((2, 3)), e.ints(strides)))
    return columns
