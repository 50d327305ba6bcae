"""How each primitive of a graph becomes calls of oneDNN, and which nodes are taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, float32
from graphls.primitives.primitive import normalise_axes
from graphls.primitives.shape import cut
from graphls.primitives.windows import Geometry
from graphls.runtime.onednn import elementwise
from graphls.runtime.onednn.binding import Descriptor, Primitive, Query, Role, dims, floats, handles
from graphls.runtime.onednn.fusion import Rule
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program import Group, Program, View

TRAINING = 64
DIRECT = 1
MOST_AXES = 6
"""Axes up to which kernels are tried; reorders of more are slow."""

AVERAGE_WITHOUT_PADDING = 0x3FF
REDUCE_SUM = 0x2FFF4

NodeRule = Callable[[Program, Node], None]

RULES: dict[str, Rule] = {}
CONDITIONS: dict[str, Callable[[Node], bool]] = {}


def takes(node: Node) -> bool:
    """Whether there is a rule for a node: float32, no empty values, and what its rule asks for besides."""
    name = node.primitive.name
    values = (*node.inputs, *node.outputs)
    if name not in RULES or node.regions or not all(v.type != TOKEN and _is_fit(v) for v in values):
        return False
    return name not in CONDITIONS or CONDITIONS[name](node)


MOST_BYTES = 1 << 16
"""Bytes up to which the values of a node are few enough for NumPy, where an engine of its own would take longer."""


def interprets(node: Node) -> bool:
    """Whether NumPy computes a node: one of few numbers, in the forward or the backward pass, without a kernel."""
    does = node.primitive
    values = (*node.inputs, *node.outputs)
    is_apart = node.regions or does.on_host or does.calls_python or does.has_effect or does.is_collective
    if is_apart or node.phase not in ("forward", "backward") or any(v.type == TOKEN or v.type.stacked for v in values):
        return False
    is_small = sum(v.type.nbytes for v in values) <= MOST_BYTES
    return is_small and not any(v.type.dtype.is_half or not v.type.size for v in values) and not takes(node)


def _is_fit(value: Value) -> bool:
    kind = value.type
    return kind.dtype is float32 and not kind.stacked and kind.size > 0 and kind.rank <= MOST_AXES


def joins(group: Group, node: Node) -> bool:
    """Whether the kernel of a group can compute a node that reads its result, too."""
    return takes(group.nodes[0]) and takes(node) and elementwise.joins(group, node)


def rule_of(node: Node) -> Rule:
    """The rule of a node, for it and those that have joined it."""
    return RULES[node.primitive.name] if takes(node) else _interpreted


def _rule(*names: str, where: Callable[[Node], bool] | None = None) -> Callable[[NodeRule], NodeRule]:
    """Register a rule for primitives that no other node joins, with a condition for the nodes that it takes."""

    def register(rule: NodeRule) -> NodeRule:
        for name in names:
            RULES[name] = lambda program, nodes: rule(program, nodes[0])
            if where is not None:
                CONDITIONS[name] = where
        return rule

    return register


def _interpreted(program: Program, nodes: Sequence[Node]) -> None:
    """The rule of nodes without a kernel."""
    (node,) = nodes
    if node.primitive.is_constant:
        program.constant(node.output, np.ascontiguousarray(node.attrs["value"]))
    else:
        program.interpret(node)


@_rule("constant")
def _constant(program: Program, node: Node) -> None:
    program.constant(node.output, np.ascontiguousarray(node.attrs["value"], np.float32))


RULES.update(dict.fromkeys(elementwise.NAMES, elementwise.elementwise))
CONDITIONS.update(dict.fromkeys(elementwise.NAMES, elementwise.takes))


@_rule("reshape", "stop_gradient", "depend")
def _reshape(program: Program, node: Node) -> None:
    """The same memory, where the layout allows it; else in row-major order first."""
    shape = node.output.type.shape
    source = program.read(node.inputs[0])
    layout = source.layout.reshaped(shape)
    if layout is None:
        source, layout = program.plain(node.inputs[0]), Descriptor.plain(shape)
    program.alias(node.output, View(source.buffer, layout))


@_rule("transpose")
def _transpose(program: Program, node: Node) -> None:
    source = program.first(node.inputs[0])
    permutation = node.attrs["permutation"]
    moved = View(source.buffer, source.layout.permuted(permutation), False) if permutation else source
    program.alias(node.output, moved)


def _has_whole_steps(node: Node) -> bool:
    return set(node.attrs["steps"]) <= {1} and node.output.type.rank > 0


@_rule("slice", where=_has_whole_steps)
def _slice(program: Program, node: Node) -> None:
    """A part of the memory."""
    x, shape = node.inputs[0], node.output.type.shape
    starts = [r.start for r in cut(x.type.shape, *(node.attrs[name] for name in ("starts", "stops", "steps")))]
    source = program.first(x)
    part = source.layout.part(shape, starts)
    if part is None:
        source = program.plain(x)
        part = source.layout.part(shape, starts)
    assert part is not None, "A part of row-major memory is always described."
    program.alias(node.output, View(source.buffer, part, False))


@_rule("concat")
def _concat(program: Program, node: Node) -> None:
    views = [program.plain(v) for v in node.inputs]
    result = program.written(node.output, Descriptor.plain(node.output.type.shape))
    axis = node.attrs["axis"] % node.output.type.rank
    kernel = Primitive("concatenation", "concat", library().engine, result.layout, len(views), axis,
                       handles(v.layout for v in views), None)  # fmt: skip
    program.run(kernel, {**{Role.SEVERAL + i: view for i, view in enumerate(views)}, Role.RESULT: result})


def _one_batch(node: Node) -> bool:
    """Whether the leading axes of both operands of a product are as many, or one of them is a matrix."""
    a, b = (v.type for v in node.inputs[:2])
    return a.rank == b.rank or b.rank == 2


@_rule("matmul", where=_one_batch)
def _matmul(program: Program, node: Node) -> None:
    _product(program, node, None)


@_rule("matmul_add")
def _matmul_add(program: Program, node: Node) -> None:
    _product(program, node, node.inputs[2])


def _product(program: Program, node: Node, bias: Value | None) -> None:
    """A matrix product; transposed operands are the same memory with other strides."""
    a, b = node.inputs[:2]
    first = _matrix(program, a, bool(node.attrs.get("transpose_a")))
    second = _matrix(program, b, bool(node.attrs.get("transpose_b")))
    shape = node.output.type.shape
    if b.type.rank == 2 and a.type.rank > 2:
        if node.attrs.get("transpose_a"):
            second = View(second.buffer, _with_leading_ones(second.layout, (*b.type.shape,), a.type.rank, node))
        else:
            rows = prod(a.type.shape[:-1])
            first = View(program.plain(a).buffer, Descriptor.plain((rows, a.type.shape[-1])))
            shape = (rows, shape[-1])
    result = program.written(node.output, Descriptor.plain(shape))
    views: dict[int, View] = {Role.SOURCE: first, Role.WEIGHTS: second, Role.RESULT: result}
    added: Descriptor | None = None
    if bias is not None:
        added = Descriptor.plain((*(1,) * (len(shape) - 1), shape[-1]))
        views[Role.BIAS] = View(program.plain(bias).buffer, added)
    kernel = Primitive("matrix product", "matmul", library().engine, first.layout, second.layout, added, result.layout,
                       None)  # fmt: skip
    program.run(kernel, views)
    if shape != node.output.type.shape:
        program.alias(node.output, View(result.buffer, Descriptor.plain(node.output.type.shape)))


def _matrix(program: Program, value: Value, is_transposed: bool) -> View:
    """An operand of a product in row-major order, with its last axes exchanged if it is transposed."""
    view = program.plain(value)
    if not is_transposed:
        return view
    rank = value.type.rank
    return View(view.buffer, view.layout.permuted((*range(rank - 2), rank - 1, rank - 2)))


def _with_leading_ones(layout: Descriptor, shape: Sequence[int], rank: int, node: Node) -> Descriptor:
    ones = (1,) * (rank - 2)
    plain = Descriptor.plain((*ones, *shape))
    return plain.permuted((*range(rank - 2), rank - 1, rank - 2)) if node.attrs.get("transpose_b") else plain


def _geometry(node: Node, kernel: Sequence[int]) -> tuple[Geometry, tuple[Any, Any, Any, Any]]:
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

    def __init__(self, node: Node, x: Sequence[int], w: Sequence[int], y: Sequence[int]) -> None:
        self.at, self.windows = _geometry(node, w[2:])
        self.weights_shape = _weights_shape(w, self.at.groups)
        self.x, self.w, self.y = Descriptor.any(x), Descriptor.any(self.weights_shape), Descriptor.any(y)

    def forward(self, bias: Descriptor | None = None) -> Primitive:
        return Primitive("convolution", "convolution_forward", library().engine, TRAINING, DIRECT, self.x, self.w, bias,
                         self.y, *self.windows, None)  # fmt: skip

    def weights(self, program: Program, value: Value, layout: Descriptor) -> View:
        """The kernels in a layout."""
        plain = View(program.plain(value).buffer, Descriptor.plain(self.weights_shape))
        return program.converted(plain, layout, value)


@_rule("convolution", "convolution_add")
def _convolution(program: Program, node: Node) -> None:
    x, w, *rest = node.inputs
    shapes = _Shapes(node, x.type.shape, w.type.shape, node.output.type.shape)
    bias = program.plain(rest[0]) if rest else None
    kernel = shapes.forward(bias.layout if bias else None)
    views: dict[int, View] = {
        Role.SOURCE: program.read(x, kernel.layout(Query.SOURCE)),
        Role.WEIGHTS: shapes.weights(program, w, kernel.layout(Query.WEIGHTS)),
        Role.RESULT: program.written(node.output, kernel.layout(Query.RESULT)),
    }
    if bias:
        views[Role.BIAS] = bias
    program.run(kernel, views)


@_rule("convolution_input_gradient")
def _convolution_input_gradient(program: Program, node: Node) -> None:
    g, w = node.inputs
    shapes = _Shapes(node, node.output.type.shape, w.type.shape, g.type.shape)
    kernel = Primitive("convolution, gradient of images", "convolution_backward_data", library().engine, DIRECT,
                       shapes.x, shapes.w, shapes.y, *shapes.windows, shapes.forward(), None)  # fmt: skip
    program.run(kernel, {
        Role.RESULT_GRADIENT: program.read(g, kernel.layout(Query.RESULT_GRADIENT)),
        Role.WEIGHTS: shapes.weights(program, w, kernel.layout(Query.WEIGHTS)),
        Role.SOURCE_GRADIENT: program.written(node.output, kernel.layout(Query.SOURCE_GRADIENT)),
    })  # fmt: skip


@_rule("convolution_weight_gradient")
def _convolution_weight_gradient(program: Program, node: Node) -> None:
    x, g = node.inputs
    shape = node.output.type.shape
    shapes = _Shapes(node, x.type.shape, shape, g.type.shape)
    kernel = Primitive("convolution, gradient of kernels", "convolution_backward_weights", library().engine, DIRECT,
                       shapes.x, shapes.w, None, shapes.y, *shapes.windows, shapes.forward(), None)  # fmt: skip
    gradient = program.scratch(kernel.layout(Query.WEIGHTS_GRADIENT))
    program.run(kernel, {
        Role.SOURCE: program.read(x, kernel.layout(Query.SOURCE)),
        Role.RESULT_GRADIENT: program.read(g, kernel.layout(Query.RESULT_GRADIENT)), Role.WEIGHTS_GRADIENT: gradient,
    })  # fmt: skip
    plain = program.converted(gradient, Descriptor.plain(shapes.weights_shape))
    program.alias(node.output, View(plain.buffer, Descriptor.plain(shape)))


def _averages(node: Node) -> bool:
    """Whether oneDNN averages as the primitive does: with padding that counts it counts what no window should."""
    return not (node.attrs.get("count_include_pad") and any(node.attrs.get("pads", ())))


@_rule("avg_pool", where=_averages)
def _avg_pool(program: Program, node: Node) -> None:
    source = program.read(node.inputs[0])
    result = Descriptor.any(node.output.type.shape)
    kernel = Primitive("pooling", "pooling_forward", library().engine, TRAINING, AVERAGE_WITHOUT_PADDING, source.layout,
                       result, *_pooling(node), None)  # fmt: skip
    program.run(kernel, {
        Role.SOURCE: source, Role.RESULT: program.written(node.output, kernel.layout(Query.RESULT)),
    })  # fmt: skip


@_rule("avg_pool_gradient", where=_averages)
def _avg_pool_gradient(program: Program, node: Node) -> None:
    g = program.read(node.inputs[0])
    shape, engine = Descriptor.any(node.output.type.shape), library().engine
    forward = Primitive("pooling", "pooling_forward", engine, TRAINING, AVERAGE_WITHOUT_PADDING,
                        Descriptor.plain(node.output.type.shape), Descriptor.any(node.inputs[0].type.shape),
                        *_pooling(node), None)  # fmt: skip
    kernel = Primitive("pooling, gradient", "pooling_backward", engine, AVERAGE_WITHOUT_PADDING, shape, g.layout,
                       *_pooling(node), forward, None)  # fmt: skip
    program.run(kernel, {
        Role.RESULT_GRADIENT: g,
        Role.SOURCE_GRADIENT: program.written(node.output, kernel.layout(Query.SOURCE_GRADIENT)),
    })  # fmt: skip


def _pooling(node: Node) -> tuple[Any, ...]:
    size = node.attrs["kernel"]
    _, (strides, dilations, first, last) = _geometry(node, size)
    return strides, dims(size), dilations, first, last


@_rule("sum", "mean")
def _sum(program: Program, node: Node) -> None:
    """The sum of the last axis of a matrix, into which the other order of axes is brought; its kernel is a fast one."""
    x, shape = node.inputs[0], node.output.type.shape
    axes = normalise_axes(node.attrs.get("axis"), x.type.rank)
    rest = [i for i in range(x.type.rank) if i not in axes]
    count = prod(x.type.shape[i] for i in axes)
    source = program.read(x)
    order = (*rest, *axes)
    if order:
        moved = source.layout.permuted(order)
        source = program.converted(View(source.buffer, moved), Descriptor.plain([x.type.shape[i] for i in order]))
    rows = View(source.buffer, Descriptor.plain((x.type.size // count, count)))
    totals = Descriptor.plain((x.type.size // count, 1))
    result = program.scratch(totals)
    if count == 1:
        result = View(rows.buffer, totals)
    else:
        kernel = Primitive("reduction", "reduction", library().engine, REDUCE_SUM, rows.layout, totals, *floats(0, 0),
                           None)  # fmt: skip
        program.run(kernel, {Role.SOURCE: rows, Role.RESULT: result})
    if node.primitive.name == "mean" and count > 1:
        mean, divisor = program.scratch(totals), program.number(float(count), 2)
        kernel = Primitive("quotient", "binary", library().engine, elementwise.DIV, totals, divisor.layout, totals,
                           None)  # fmt: skip
        program.run(kernel, {Role.SOURCE: result, Role.SOURCE_1: divisor, Role.RESULT: mean})
        result = mean
    program.alias(node.output, View(result.buffer, Descriptor.plain(shape)))
