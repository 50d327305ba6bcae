"""Linear systems, inverses, least squares and determinants, by LU factorization with pivoting."""

from __future__ import annotations

from typing import Any, NamedTuple

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import int64
from graphls.ops.arrays.arrangement import flip, movedim
from graphls.ops.arrays.creation import arange, ones, ones_like, zeros
from graphls.ops.arrays.diagonals import eye, tril, triu
from graphls.ops.arrays.pads import pad
from graphls.ops.arrays.shapes import broadcast_to, concat, cut, gather, gather_elements, reshape, squeeze
from graphls.ops.control_flow import scan
from graphls.ops.gradients import with_gradient
from graphls.ops.linear_algebra.contractions import diagonal_of
from graphls.ops.linear_algebra.factorizations import (
    as_column,
    as_one,
    as_row,
    require_matrices,
    require_square,
    require_system,
    row_indices,
    substituted,
    thin_factors,
    transposed,
    unit_matrices,
)
from graphls.ops.math.elementwise import (
    abs,
    cast,
    log,
    logical_and,
    sign,
    where,
)
from graphls.ops.math.reductions import argmax, prod, sum
from graphls.ops.network.network import matmul
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation, operator_class


class Factors(NamedTuple):
    """Packed LU factors: L below the diagonal, without its ones, U on and above it; step i swaps rows i, pivots[i]."""

    packed: Tensor
    pivots: Tensor


def factors_of(x: Tensor) -> Factors:
    """The LU factorization of square matrices; where a column has only zeros left, the pivot is 0."""
    size = x.shape[-1]
    positions = row_indices(size)

    def step(matrix: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        column = abs(gather(matrix, i, -1))
        pivot = argmax(where(positions >= i, column, -1.0), -1)
        matrix = swapped_rows(matrix, i, pivot)
        return eliminated(matrix, i, positions), pivot

    packed, pivots = scan(step, x, arange(size))
    return Factors(packed, movedim(pivots, 0, -1))


def eliminated(matrix: Tensor, i: Tensor, positions: Tensor) -> Tensor:
    """One elimination step: subtracts multiples of row i that zero column i, and stores the factors in column i."""
    row, column = gather(matrix, i, -2), gather(matrix, i, -1)
    pivot = as_column(gather(row, i, -1))  # 0 where a matrix is singular: nothing is left below it to eliminate
    factors = where(positions > i, column / where(pivot == 0, 1.0, pivot), 0.0)
    later = where(positions > i, row, 0.0)
    is_factor = logical_and(as_column(positions > i), positions == i)
    return where(is_factor, as_column(factors), matrix - as_column(factors) * as_row(later))


def swapped_rows(x: Tensor, i: Tensor, pivot: Tensor) -> Tensor:
    """The matrices with two rows swapped."""
    positions, other = row_indices(x.shape[-2]), as_column(pivot)
    order = where(positions == i, other, where(positions == other, i, positions))
    return gather_elements(x, -2, broadcast_to(as_column(order), x.shape))


def permuted(x: Tensor, pivots: Tensor, reverse: bool = False) -> Tensor:
    """The rows swapped by the pivots, one after the other, or with `reverse` swapped back."""
    steps = (movedim(pivots, -1, 0), arange(pivots.shape[-1]))
    result: Tensor = scan(lambda rows, step: (swapped_rows(rows, step[1], step[0]), None), x, steps, reverse=reverse)[0]
    return result


def solved_by(factors: Factors, rhs: Tensor) -> Tensor:
    """The solutions for right-hand sides of the same batch."""
    lower = tril(factors.packed, -1) + unit_matrices(factors.packed)
    return substituted(triu(factors.packed), substituted(lower, permuted(rhs, factors.pivots), True), False)


@operation(classes="LuSolve", method=True)
def lu_solve(b: TensorLike, LU_data: TensorLike, LU_pivots: TensorLike) -> Tensor:
    """The solutions x of A @ x = `b`, of shape (..., n, k), from the packed LU factors of A and their pivots.

    U is on and above the diagonal, L below, without its ones. The int pivots, of shape (..., n), count from 1, as in
    LAPACK: row i of A was swapped with row pivots[i]. Raises GraphValueError for other shapes.
    """
    pivots = _pivots("lu_solve", tensor_of(LU_data), LU_pivots)

    def computed(rhs: Tensor, packed: Tensor) -> Tensor:
        packed, rhs = require_system("lu_solve", packed, rhs)
        return solved_by(Factors(packed, broadcast_to(pivots, packed.shape[:-1])), rhs) if rhs.size else rhs

    return as_one(computed, b, LU_data)


@operation(classes="LuUnpack", settings="unpack_data unpack_pivots")
def lu_unpack(
    LU_data: TensorLike, LU_pivots: TensorLike, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, ...]:
    """The permutation P and the triangular L and U of matrices P @ L @ U, from packed factors; see `lu_solve`.

    Without `unpack_data` only P, without `unpack_pivots` only L and U. Raises GraphValueError for matrices that are not
    square.
    """
    packed = require_square("lu_unpack", tensor_of(LU_data))
    pivots = _pivots("lu_unpack", packed, LU_pivots)
    unit = unit_matrices(packed)
    permutation = transposed(permuted(unit, pivots)) if unpack_pivots and packed.size else unit
    triangles = (tril(packed, -1) + unit, triu(packed)) if unpack_data else ()
    return (permutation, *triangles) if unpack_pivots else triangles


def _pivots(name: str, packed: Tensor, values: TensorLike) -> Tensor:
    """Pivots counted from 0; raises GraphTypeError for floats, GraphValueError unless there is one for each row."""
    pivots = tensor_of(values)
    if pivots.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"The pivots of {name} are integers, not {pivots.type}.")
    if pivots.shape != packed.shape[:-1]:
        message = f"{name} of {packed.type} takes pivots of shape {packed.shape[:-1]}, not {pivots.type}."
        raise GraphValueError(message)
    return cast(pivots, int64) - 1


@operation(classes="MatrixSolve", settings="adjoint")
def matrix_solve(matrix: TensorLike, rhs: TensorLike, adjoint: bool = False) -> Tensor:
    """The solutions x of matrix @ x = rhs, of shape (..., n, k), or with `adjoint` of matrix.mT @ x = rhs.

    Batches broadcast. Infinite or nan for a singular matrix. Raises GraphValueError for other shapes.
    """

    def computed(matrix: Tensor, rhs: Tensor) -> Tensor:
        matrix, rhs = require_system("matrix_solve", matrix, rhs)
        return solved(transposed(matrix) if adjoint else matrix, rhs)

    return as_one(computed, matrix, rhs)


def solved(matrix: Tensor, rhs: Tensor) -> Tensor:
    """`matrix_solve` of batches of one shape and dtype."""

    def gradient(matrix: Tensor, rhs: Tensor, solution: Tensor, sensitivity: Tensor) -> tuple[Tensor, Tensor]:
        by_rhs = solved(transposed(matrix), sensitivity)
        return -matmul(by_rhs, transposed(solution)), by_rhs

    if not rhs.size:
        return rhs
    return with_gradient(lambda a, b: solved_by(factors_of(a), b), gradient, matrix, rhs)


@operation(also="mint mint.linalg.inv")
def inverse(input: TensorLike) -> Tensor:
    """The inverses of square matrices; infinite or nan for a singular one.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> Tensor:
        return solved(require_square("inverse", x), unit_matrices(x))

    return as_one(computed, input)


@operation
def pinv(x: TensorLike) -> Tensor:
    """The pseudo-inverses of matrices of full rank.

    Infinite, nan or large for lower ranks, which need singular values. Raises GraphValueError for fewer than two axes.
    """

    def computed(x: Tensor) -> Tensor:
        if x.shape[-2] < x.shape[-1]:
            return transposed(_pseudo_inverse(transposed(x)))
        return _pseudo_inverse(x)

    return as_one(computed, require_matrices("pinv", tensor_of(x)))


def _pseudo_inverse(x: Tensor) -> Tensor:
    """R ** -1 @ Q.mT of matrices with at least as many rows as columns."""
    q, r = thin_factors(x)
    return substituted(r, transposed(q), lower=False)


@operation
def lstsq(input: TensorLike, A: TensorLike) -> Tensor:
    """The least-squares solution x of input @ x = A; the one of least norm where there are fewer rows than columns.

    `input` is a matrix of shape (m, n) of full rank, see `pinv`, A of shape (m, k) or (m,), the result (n, k) or (n,).
    Raises GraphValueError for other shapes.
    """

    def computed(x: Tensor, right: Tensor) -> Tensor:
        if x.ndim != 2 or right.ndim not in (1, 2) or right.shape[0] != x.shape[0]:
            message = f"lstsq takes a matrix and right-hand sides with as many rows, not {x.type} and {right.type}."
            raise GraphValueError(message)
        columns = right if right.ndim == 2 else as_column(right)
        solution = _least_squares(x, columns) if columns.size else matmul(transposed(x), columns)
        return solution if right.ndim == 2 else squeeze(solution, -1)

    return as_one(computed, input, A)


def _least_squares(x: Tensor, right: Tensor) -> Tensor:
    if x.shape[0] < x.shape[1]:
        q, r = thin_factors(transposed(x))
        return matmul(q, substituted(transposed(r), right, lower=True))
    q, r = thin_factors(x)
    return substituted(r, matmul(transposed(q), right), lower=False)


@operator_class("MatrixInverse", "adjoint")
def _inverse(x: TensorLike, adjoint: bool = False) -> Any:
    """The inverses of square matrices, or with `adjoint` those of their transposes."""
    inverses = inverse(x)
    return transposed(inverses) if adjoint else inverses


@operation(names="matrix_determinant", classes="MatrixDeterminant")
def det(input: TensorLike) -> Tensor:
    """The determinants of square matrices, with finite first and second gradients at singular ones, too.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> Tensor:
        if not require_square("det", x).size:
            return ones(x.shape[:-2], x.dtype)
        return with_gradient(_determinant, _gradient, x)

    return as_one(computed, input)


def _determinant(x: Tensor) -> Tensor:
    pivots, flips = _pivots_and_flips(x)
    return prod(pivots, -1) * prod(flips, -1)


def _pivots_and_flips(x: Tensor) -> tuple[Tensor, Tensor]:
    """The diagonal of U, and -1 for each row that was swapped with another one."""
    factors = factors_of(x)
    flips = where(factors.pivots == arange(x.shape[-1]), 1.0, -1.0)
    return diagonal_of(factors.packed, x.ndim - 2, x.ndim - 1), cast(flips, x.dtype)


def _gradient(x: Tensor, determinant: Tensor, sensitivity: Tensor) -> tuple[Tensor]:
    return (cofactors(x) * as_column(as_column(sensitivity)),)


@operation(names="log_matrix_determinant", classes="LogMatrixDeterminant")
def slogdet(input: TensorLike) -> tuple[Tensor, Tensor]:
    """The signs of the determinants of square matrices, and the logarithms of their absolute values: 0 and -inf for 0.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> tuple[Tensor, Tensor]:
        if not require_square("slogdet", x).size:
            return ones(x.shape[:-2], x.dtype), zeros(x.shape[:-2], x.dtype)
        return with_gradient(_sign_and_logarithm, _gradient_of_logarithm, x)

    return as_one(computed, input)


def _sign_and_logarithm(x: Tensor) -> tuple[Tensor, Tensor]:
    pivots, flips = _pivots_and_flips(x)
    return prod(sign(pivots), -1) * prod(flips, -1), sum(log(abs(pivots)), -1)


def _gradient_of_logarithm(x: Tensor, result: TensorLike, sensitivity: Tensor) -> tuple[Tensor]:
    inverses = solved(transposed(x), unit_matrices(x))
    return (inverses * as_column(as_column(sensitivity[1])),)


@operation
def logdet(input: TensorLike) -> Tensor:
    """The logarithms of the determinants of square matrices: -inf for 0, nan below.

    Raises GraphValueError for matrices that are not square.
    """
    signs, logarithms = slogdet(input)
    return logarithms + log(signs)


def cofactors(x: Tensor) -> Tensor:
    """The cofactors of square matrices (..., n, n); they and their derivatives are finite at singular matrices, too.

    Elimination with complete pivoting leaves a block S of two rows and columns, where the factors are
    M = [[A, B], [C, D]] and S = D - C A^-1 B. The adjugate of M is then a polynomial in S,
    det(A) * (A^-1 det(S) in the place of A + [A^-1 B; -1] adj(S) [C A^-1, -1]), without a division by a pivot of 0
    while A has an inverse. Where it has none, S is 0, and so are all cofactors and their derivatives.
    """
    size = x.shape[-1]
    if size < 3:
        return ones_like(x) if size == 1 else _of_two(x)
    factors = _factored(x)
    result = permuted(transposed(permuted(_adjugate(factors.packed), factors.columns, True)), factors.rows, True)
    signs = _flips(factors.rows) * _flips(factors.columns)
    return result * as_column(as_column(cast(signs, x.dtype)))


def _of_two(x: Tensor) -> Tensor:
    """The cofactors [[d, -c], [-b, a]] of [[a, b], [c, d]]."""
    return flip(x, (-2, -1)) * (unit_matrices(x) * 2.0 - 1.0)


class _Factors(NamedTuple):
    """As `Factors` after n - 2 steps with complete pivoting: each step swaps a row and a column with others."""

    packed: Tensor
    rows: Tensor
    columns: Tensor


def _factored(x: Tensor) -> _Factors:
    size = x.shape[-1]
    positions = row_indices(size)

    def step(matrix: Tensor, i: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        is_left = positions >= i
        sizes = where(logical_and(as_column(is_left), is_left), abs(matrix), -1.0)
        largest = argmax(reshape(sizes, (*x.shape[:-2], size * size)), -1)
        row, column = largest // size, largest % size
        matrix = transposed(swapped_rows(transposed(swapped_rows(matrix, i, row)), i, column))
        return eliminated(matrix, i, positions), (row, column)

    packed, (rows, columns) = scan(step, x, arange(size - 2))
    return _Factors(packed, movedim(rows, 0, -1), movedim(columns, 0, -1))


def _flips(pivots: Tensor) -> Tensor:
    """-1 for an odd number of swaps, 1 for an even one."""
    return prod(where(pivots == arange(pivots.shape[-1]), 1.0, -1.0), -1)


def _adjugate(packed: Tensor) -> Tensor:
    """The adjugates of factored matrices, with rows and columns in the order of the pivots."""
    last = packed.shape[-1] - 2
    corner, above, below, remaining = _blocks(packed, last)
    lower, upper = tril(corner, -1) + unit_matrices(corner), triu(corner)
    scale = prod(diagonal_of(upper, upper.ndim - 2, upper.ndim - 1), -1)
    upper = where((eye(last) == 1.0) & (upper == 0.0), 1.0, upper)
    inverse = substituted(upper, substituted(lower, unit_matrices(corner), True), False)
    right = substituted(upper, above, False)
    left = transposed(substituted(transposed(lower), transposed(below), False))
    minus_one, cofactors_of_rest = -unit_matrices(remaining), transposed(_of_two(remaining))
    outer = matmul(concat((right, minus_one), -2), matmul(cofactors_of_rest, concat((left, minus_one), -1)))
    inner = inverse * as_column(as_column(_determinant_of_two(remaining)))
    return (outer + pad(inner, (0, 2, 0, 2))) * as_column(as_column(scale))


def _determinant_of_two(x: Tensor) -> Tensor:
    a, b, c, d = (reshape(element, x.shape[:-2]) for element in _blocks(x, 1))
    return a * d - b * c


def _blocks(x: Tensor, position: int) -> tuple[Tensor, ...]:
    """The four blocks of matrices whose rows and columns are split at a position, row by row."""
    rows, columns, size = x.ndim - 2, x.ndim - 1, x.shape[-1]
    cuts = ((0, position), (position, size))
    return tuple(cut(cut(x, rows, *row), columns, *column) for row in cuts for column in cuts)
