"""Rules of matrix products."""

from __future__ import annotations

from math import prod

from graphls.ir.graph import Node, Value
from graphls.ir.types import Type
from graphls.runtime.onednn.binding import Descriptor, Primitive, Query, Role
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program import Program, View
from graphls.runtime.onednn.registry import rule


def _one_batch(node: Node) -> bool:
    """Whether the leading axes of both operands of a product are as many, or one of them is a matrix."""
    a, b = (v.type for v in node.inputs[:2])
    return a.rank == b.rank or b.rank == 2


@rule("matmul", where=_one_batch)
def _matmul(program: Program, node: Node) -> None:
    _product(program, node, None)


@rule("matmul_add")
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
            second = View(second.buffer, _with_leading_ones(b.type, a.type.rank, node))
        else:
            rows = prod(a.type.shape[:-1])
            first = View(program.plain(a).buffer, Descriptor.of(a.type.with_shape((rows, a.type.shape[-1]))))
            shape = (rows, shape[-1])
    result = program.written(node.output, Descriptor.of(node.output.type.with_shape(shape)))
    views: dict[int, View] = {Role.SOURCE: first, Role.WEIGHTS: second, Role.RESULT: result}
    added: Descriptor | None = None
    if bias is not None:
        added = Descriptor.of(bias.type.with_shape((*(1,) * (len(shape) - 1), shape[-1])))
        views[Role.BIAS] = View(program.plain(bias).buffer, added)
    layout = second.layout
    if program.is_before_loop(second):
        layout = Descriptor.any(layout.shape, layout.dtype)
    kernel = Primitive("matrix product", "matmul", library().engine, first.layout, layout, added, result.layout,
                       None)  # fmt: skip
    views[Role.WEIGHTS] = program.converted(second, kernel.layout(Query.WEIGHTS))
    program.run(kernel, views)
    if shape != node.output.type.shape:
        program.alias(node.output, View(result.buffer, Descriptor.of(node.output.type)))


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
