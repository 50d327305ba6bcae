"""Systems of linear equations, inverses, least squares, and products with tridiagonal matrices."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ops import matrices
from graphls.ops.creation import zeros
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.elementwise import addn, mul, neg
from graphls.ops.householder import thin_factors
from graphls.ops.lu_factors import factors_of, solved_by
from graphls.ops.matrices import (
    as_column,
    as_one,
    require_matrices,
    require_square,
    require_system,
    substituted,
    transposed,
    unit_matrices,
)
from graphls.ops.network import matmul
from graphls.ops.operands import floats, in_single, tensor_of
from graphls.ops.record import operation, operator_class
from graphls.ops.shapes import concat, cut, squeeze
from graphls.tensors.tensor import Tensor, TensorLike


@operation(classes="MatrixSolve", settings="adjoint")
def matrix_solve(matrix: TensorLike, rhs: TensorLike, adjoint: bool = False) -> Tensor:
    """The solutions x of matrix @ x = rhs, of shape (..., n, k), or with `adjoint` of matrix.mT @ x = rhs.

    They broadcast. Infinite or nan for a singular matrix. Raises GraphValueError for other shapes.
    """

    def computed(matrix: Tensor, rhs: Tensor) -> Tensor:
        matrix, rhs = require_system("matrix_solve", matrix, rhs)
        return solved(transposed(matrix) if adjoint else matrix, rhs)

    result: Tensor = as_one(computed, matrix, rhs)
    return result


def solved(matrix: Tensor, rhs: Tensor) -> Tensor:
    """`matrix_solve` of batches of one shape and dtype."""

    def gradient(matrix: Tensor, rhs: Tensor, solution: Tensor, sensitivity: Tensor) -> tuple[Tensor, Tensor]:
        by_rhs = solved(transposed(matrix), sensitivity)
        return neg(matmul(by_rhs, transposed(solution))), by_rhs

    if not rhs.size:
        return rhs
    result: Tensor = with_gradient(lambda a, b: solved_by(factors_of(a), b), gradient, matrix, rhs)
    return result


@operation
def inverse(input: TensorLike) -> Tensor:
    """The inverses of square matrices; infinite or nan for a singular one.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> Tensor:
        return solved(require_square("inverse", x), unit_matrices(x))

    result: Tensor = as_one(computed, input)
    return result


@operation
def pinv(x: TensorLike) -> Tensor:
    """The pseudo-inverses of matrices whose columns, or where those are more than the rows, whose rows are independent.

    Infinite, nan or large for others, which need singular values. Raises GraphValueError for fewer than two axes.
    """

    def computed(x: Tensor) -> Tensor:
        if x.shape[-2] < x.shape[-1]:
            return transposed(_pseudo_inverse(transposed(x)))
        return _pseudo_inverse(x)

    result: Tensor = as_one(computed, require_matrices("pinv", tensor_of(x)))
    return result


def _pseudo_inverse(x: Tensor) -> Tensor:
    """R ** -1 @ Q.mT of matrices with as many rows as columns or more."""
    q, r = thin_factors(x)
    return substituted(r, transposed(q), lower=False)


@operation
def lstsq(input: TensorLike, A: TensorLike) -> Tensor:
    """The x for which input @ x is closest to A; of several the smallest, where the matrix has fewer rows than columns.

    `input` is a matrix of shape (m, n) of full rank, see `pinv`, A of shape (m, k) or (m,), the result (n, k) or (n,).
    Raises GraphValueError for other shapes.
    """

    def computed(x: Tensor, right: Tensor) -> Tensor:
        if x.ndim != 2 or right.ndim not in (1, 2) or right.shape[0] != x.shape[0]:
            message = f"lstsq takes a matrix and right-hand sides with as many rows, not {x.type} and {right.type}."
            raise GraphValueError(message)
        columns = right if right.ndim == 2 else as_column(right)
        found = _least_squares(x, columns) if columns.size else matmul(transposed(x), columns)
        return found if right.ndim == 2 else squeeze(found, -1)

    result: Tensor = as_one(computed, input, A)
    return result


def _least_squares(x: Tensor, right: Tensor) -> Tensor:
    if x.shape[0] < x.shape[1]:
        q, r = thin_factors(transposed(x))
        return matmul(q, substituted(transposed(r), right, lower=True))
    q, r = thin_factors(x)
    return substituted(r, matmul(transposed(q), right), lower=False)


@operator_class("MatrixInverse", "adjoint")
def _inverse(x: TensorLike, adjoint: bool = False) -> Any:
    """The inverses of square matrices, or with `adjoint` those of their transposes."""
    found = inverse(x)
    return matrices.transposed(found) if adjoint else found


@operator_class("TridiagonalMatMul")
def tridiagonal_product(superdiag: TensorLike, maindiag: TensorLike, subdiag: TensorLike, rhs: TensorLike) -> Tensor:
    """The products of tridiagonal matrices and others, (..., m, n), by their diagonals, each of shape (..., 1, m).

    The last element above the main diagonal and the first below it are not used. Raises GraphValueError for other
    shapes.
    """
    *diagonals, right = floats(superdiag, maindiag, subdiag, rhs)
    wanted = (*right.shape[:-2], 1, *right.shape[-2:-1])
    if right.ndim < 2 or any(diagonal.shape != wanted for diagonal in diagonals):
        given = ", ".join(str(diagonal.type) for diagonal in diagonals)
        message = f"TridiagonalMatMul with {right.type} takes diagonals of shape {wanted}, not {given}."
        raise GraphValueError(message)
    return in_single(_product, *diagonals, right)


def _product(above: Tensor, main: Tensor, below: Tensor, rhs: Tensor) -> Tensor:
    count, axis = rhs.shape[-2], rhs.ndim - 2
    if not count:
        return rhs
    edge = zeros((*rhs.shape[:-2], 1, rhs.shape[-1]), rhs.dtype)
    later, earlier = concat((cut(rhs, axis, 1, count), edge), axis), concat((edge, cut(rhs, axis, 0, count - 1)), axis)
    products = [mul(transposed(d), rows) for d, rows in ((above, later), (main, rhs), (below, earlier))]
    return addn(products)
