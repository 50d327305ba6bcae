"""Determinants of square matrices."""

from __future__ import annotations

from typing import NamedTuple

from graphls.ops.arrangement import flip, movedim
from graphls.ops.contractions import diagonal_of
from graphls.ops.control_flow import scan
from graphls.ops.creation import arange, ones, ones_like, zeros
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.diagonals import eye, tril, triu
from graphls.ops.elementwise import abs, add, cast, floor_div, log, mod, mul, neg, sign, sub
from graphls.ops.linear_systems import solved
from graphls.ops.logic import equal, greater_equal, logical_and, where
from graphls.ops.lu_factors import eliminated, exchanged, factors_of, permuted
from graphls.ops.matrices import as_column, as_one, numbered, require_square, substituted, transposed, unit_matrices
from graphls.ops.network import matmul
from graphls.ops.pads import pad
from graphls.ops.record import operation
from graphls.ops.reductions import argmax, prod, sum
from graphls.ops.shapes import concat, cut, reshape
from graphls.tensors.tensor import Tensor, TensorLike


@operation(names="matrix_determinant", classes="MatrixDeterminant")
def det(input: TensorLike) -> Tensor:
    """The determinants of square matrices, with their first and second gradients at singular ones, too.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> Tensor:
        if not require_square("det", x).size:
            return ones(x.shape[:-2], x.dtype)
        result: Tensor = with_gradient(_determinant, _gradient, x)
        return result

    result: Tensor = as_one(computed, input)
    return result


def _determinant(x: Tensor) -> Tensor:
    pivots, flips = _pivots_and_flips(x)
    return mul(prod(pivots, -1), prod(flips, -1))


def _pivots_and_flips(x: Tensor) -> tuple[Tensor, Tensor]:
    """The diagonal of U, and -1 for each row that was exchanged with another one."""
    factors = factors_of(x)
    flips = where(equal(factors.pivots, arange(x.shape[-1])), 1.0, -1.0)
    return diagonal_of(factors.packed, x.ndim - 2, x.ndim - 1), cast(flips, x.dtype)


def _gradient(x: Tensor, found: Tensor, sensitivity: Tensor) -> tuple[Tensor]:
    return (mul(cofactors(x), as_column(as_column(sensitivity))),)


@operation(names="log_matrix_determinant", classes="LogMatrixDeterminant")
def slogdet(input: TensorLike) -> tuple[Tensor, Tensor]:
    """The signs of the determinants of square matrices, and the logarithms of their absolute values: 0 and -inf for 0.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> tuple[Tensor, Tensor]:
        if not require_square("slogdet", x).size:
            return ones(x.shape[:-2], x.dtype), zeros(x.shape[:-2], x.dtype)
        result: tuple[Tensor, Tensor] = with_gradient(_sign_and_logarithm, _gradient_of_logarithm, x)
        return result

    result: tuple[Tensor, Tensor] = as_one(computed, input)
    return result


def _sign_and_logarithm(x: Tensor) -> tuple[Tensor, Tensor]:
    pivots, flips = _pivots_and_flips(x)
    return mul(prod(sign(pivots), -1), prod(flips, -1)), sum(log(abs(pivots)), -1)


def _gradient_of_logarithm(x: Tensor, found: TensorLike, sensitivity: Tensor) -> tuple[Tensor]:
    inverses = solved(transposed(x), unit_matrices(x))
    return (mul(inverses, as_column(as_column(sensitivity[1]))),)


@operation
def logdet(input: TensorLike) -> Tensor:
    """The logarithms of the determinants of square matrices: -inf for 0, nan below.

    Raises GraphValueError for matrices that are not square.
    """
    signs, logarithms = slogdet(input)
    return add(logarithms, log(signs))


def cofactors(x: Tensor) -> Tensor:
    """The cofactors of square matrices (..., n, n); they and their slopes are finite at singular matrices, too.

    Elimination with the largest of all remaining elements as pivot leaves a block S of two rows and columns, where the
    factors are M = [[A, B], [C, D]] and S = D - C A^-1 B. With that, the adjugate of M is a polynomial of S,
    det(A) * (A^-1 det(S) in the place of A + [A^-1 B; -1] adj(S) [C A^-1, -1]), so nothing is divided by a pivot that
    is 0 while A has an inverse. Where it has none, S is 0, and so are all cofactors and their slopes.
    """
    size = x.shape[-1]
    if size < 3:
        return ones_like(x) if size == 1 else _of_two(x)
    factors = _factored(x)
    found = permuted(transposed(permuted(_adjugate(factors.packed), factors.columns, True)), factors.rows, True)
    signs = mul(_flips(factors.rows), _flips(factors.columns))
    return mul(found, as_column(as_column(cast(signs, x.dtype))))


def _of_two(x: Tensor) -> Tensor:
    """[[d, -c], [-b, a]] of [[a, b], [c, d]]."""
    return mul(flip(x, (-2, -1)), sub(mul(unit_matrices(x), 2.0), 1.0))


class _Factors(NamedTuple):
    """As `lu_factors.Factors` of the first n - 2 steps, of which each exchanged a row and a column with another one."""

    packed: Tensor
    rows: Tensor
    columns: Tensor


def _factored(x: Tensor) -> _Factors:
    size = x.shape[-1]
    places = numbered(size)

    def step(matrix: Tensor, i: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        is_left = greater_equal(places, i)
        sizes = where(logical_and(as_column(is_left), is_left), abs(matrix), -1.0)
        largest = argmax(reshape(sizes, (*x.shape[:-2], size * size)), -1)
        row, column = floor_div(largest, size), mod(largest, size)
        matrix = transposed(exchanged(transposed(exchanged(matrix, i, row)), i, column))
        return eliminated(matrix, i, places), (row, column)

    packed, (rows, columns) = scan(step, x, arange(size - 2))
    return _Factors(packed, movedim(rows, 0, -1), movedim(columns, 0, -1))


def _flips(pivots: Tensor) -> Tensor:
    """-1 for an odd number of exchanges, 1 for an even one."""
    return prod(where(equal(pivots, arange(pivots.shape[-1])), 1.0, -1.0), -1)


def _adjugate(packed: Tensor) -> Tensor:
    """The adjugates of the matrices that were factored, with their rows and columns in the order of the pivots."""
    last = packed.shape[-1] - 2
    corner, above, below, rest = _blocks(packed, last)
    lower, upper = add(tril(corner, -1), unit_matrices(corner)), triu(corner)
    scale = prod(diagonal_of(upper, upper.ndim - 2, upper.ndim - 1), -1)
    upper = where(logical_and(equal(eye(last), 1.0), equal(upper, 0.0)), 1.0, upper)
    inverse = substituted(upper, substituted(lower, unit_matrices(corner), True), False)
    right = substituted(upper, above, False)
    left = transposed(substituted(transposed(lower), transposed(below), False))
    minus_one = neg(unit_matrices(rest))
    outer = matmul(concat((right, minus_one), -2), matmul(transposed(_of_two(rest)), concat((left, minus_one), -1)))
    inner = mul(inverse, as_column(as_column(_determinant_of_two(rest))))
    return mul(add(outer, pad(inner, (0, 2, 0, 2))), as_column(as_column(scale)))


def _determinant_of_two(x: Tensor) -> Tensor:
    a, b, c, d = (reshape(element, x.shape[:-2]) for element in _blocks(x, 1))
    return sub(mul(a, d), mul(b, c))


def _blocks(x: Tensor, place: int) -> tuple[Tensor, ...]:
    """The four parts of matrices whose rows and columns are cut at a place, row by row."""
    rows, columns, size = x.ndim - 2, x.ndim - 1, x.shape[-1]
    cuts = ((0, place), (place, size))
    return tuple(cut(cut(x, rows, *row), columns, *column) for row in cuts for column in cuts)
