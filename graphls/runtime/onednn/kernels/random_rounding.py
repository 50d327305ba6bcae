"""Rounding at random to float4_e2m1fn by bytes of the host: products with scales of blocks, there and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from graphls.ir.graph import Node, Value
from graphls.ir.types import bfloat16, float4_e2m1fn, float32, int8, uint8
from graphls.passes.patterns.terms import number_of
from graphls.passes.rewriter import users
from graphls.primitives.low_precision import FORMATS
from graphls.primitives.scaling import Blocks
from graphls.runtime.onednn.binding import DATA_TYPES, Descriptor
from graphls.runtime.onednn.elementwise.algorithms import ABS, ADD, CLIP, DIV, LINEAR, MUL, RELU, ROUND
from graphls.runtime.onednn.elementwise.chain import compute
from graphls.runtime.onednn.elementwise.expressions import Expression, Scale, Step, Term
from graphls.runtime.onednn.kernels.block_maxima import total, wide
from graphls.runtime.onednn.kernels.low_precision import Exact, Parts, rounds
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Group, Program

MOST = FORMATS[float4_e2m1fn].most


class _Matched(NamedTuple):
    """Nodes, and the values that they read."""

    nodes: list[Node]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class _Rounding:
    """x * scale + (byte * factor + offset) units of the last place, to the nearest, times an inverse scale.

    `nodes` compute it.
    """

    nodes: Sequence[Node]
    x: Value
    scale: Value
    drawn: Value
    factor: float
    offset: float
    inverse: Value


def random_roundings(
    nodes: Sequence[Node], results: Collection[Value], definer: Mapping[Value, Node]
) -> Iterator[Group]:  # fmt: skip
    """The groups of nodes that scale numbers, round them at random and dequantize them."""
    rounded = {node.output for node in nodes if node.primitive.name == "round_stochastically"}
    if not rounded or not rounds(float4_e2m1fn):
        return
    readers = users(nodes)
    for node in nodes:
        is_alone = node.primitive.name == "dequantize" and len(readers[node.inputs[0]]) == 1
        if is_alone and node.inputs[0] in rounded and node.inputs[0] not in results:
            rounding = _rounding_of(node, definer)
            if rounding is not None:
                inputs = (rounding.x, rounding.scale, rounding.drawn, rounding.inverse)
                yield Group((*rounding.nodes,), inputs, node.outputs, partial(_emit, rounding))


def _rounding_of(node: Node, definer: Mapping[Value, Node]) -> _Rounding | None:
    """The rounding behind a `dequantize` of blocks along one axis; None where it has another form."""
    low, inverse = node.inputs
    maker, blocks = definer[low], Blocks(low.type.shape, node.attrs["block"])
    is_fit = low.type.dtype is float4_e2m1fn and node.output.type.dtype in (float32, bfloat16)
    if not is_fit or len(blocks.long_axes) != 1:
        return None
    product, drawn = _product_of(maker.inputs[0], blocks, definer), _bytes_of(maker.inputs[1], definer)
    if product is None or drawn is None:
        return None
    (x, scale), (own, factor, offset) = product.values, drawn.values
    numbers = [number_of(definer[v]) for v in (factor, offset)]
    if numbers[0] is None or numbers[1] is None:
        return None
    nodes = (*product.nodes, *drawn.nodes, maker, node)
    return _Rounding(nodes, x, scale, own, numbers[0], numbers[1], inverse)


def _product_of(value: Value, blocks: Blocks, definer: Mapping[Value, Node]) -> _Matched | None:
    """The operands of the product with the scales of blocks, as `passes.precision.scales.scaled` has it."""
    nodes = _reshapes(value, definer)
    product = definer.get(nodes[0].inputs[0] if nodes else value)
    if product is None or product.primitive.name != "mul":
        return None
    x, scale = product.inputs
    if (x.type.shape, scale.type.shape) != (blocks.parts, blocks.spread) or value.type.shape != blocks.padded:
        return None
    sides = _reshapes(x, definer), _reshapes(scale, definer)
    x, scale = (side[0].inputs[0] if side else v for side, v in zip(sides, product.inputs, strict=True))
    is_fit = x.type.shape == blocks.shape and scale.type.shape == blocks.counts and x.type.dtype is float32
    return _Matched([*sides[0], *sides[1], product, *nodes], (x, scale)) if is_fit else None


def _reshapes(value: Value, definer: Mapping[Value, Node]) -> list[Node]:
    """The reshapes that a value has come through."""
    node = definer.get(value)
    is_reshape = node is not None and node.primitive.name == "reshape"
    return [*_reshapes(node.inputs[0], definer), node] if node is not None and is_reshape else []


def _bytes_of(value: Value, definer: Mapping[Value, Node]) -> _Matched | None:
    """Bytes with the constants by which they are multiplied, and which is added then."""
    nodes: list[Node] = []
    constants: list[Value] = []
    for name in ("add", "mul"):
        node = definer.get(value)
        if node is None or node.primitive.name != name or node.inputs[1] not in definer:
            return None
        constant = definer[node.inputs[1]]
        if not constant.primitive.is_constant or constant.output.type.size != 1:
            return None
        value = node.inputs[0]
        nodes += [node, constant]
        constants.append(node.inputs[1])
    node = definer.get(value)
    if node is None or node.primitive.name != "cast" or node.inputs[0].type.dtype is not uint8:
        return None
    return _Matched([node, *reversed(nodes)], (node.inputs[0], *reversed(constants)))


def _emit(rounding: _Rounding, program: Program) -> None:
    """Append kernels by elements, which read and write bytes where they can.

    A unit of the last place is 1/2 below 2, then 1, and 2 from 4 on, and its double a byte. x in such units plus the
    random number is rounded to an integer, and the result times two is an integer of 8 bits again.
    """
    node = rounding.nodes[-1]
    parts = Parts(program, Blocks(node.output.type.shape, node.attrs["block"]))
    source = wide(program, rounding.x)
    x = parts.computed(Expression(Term(parts.own(source)), MUL, Term(parts.scale(rounding.scale))))
    bytes_of = View(program.raw[rounding.drawn], Descriptor.plain(parts.shape, DATA_TYPES[uint8]))
    drawn, signed = (parts.value(bytes_of, parts.shape, dtype) for dtype in (uint8, int8))
    units = parts.computed(Expression(Term(drawn, Scale(0.0)), steps=[
        Step(ADD, operand=x), Step(ABS), Step(CLIP, (0.0, MOST)), Step(LINEAR, (0.5, -0.5)), Step(ROUND),
        Step(LINEAR, (1.0, -1.0)), Step(RELU, (0.5, 0.0)), Step(LINEAR, (2.0, 2.0)),
    ]), uint8)  # fmt: skip
    doubled = parts.computed(Expression(Term(signed, Scale(0.0)), steps=[
        Step(ADD, operand=drawn), Step(LINEAR, (rounding.factor, rounding.offset)), Step(MUL, operand=units),
        Step(LINEAR, (0.5, 0.0)), Step(ADD, operand=x), Step(DIV, operand=units), Step(LINEAR, (2.0, 0.0)), Step(ROUND),
        Step(MUL, operand=units), Step(CLIP, (-2 * MOST, 2 * MOST)),
    ]), int8)  # fmt: skip
    inverse = parts.scale(rounding.inverse)
    halved = Value("part", inverse.type)
    compute(program, Expression(Term(inverse, Scale(0.5))), halved)
    result = program.first(parts.narrow(doubled, halved, node.output.type.dtype))
    operands = {v: wide(program, v).buffer for v in (rounding.x, rounding.scale, rounding.inverse)}
    operands[rounding.drawn] = program.raw[rounding.drawn]
    scales = rounding.scale, rounding.inverse
    program.append(Exact(rounding.nodes, operands, scales, total(program, source), result))
    program.alias(node.output, View(result.buffer, Descriptor.of(node.output.type)))
