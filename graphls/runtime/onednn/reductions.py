"""Rules of reductions."""

from __future__ import annotations

from math import gcd, prod

from graphls.ir.graph import Node
from graphls.primitives.primitive import normalise_axes
from graphls.runtime.onednn.algorithms import DIV
from graphls.runtime.onednn.binding import DATA_TYPES, Descriptor, Primitive, Role, floats
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program import Program, View
from graphls.runtime.onednn.registry import rule

REDUCE_MAX, REDUCE_SUM = 0x2FFF2, 0x2FFF4

MOST_SUMS = 64
"""Sums by which values are searched for nan and infinities; threads share them."""

ITEM_SIZES = {code: kind.itemsize for kind, code in DATA_TYPES.items()}


@rule("sum", "mean")
def _sum(program: Program, node: Node) -> None:
    """The sum of the last axis of a matrix, into which the other order of axes is brought; its kernel is a fast one."""
    x, dtype = node.inputs[0], DATA_TYPES[node.output.type.dtype]
    axes = normalise_axes(node.attrs.get("axis"), x.type.rank)
    rest = [i for i in range(x.type.rank) if i not in axes]
    count = prod(x.type.shape[i] for i in axes)
    source = program.read(x)
    order = (*rest, *axes)
    if order:
        moved = source.layout.permuted(order)
        source = program.converted(
            View(source.buffer, moved), Descriptor.plain([x.type.shape[i] for i in order], dtype)
        )
    rows = View(source.buffer, Descriptor.plain((x.type.size // count, count), dtype))
    result = by_row(program, rows, REDUCE_SUM)
    if node.primitive.name == "mean" and count > 1:
        totals = result.layout
        mean, divisor = program.scratch(totals), program.number(float(count), 2)
        kernel = Primitive("quotient", "binary", library().engine, DIV, totals, divisor.layout, totals,
                           None)  # fmt: skip
        program.run(kernel, {Role.SOURCE: result, Role.SOURCE_1: divisor, Role.RESULT: mean})
        result = mean
    program.alias(node.output, View(result.buffer, Descriptor.of(node.output.type)))


def by_row(program: Program, rows: View, algorithm: int) -> View:
    """The sum or the greatest element of each row of a matrix, as a column."""
    count, size = rows.layout.shape
    column = Descriptor.plain((count, 1), rows.layout.dtype)
    if size == 1:
        return View(rows.buffer, column)
    result = program.scratch(column)
    kernel = Primitive("reduction", "reduction", library().engine, algorithm, rows.layout, column, *floats(0, 0),
                       None)  # fmt: skip
    program.run(kernel, {Role.SOURCE: rows, Role.RESULT: result})
    return result


def in_rows(layout: Descriptor) -> Descriptor:
    """The elements of a layout as a matrix, the padding of blocks included, which is 0."""
    count = layout.size // ITEM_SIZES[layout.dtype]
    rows = gcd(count, MOST_SUMS) if count > MOST_SUMS else 1
    return Descriptor.plain((rows, count // rows), layout.dtype)
