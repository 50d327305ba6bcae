"""Rules of matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import Type
from graphls.primitives.hadamard import SIZE, matrix, parted
from graphls.runtime.onednn.binding import Attributes, Descriptor, Primitive, Query, Role
from graphls.runtime.onednn.elementwise.algorithms import ADD, MUL
from graphls.runtime.onednn.elementwise.elementwise import elementwise
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Group, Program
from graphls.runtime.onednn.registry import CONDITIONS, JOINS, RULES, rule


def _one_batch(node: Node) -> bool:
    """Whether the leading axes of both operands of a product are as many, or one of them is a matrix."""
    a, b = (v.type for v in node.inputs[:2])
    return a.rank == b.rank or b.rank == 2


def _joins(group: Group, node: Node) -> bool:
    """Whether a node multiplies the result of a product by one number, such as the inverse of a loss scale, or adds an
    array, before the update; a state would be overwritten by an elementwise kernel only."""
    result = group.outputs[0]
    name, others = node.primitive.name, [v for v in node.inputs if v is not result]
    if node.phase == "update" or name not in _BEHIND or len(others) != 1 or len(group.nodes) > MOST:
        return False
    is_number = name == "mul" and others[0].type.size == 1
    return node.output.type == result.type and (is_number or (name == "add" and others[0].type == result.type))


def _products(program: Program, nodes: Sequence[Node]) -> None:
    """The rule of a product, and of nodes that are operations behind it."""
    _product(program, nodes[0], nodes[1:])


MOST = 4
"""The most operations behind a product."""

_BEHIND: Mapping[str, int] = {"mul": MUL, "add": ADD}

for _name in ("matmul", "matmul_add"):
    RULES[_name], JOINS[_name] = _products, _joins
CONDITIONS["matmul"] = _one_batch


def _product(program: Program, node: Node, behind: Sequence[Node]) -> None:
    """A matrix product; transposed operands are the same memory with other strides."""
    a, b = node.inputs[:2]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    value = behind[-1].output if behind else node.output
    first = _matrix(program, a, bool(node.attrs.get("transpose_a")))
    second = _matrix(program, b, bool(node.attrs.get("transpose_b")))
    shape = node.output.type.shape
    if b.type.rank == 2 and a.type.rank > 2:
        if node.attrs.get("transpose_a"):
            second = View(second.buffer, _with_leading_ones(b.type, a.type.rank, node))
        else:
            rows = prod(a.type.shape[:-1])
            first = View(program.plain(a).buffer, Descriptor.of(a.type.with_shape((rows, a.type.shape[-1]))))
            shape = (rows, shape[-1])
    result = program.written(value, Descriptor.of(node.output.type.with_shape(shape)))
    views: dict[int, View] = {Role.SOURCE: first, Role.WEIGHTS: second, Role.RESULT: result}
    added: Descriptor | None = None
    if bias is not None:
        added = Descriptor.of(bias.type.with_shape((*(1,) * (len(shape) - 1), shape[-1])))
        views[Role.BIAS] = View(program.plain(bias).buffer, added)
    layout = second.layout
    if program.is_before_loop(second):
        layout = Descriptor.any(layout.shape, layout.dtype)
    attributes = Attributes()
    for before, later in zip((node, *behind), behind, strict=False):
        operand = later.inputs[1 if later.inputs[0] is before.output else 0]
        view = program.reshaped(
            operand,
            Descriptor.of(operand.type.with_shape((1,) * len(shape))) if operand.type.size == 1 else result.layout,
        )
        views[attributes.binary(_BEHIND[later.primitive.name], view.layout)] = view
    kernel = Primitive("matrix product", "matmul", library().engine, first.layout, layout, added, result.layout,
                       attributes)  # fmt: skip
    if kernel.is_reference and behind:
        _product(program, node, ())
        for later in behind:
            elementwise(program, (later,))
        return
    views[Role.WEIGHTS] = program.converted(second, kernel.layout(Query.WEIGHTS))
    program.run(kernel, views)
    if shape != node.output.type.shape:
        program.alias(value, View(result.buffer, Descriptor.of(node.output.type)))


@rule("hadamard_transform")
def _hadamard_transform(program: Program, node: Node) -> None:
    """Products with a small matrix, in which kernels add 16 numbers in their order."""
    kind, factors = node.output.type, matrix(node.attrs.get("is_inverse", False))
    before, after = parted(kind.shape, node.attrs["axis"])
    is_flat = after == 1
    layout = Descriptor.plain((before, SIZE) if is_flat else (before, SIZE, after))
    source = View(program.plain(node.inputs[0]).buffer, layout)
    square = Descriptor.plain((SIZE, SIZE) if is_flat else (1, SIZE, SIZE))
    fixed = program.shared(np.ascontiguousarray(factors.T if is_flat else factors, np.float32), square)
    first, second = (source, fixed) if is_flat else (fixed, source)
    result = program.written(node.output, layout)
    kernel = Primitive("matrix product", "matmul", library().engine, first.layout, second.layout, None, layout,
                       Attributes())  # fmt: skip
    program.run(kernel, {Role.SOURCE: first, Role.WEIGHTS: second, Role.RESULT: result})
    program.alias(node.output, View(result.buffer, Descriptor.of(kind)))


def _matrix(program: Program, value: Value, is_transposed: bool) -> View:
    """An operand of a product in row-major order, with its last axes exchanged if it is transposed."""
    view = program.plain(value)
    if not is_transposed:
        return view
    rank = value.type.rank
    return View(view.buffer, view.layout.permuted((*range(rank - 2), rank - 1, rank - 2)))


def _with_leading_ones(matrix: Type, rank: int, node: Node) -> Descriptor:
    plain = Descriptor.of(matrix.with_shape((*(1,) * (rank - 2), *matrix.shape)))
    return plain.permuted((*range(rank - 2), rank - 1, rank - 2)) if node.attrs.get("transpose_b") else plain
