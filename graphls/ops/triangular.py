"""Systems of linear equations with triangular matrices."""

from __future__ import annotations

from typing import Any

from graphls.ops.control_flow import scan
from graphls.ops.creation import arange, zeros_like
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.diagonals import tril, triu
from graphls.ops.elementwise import div, neg, sub
from graphls.ops.logic import equal, where
from graphls.ops.matrices import as_column, as_one, as_row, numbered, require_system, transposed
from graphls.ops.movement import movedim
from graphls.ops.network import matmul
from graphls.ops.record import operator_class
from graphls.ops.shapes import gather, squeeze
from graphls.tensors.tensor import Tensor


@operator_class("MatrixTriangularSolve", "lower adjoint")
def solve_triangular(matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False) -> Tensor:
    """What triangular matrices give the right-hand sides, of shape (..., n, k), when multiplied by it; they broadcast.

    Only the triangle on and below the diagonal is read, or with `lower` False that on and above it. `adjoint` solves
    with the transposed matrices. Infinite or nan where a diagonal holds 0. Raises GraphValueError for other shapes.
    """

    def computed(matrix: Tensor, rhs: Tensor) -> Tensor:
        matrix, rhs = require_system("solve_triangular", matrix, rhs)
        triangle = tril(matrix) if lower else triu(matrix)
        return substituted(transposed(triangle) if adjoint else triangle, rhs, bool(lower) is not bool(adjoint))

    result: Tensor = as_one(computed, matrix, rhs)
    return result


def substituted(triangle: Tensor, rhs: Tensor, lower: bool) -> Tensor:
    """`solve_triangular` of batches of one shape and dtype, with zeros in the other triangle."""

    def gradient(triangle: Tensor, rhs: Tensor, solution: Tensor, sensitivity: Tensor) -> tuple[Tensor, Tensor]:
        by_rhs = substituted(transposed(triangle), sensitivity, not lower)
        by_matrix = neg(matmul(by_rhs, transposed(solution)))
        return (tril if lower else triu)(by_matrix), by_rhs

    if not rhs.size:
        return rhs
    result: Tensor = with_gradient(lambda a, b: _row_by_row(a, b, lower), gradient, triangle, rhs)
    return result


def _row_by_row(triangle: Tensor, rhs: Tensor, lower: bool) -> Tensor:
    """Substitution, from the first row on or from the last: rows that are not yet known count as 0."""
    size = triangle.shape[-1]
    places = as_column(numbered(size))

    def step(found: Tensor, row: Any) -> tuple[Tensor, None]:
        factors, values, i = row
        known = squeeze(matmul(as_row(factors), found), -2)
        line = div(sub(values, known), as_column(gather(factors, i, -1)))
        return where(equal(places, i), as_row(line), found), None

    rows = (movedim(triangle, -2, 0), movedim(rhs, -2, 0), arange(size))
    found, _ = scan(step, zeros_like(rhs), rows, reverse=not lower)
    solution: Tensor = found
    return solution
