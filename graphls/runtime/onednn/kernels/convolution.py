"""Rules of convolutions and their gradients, in the layouts that their kernels choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from graphls.ir.graph import Node, Value
from graphls.ir.types import DType, bfloat16, float32
from graphls.primitives.primitive import normalise_axes
from graphls.runtime.onednn.binding import DATA_TYPES, Descriptor, Primitive, Query, Role
from graphls.runtime.onednn.kernels import channelwise, few_channels
from graphls.runtime.onednn.kernels.convolution_shapes import DIRECT, SLOW, Shapes, images, result
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Group, Program
from graphls.runtime.onednn.registry import rule


def _forward(node: Node) -> tuple[Shapes, Primitive]:
    """The kernel of a convolution, and of the bias that is added."""
    x, w, *rest = node.inputs
    shapes = Shapes.of(node, x.type, w.type, node.output.type)
    return shapes, shapes.forward(Descriptor.of(rest[0].type) if rest else None)


def weights_layout(node: Node) -> Descriptor:
    """The layout in which the kernel of a convolution wants its weights."""
    return _forward(node)[1].layout(Query.WEIGHTS)


@rule("convolution", "convolution_add")
def _convolution(program: Program, node: Node) -> None:
    x, w, *rest = node.inputs
    shapes, kernel = _forward(node)
    views: dict[int, View] = {
        Role.SOURCE: images(program, x, kernel.layout(Query.SOURCE)),
        Role.WEIGHTS: shapes.weights(program, w, kernel.layout(Query.WEIGHTS)),
        Role.RESULT: result(program, node.output, kernel.layout(Query.RESULT)),
    }
    if rest:
        views[Role.BIAS] = program.plain(rest[0])
    program.run(kernel, views)


@rule("convolution_input_gradient")
def _convolution_input_gradient(program: Program, node: Node) -> None:
    g, w = node.inputs
    shapes = Shapes.of(node, node.output.type, w.type, g.type)
    kernel = Primitive("convolution, gradient of images", "convolution_backward_data", library().engine, DIRECT,
                       shapes.x, shapes.w, shapes.y, *shapes.windows, shapes.forward(), None,
                       unlike=shapes.slow)  # fmt: skip
    program.run(kernel, {
        Role.RESULT_GRADIENT: images(program, g, kernel.layout(Query.RESULT_GRADIENT)),
        Role.WEIGHTS: shapes.weights(program, w, kernel.layout(Query.WEIGHTS)),
        Role.SOURCE_GRADIENT: result(program, node.output, kernel.layout(Query.SOURCE_GRADIENT)),
    })  # fmt: skip


@rule("convolution_weight_gradient")
def _convolution_weight_gradient(program: Program, node: Node) -> None:
    _weight_gradient(program, node, None)


def _weight_kernel(node: Node, dtype: DType, has_bias: bool) -> tuple[Shapes, Descriptor | None, Primitive]:
    """The kernel of the gradient of kernels in a dtype, with its shapes, and those of the gradient of a bias."""
    x, g, w = (v.type.with_dtype(dtype) for v in (*node.inputs, node.output))
    shapes = Shapes.of(node, x, w, g)
    by_channel = Descriptor.of(g.with_shape(g.shape[1:2])) if has_bias else None
    return shapes, by_channel, shapes.weight_gradient(by_channel)


def _weight_gradient(program: Program, node: Node, sums: Value | None) -> None:
    """The gradient of kernels and, in the same kernel, the sums of that of the images by channel."""
    x, g = node.inputs
    dtype = x.type.dtype
    shapes, by_channel, kernel = _weight_kernel(node, dtype, sums is not None)
    is_slow = kernel.implementation.startswith(SLOW)
    parts = channelwise.parts(shapes) if is_slow and shapes.is_channelwise else []
    wide = few_channels.filled(shapes) if is_slow else None
    if is_slow and not parts and wide is None and dtype is bfloat16:
        others = _weight_kernel(node, float32, sums is not None)
        if not others[-1].implementation.startswith(SLOW):
            shapes, by_channel, kernel = others
    totals = program.scratch(by_channel) if by_channel is not None else None
    if parts:
        gradient = channelwise.weight_gradient(program, shapes, parts, (x, g), totals)
    elif wide is not None:
        gradient, totals = few_channels.weight_gradient(program, wide, shapes, (x, g), sums is not None)
    else:
        gradient = program.scratch(kernel.layout(Query.WEIGHTS_GRADIENT))
        program.run(kernel, {
            Role.SOURCE: images(program, x, kernel.layout(Query.SOURCE)), Role.WEIGHTS_GRADIENT: gradient,
            Role.RESULT_GRADIENT: images(program, g, kernel.layout(Query.RESULT_GRADIENT)),
            **({} if totals is None else {Role.BIAS_GRADIENT: totals}),
        })  # fmt: skip
    if sums is not None and totals is not None:
        rounded = program.converted(totals, totals.layout.with_dtype(DATA_TYPES[dtype]))
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
