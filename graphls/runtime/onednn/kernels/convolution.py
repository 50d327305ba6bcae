"""Rules of convolutions and their gradients, in the layouts that their kernels choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from graphls.ir.graph import Node, Value
from graphls.ir.types import DType, Type, bfloat16, float32
from graphls.primitives.primitive import normalise_axes
from graphls.primitives.windows import Geometry
from graphls.runtime.onednn.binding import DATA_TYPES, Descriptor, Primitive, Query, Role, dims
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Group, Program
from graphls.runtime.onednn.registry import rule

TRAINING = 64
DIRECT = 1


def geometry(node: Node, kernel: Sequence[int]) -> tuple[Geometry, tuple[Any, Any, Any, Any]]:
    """The windows of a node, and their strides, dilations and paddings as oneDNN takes them."""
    names = ("strides", "pads", "dilations", "groups")
    at = Geometry.over(tuple(kernel), **{name: node.attrs[name] for name in names if name in node.attrs})
    sides = at.sides()
    first, last = [before for before, _ in sides], [after for _, after in sides]
    return at, (dims(at.strides), dims([d - 1 for d in at.dilations]), dims(first), dims(last))


def _weights_shape(shape: Sequence[int], groups: int) -> tuple[int, ...]:
    """The shape of kernels as oneDNN takes it, which counts groups by an axis of their own."""
    return (groups, shape[0] // groups, *shape[1:]) if groups > 1 else tuple(shape)


class _Shapes:
    """Descriptors of a convolution, in whatever layout."""

    def __init__(self, node: Node, x: Type, w: Type, y: Type) -> None:
        self.at, self.windows = geometry(node, w.shape[2:])
        self.weights_type = w.with_shape(_weights_shape(w.shape, self.at.groups))
        is_small = self.at.groups == w.shape[0] or prod(w.shape[2:]) == 1
        self.slow = "brgconv_strided" if is_small else None  # 90 times as slow in bfloat16 for channel-wise kernels
        self.x, self.w, self.y = map(Descriptor.any_of, (x, self.weights_type, y))

    def forward(self, bias: Descriptor | None = None) -> Primitive:
        return Primitive("convolution", "convolution_forward", library().engine, TRAINING, DIRECT, self.x, self.w, bias,
                         self.y, *self.windows, None)  # fmt: skip

    def weights(self, program: Program, value: Value, layout: Descriptor) -> View:
        """The kernels in a layout."""
        if self.at.groups == 1:
            return program.read(value, layout)
        plain = View(program.plain(value).buffer, Descriptor.of(self.weights_type))
        return program.converted(plain, layout, value)


def _forward(node: Node) -> tuple[_Shapes, Primitive]:
    """The kernel of a convolution, and of the bias that is added."""
    x, w, *rest = node.inputs
    shapes = _Shapes(node, x.type, w.type, node.output.type)
    return shapes, shapes.forward(Descriptor.of(rest[0].type) if rest else None)


def weights_layout(node: Node) -> Descriptor:
    """The layout in which the kernel of a convolution wants its weights."""
    return _forward(node)[1].layout(Query.WEIGHTS)


@rule("convolution", "convolution_add")
def _convolution(program: Program, node: Node) -> None:
    x, w, *rest = node.inputs
    shapes, kernel = _forward(node)
    views: dict[int, View] = {
        Role.SOURCE: program.read(x, kernel.layout(Query.SOURCE)),
        Role.WEIGHTS: shapes.weights(program, w, kernel.layout(Query.WEIGHTS)),
        Role.RESULT: program.written(node.output, kernel.layout(Query.RESULT)),
    }
    if rest:
        views[Role.BIAS] = program.plain(rest[0])
    program.run(kernel, views)


@rule("convolution_input_gradient")
def _convolution_input_gradient(program: Program, node: Node) -> None:
    g, w = node.inputs
    shapes = _Shapes(node, node.output.type, w.type, g.type)
    kernel = Primitive("convolution, gradient of images", "convolution_backward_data", library().engine, DIRECT,
                       shapes.x, shapes.w, shapes.y, *shapes.windows, shapes.forward(), None,
                       unlike=shapes.slow)  # fmt: skip
    program.run(kernel, {
        Role.RESULT_GRADIENT: program.read(g, kernel.layout(Query.RESULT_GRADIENT)),
        Role.WEIGHTS: shapes.weights(program, w, kernel.layout(Query.WEIGHTS)),
        Role.SOURCE_GRADIENT: program.written(node.output, kernel.layout(Query.SOURCE_GRADIENT)),
    })  # fmt: skip


@rule("convolution_weight_gradient")
def _convolution_weight_gradient(program: Program, node: Node) -> None:
    _weight_gradient(program, node, None)


SLOW = "x64:gemm"
"""Kernels of columns and products: for one channel, that in bfloat16 takes ten times as long as another in float32."""


def _weight_kernel(node: Node, dtype: DType, has_bias: bool) -> tuple[_Shapes, Descriptor | None, Primitive]:
    """The kernel of the gradient of kernels in a dtype, with its shapes, and those of the gradient of a bias."""
    x, g, w = (v.type.with_dtype(dtype) for v in (*node.inputs, node.output))
    shapes = _Shapes(node, x, w, g)
    by_channel = Descriptor.of(g.with_shape(g.shape[1:2])) if has_bias else None
    kernel = Primitive("convolution, gradient of kernels", "convolution_backward_weights", library().engine, DIRECT,
                       shapes.x, shapes.w, by_channel, shapes.y, *shapes.windows, shapes.forward(by_channel),
                       None)  # fmt: skip
    return shapes, by_channel, kernel


def _weight_gradient(program: Program, node: Node, sums: Value | None) -> None:
    """The gradient of kernels and, in the same kernel, the sums of that of the images by channel."""
    x, g = node.inputs
    dtype = x.type.dtype
    shapes, by_channel, kernel = _weight_kernel(node, dtype, sums is not None)
    if dtype is bfloat16 and kernel.implementation.startswith(SLOW):
        wide = _weight_kernel(node, float32, sums is not None)
        if not wide[-1].implementation.startswith(SLOW):
            shapes, by_channel, kernel = wide
    gradient = program.scratch(kernel.layout(Query.WEIGHTS_GRADIENT))
    views: dict[int, View] = {
        Role.SOURCE: program.read(x, kernel.layout(Query.SOURCE)),
        Role.RESULT_GRADIENT: program.read(g, kernel.layout(Query.RESULT_GRADIENT)), Role.WEIGHTS_GRADIENT: gradient,
    }  # fmt: skip
    if sums is not None and by_channel is not None:
        views[Role.BIAS_GRADIENT] = program.scratch(by_channel)
    program.run(kernel, views)
    if sums is not None and by_channel is not None:
        rounded = program.converted(views[Role.BIAS_GRADIENT], by_channel.with_dtype(DATA_TYPES[dtype]))
        program.alias(sums, View(rounded.buffer, Descriptor.of(sums.type)))
    shared = program.shared_layout(node.output)
    if shared is not None and shapes.at.groups == 1:
        program.alias(node.output, program.converted(gradient, shared))
        return
    plain = program.converted(gradient, Descriptor.of(shapes.weights_type.with_dtype(dtype)))
    program.alias(node.output, View(plain.buffer, Descriptor.of(node.output.type)))


def weight_gradients(nodes: Sequence[Node], takes: Callable[[Node], bool]) -> Iterator[Group]:
    """The groups of gradients of kernels and biases: sums, by channel, of the images from which both come.

    A sum comes after the images of the convolution, which then do not depend on it.
    """
    sums = {node.inputs[0]: node for node in nodes if node.primitive.name == "sum" and _is_by_channel(node)}
    places = {value: number for number, node in enumerate(nodes) for value in node.outputs} if sums else {}
    for node in nodes:
        if node.primitive.name == "convolution_weight_gradient" and node.inputs[1] in sums:
            x, total = node.inputs[0], sums[node.inputs[1]]
            if places.get(x, -1) < places[total.output] and takes(node) and takes(total):
                del sums[node.inputs[1]]
                emit = partial(_weight_gradient, node=node, sums=total.output)
                yield Group((node,), node.inputs, (node.output, total.output), emit)


def _is_by_channel(node: Node) -> bool:
    rank = node.inputs[0].type.rank
    return rank > 2 and normalise_axes(node.attrs.get("axis"), rank) == (0, *range(2, rank))
