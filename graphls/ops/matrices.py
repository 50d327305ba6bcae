"""What the functions of matrices share; the last two axes are those of matrices, the others those of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ir.types import broadcast_shapes, float32
from graphls.ops.arrangement import movedim
from graphls.ops.control_flow import scan
from graphls.ops.creation import arange, zeros_like
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.diagonals import eye, tril, triu
from graphls.ops.elementwise import cast, div, neg, sub
from graphls.ops.logic import equal, where
from graphls.ops.network import matmul
from graphls.ops.operands import floats, in_graph
from graphls.ops.record import operator_class
from graphls.ops.shapes import broadcast_to, gather, reshape, squeeze, swapaxes
from graphls.tensors import dispatch
from graphls.tensors.pytree import map_leaves
from graphls.tensors.tensor import Tensor, TensorLike


def as_one(function: Callable[..., Any], *operands: object) -> Any:
    """`function` of the operands as tensors of one float dtype, as if it were a single operation.

    16-bit floats are computed in float32 and rounded once, and no network with mixed precision casts what is inside.
    """
    tensors = floats(*operands)
    dtype = tensors[0].dtype
    with dispatch.without_casts():
        results = function(*(cast(t, float32) if dtype.is_half else t for t in tensors))
    return map_leaves(lambda t: cast(t, dtype) if dtype.is_half and t.dtype is float32 else t, results)


def require_matrices(name: str, x: Tensor) -> Tensor:
    """x itself; raises GraphValueError for fewer than two axes."""
    if x.ndim < 2:
        raise GraphValueError(f"{name} takes matrices or batches of them, not {x.type}.")
    return x


def require_square(name: str, x: Tensor) -> Tensor:
    """x itself; raises GraphValueError unless its last two axes have one size."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise GraphValueError(f"{name} takes square matrices, not {x.type}.")
    return x


def require_system(name: str, matrix: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
    """Square matrices and right-hand sides with as many rows, as batches of one shape; raises GraphValueError else."""
    require_square(name, matrix)
    if rhs.ndim < 2 or rhs.shape[-2] != matrix.shape[-1]:
        message = f"{name} with {matrix.type} takes right-hand sides with {matrix.shape[-1]} rows, not {rhs.type}."
        raise GraphValueError(message)
    batch = broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    return broadcast_to(matrix, (*batch, *matrix.shape[-2:])), broadcast_to(rhs, (*batch, *rhs.shape[-2:]))


def transposed(x: Tensor) -> Tensor:
    """The matrices with rows and columns exchanged."""
    return swapaxes(x, -1, -2)


def unit_matrices(x: Tensor) -> Tensor:
    """Unit matrices of the shape and dtype of square matrices."""
    return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)


def numbered(size: int) -> Tensor:
    """The numbers from 0 on of so many rows or columns, for comparing them with one that a loop is at."""
    return in_graph(arange(size))


def as_column(x: Tensor) -> Tensor:
    """Vectors along the last axis as matrices of one column."""
    return reshape(x, (*x.shape, 1))


def as_row(x: Tensor) -> Tensor:
    """Vectors along the last axis as matrices of one row."""
    return reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


@operator_class("MatrixTriangularSolve", "lower adjoint")
def solve_triangular(matrix: TensorLike, rhs: TensorLike, lower: bool = True, adjoint: bool = False) -> Tensor:
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

    def step(found: Tensor, row: Tensor) -> tuple[Tensor, None]:
        factors, values, i = row
        known = squeeze(matmul(as_row(factors), found), -2)
        line = div(sub(values, known), as_column(gather(factors, i, -1)))
        return where(equal(places, i), as_row(line), found), None

    rows = (movedim(triangle, -2, 0), movedim(rhs, -2, 0), arange(size))
    found, _ = scan(step, zeros_like(rhs), rows, reverse=not lower)
    solution: Tensor = found
    return solution
