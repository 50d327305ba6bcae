"""Rules of reductions."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import Type
from graphls.primitives.primitive import normalise_axes
from graphls.runtime.onednn.binding import F32, SIZES, Descriptor, Primitive, Role, floats
from graphls.runtime.onednn.elementwise.algorithms import DIV
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Program
from graphls.runtime.onednn.registry import rule

REDUCE_MAX, REDUCE_MIN, REDUCE_SUM = range(0x2FFF2, 0x2FFF5)

MOST_SUMS = 64
"""Sums by which values are searched for nan and infinities; threads share them."""


@rule("sum", "mean")
def _sum(program: Program, node: Node) -> None:
    """Sums over neighbouring axes before others by products, others by the last axis of a matrix, into which the axes
    are brought.

    For these there are fast kernels.
    """
    x = node.inputs[0]
    axes = normalise_axes(node.attrs.get("axis"), x.type.rank)
    rest = [i for i in range(x.type.rank) if i not in axes]
    count = prod(x.type.shape[i] for i in axes)
    source = program.read(x)
    is_mean = node.primitive.name == "mean" and count > 1
    dtype = F32 if is_mean else source.layout.dtype
    outer = prod(x.type.shape[: axes[0]]) if axes else 1
    inner = prod(x.type.shape[axes[-1] + 1 :]) if axes else 1
    if outer * count * inner == x.type.size and count > 1 and inner > 1 and source.layout.is_plain:
        result = _by_column(program, source, x.type.with_shape((outer, count, inner)), dtype)
    else:
        result = by_row(program, _rows(program, x, source, (*rest, *axes), count), REDUCE_SUM, dtype)
    if is_mean:
        totals = Descriptor.plain((1, prod(result.layout.shape)))  # columns would be slow
        result = View(result.buffer, totals)
        mean, divisor = program.scratch(totals), program.number(float(count), 2)
        kernel = Primitive("quotient", "binary", library().engine, DIV, totals, divisor.layout, totals,
                           None)  # fmt: skip
        program.run(kernel, {Role.SOURCE: result, Role.SOURCE_1: divisor, Role.RESULT: mean})
        result = program.converted(mean, totals.with_dtype(source.layout.dtype))
    program.alias(node.output, View(result.buffer, Descriptor.of(node.output.type)))


def _rows(program: Program, x: Value, source: View, order: Sequence[int], count: int) -> View:
    """A value as a matrix, whose rows have the last axes of an order."""
    dtype = source.layout.dtype
    if order:
        moved = View(source.buffer, source.layout.permuted(order))
        source = program.converted(moved, Descriptor.plain([x.type.shape[i] for i in order], dtype))
    return View(source.buffer, Descriptor.plain((x.type.size // count, count), dtype))


def _by_column(program: Program, source: View, kind: Type, dtype: int) -> View:
    """The sums of the columns of matrices: the products of ones with them, which move nothing."""
    outer, count, inner = kind.shape
    shapes = ((1, count), (count, inner), (1, inner)) if outer == 1 else ((1, 1, count), kind.shape, (outer, 1, inner))
    of_ones = kind.with_shape(shapes[0])
    matrices, totals = Descriptor.plain(shapes[1], source.layout.dtype), Descriptor.plain(shapes[2], dtype)
    ones = program.shared(np.ones(of_ones.shape, kind.dtype.numpy), Descriptor.of(of_ones))
    kernel = Primitive("sums of columns", "matmul", library().engine, ones.layout, matrices, None, totals, None)
    result = program.scratch(totals)
    program.run(kernel, {Role.SOURCE: ones, Role.WEIGHTS: View(source.buffer, matrices), Role.RESULT: result})
    return result


def by_row(program: Program, rows: View, algorithm: int, dtype: int) -> View:
    """The sum, the greatest or the least element of each row of a matrix, as a column of a dtype."""
    count, size = rows.layout.shape
    column = Descriptor.plain((count, 1), dtype)
    if size == 1 and dtype == rows.layout.dtype:
        return View(rows.buffer, column)
    result = program.scratch(column)
    kernel = Primitive("reduction", "reduction", library().engine, algorithm, rows.layout, column, *floats(0, 0),
                       None)  # fmt: skip
    program.run(kernel, {Role.SOURCE: rows, Role.RESULT: result})
    return result


def in_rows(layout: Descriptor) -> Descriptor:
    """The elements of a layout as a matrix, the padding of blocks included, which is 0."""
    count = layout.size // SIZES[layout.dtype]
    rows = gcd(count, MOST_SUMS) if count > MOST_SUMS else 1
    return Descriptor.plain((rows, count // rows), layout.dtype)
