"""Triangular factors of square matrices by elimination, with the largest element of each column as its pivot."""

from __future__ import annotations

from typing import NamedTuple

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import int64
from graphls.ops.arrangement import movedim
from graphls.ops.control_flow import scan
from graphls.ops.creation import arange
from graphls.ops.diagonals import tril, triu
from graphls.ops.elementwise import abs, add, cast, div, mul, sub
from graphls.ops.logic import equal, greater, greater_equal, logical_and, where
from graphls.ops.matrices import (
    as_column,
    as_one,
    as_row,
    numbered,
    require_square,
    require_system,
    substituted,
    transposed,
    unit_matrices,
)
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.ops.reductions import argmax
from graphls.ops.shapes import broadcast_to, gather, gather_elements
from graphls.tensors.tensor import Tensor, TensorLike


class Factors(NamedTuple):
    """L below the diagonal of `packed`, without its ones, and U on and above it; row i was exchanged with pivots[i]."""

    packed: Tensor
    pivots: Tensor


def factors_of(x: Tensor) -> Factors:
    """The factors of square matrices; where a column has only zeros to choose from, the pivot is 0."""
    size = x.shape[-1]
    places = numbered(size)

    def step(matrix: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        column = abs(gather(matrix, i, -1))
        pivot = argmax(where(greater_equal(places, i), column, -1.0), -1)
        matrix = exchanged(matrix, i, pivot)
        return eliminated(matrix, i, places), pivot

    packed, pivots = scan(step, x, arange(size))
    return Factors(packed, movedim(pivots, 0, -1))


def eliminated(matrix: Tensor, i: Tensor, places: Tensor) -> Tensor:
    """The matrices after the multiples of row i that make column i zero are subtracted; those stand in column i."""
    row, column = gather(matrix, i, -2), gather(matrix, i, -1)
    pivot = as_column(gather(row, i, -1))
    factors = where(greater(places, i), div(column, where(equal(pivot, 0), 1.0, pivot)), 0.0)
    later = where(greater(places, i), row, 0.0)
    is_factor = logical_and(as_column(greater(places, i)), equal(places, i))
    return where(is_factor, as_column(factors), sub(matrix, mul(as_column(factors), as_row(later))))


def exchanged(x: Tensor, i: Tensor, pivot: Tensor) -> Tensor:
    """The matrices with two of their rows in each other's place."""
    places, other = numbered(x.shape[-2]), as_column(pivot)
    order = where(equal(places, i), other, where(equal(places, other), i, places))
    return gather_elements(x, -2, broadcast_to(as_column(order), x.shape))


def permuted(x: Tensor, pivots: Tensor, reverse: bool = False) -> Tensor:
    """The rows exchanged as the pivots say, one after the other, or with `reverse` put back."""
    steps = (movedim(pivots, -1, 0), arange(pivots.shape[-1]))
    found, _ = scan(lambda rows, step: (exchanged(rows, step[1], step[0]), None), x, steps, reverse=reverse)
    result: Tensor = found
    return result


def solved_by(factors: Factors, rhs: Tensor) -> Tensor:
    """The solutions for right-hand sides of the same batch."""
    lower = add(tril(factors.packed, -1), unit_matrices(factors.packed))
    return substituted(triu(factors.packed), substituted(lower, permuted(rhs, factors.pivots), True), False)


@operation(classes="LuSolve", method=True)
def lu_solve(b: TensorLike, LU_data: TensorLike, LU_pivots: TensorLike) -> Tensor:
    """The solutions x of A @ x = `b`, of shape (..., n, k), by the factors of A in one matrix, and by its pivots.

    U stands on and above the diagonal, L below, without its ones. The int pivots, of shape (..., n), count from 1, as
    those of LAPACK do: row i of A was exchanged with row pivots[i]. Raises GraphValueError for other shapes.
    """
    pivots = _pivots("lu_solve", tensor_of(LU_data), LU_pivots)

    def computed(rhs: Tensor, packed: Tensor) -> Tensor:
        packed, rhs = require_system("lu_solve", packed, rhs)
        return solved_by(Factors(packed, broadcast_to(pivots, packed.shape[:-1])), rhs) if rhs.size else rhs

    result: Tensor = as_one(computed, b, LU_data)
    return result


@operation(classes="LuUnpack", settings="unpack_data unpack_pivots")
def lu_unpack(
    LU_data: TensorLike, LU_pivots: TensorLike, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, ...]:
    """The permutation P and the triangular L and U with which P @ L @ U are the matrices; see `lu_solve`.

    Without `unpack_data` only P, without `unpack_pivots` only L and U. Raises GraphValueError for matrices that are not
    square.
    """
    packed = require_square("lu_unpack", tensor_of(LU_data))
    pivots = _pivots("lu_unpack", packed, LU_pivots)
    unit = unit_matrices(packed)
    permutation = transposed(permuted(unit, pivots)) if unpack_pivots and packed.size else unit
    triangles = (add(tril(packed, -1), unit), triu(packed)) if unpack_data else ()
    return (permutation, *triangles) if unpack_pivots else triangles


def _pivots(name: str, packed: Tensor, given: TensorLike) -> Tensor:
    """Pivots counted from 0; raises GraphTypeError for floats, GraphValueError unless there is one for each row."""
    pivots = tensor_of(given)
    if pivots.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"The pivots of {name} are integers, not {pivots.type}.")
    if pivots.shape != packed.shape[:-1]:
        message = f"{name} of {packed.type} takes pivots of shape {packed.shape[:-1]}, not {pivots.type}."
        raise GraphValueError(message)
    return sub(cast(pivots, int64), 1)
