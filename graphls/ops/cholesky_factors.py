"""Symmetric positive definite matrices: their factors, and what these are for."""

from __future__ import annotations

from graphls.ops.arrangement import movedim
from graphls.ops.control_flow import scan
from graphls.ops.creation import arange, zeros_like
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.diagonals import tril, triu
from graphls.ops.elementwise import add, div, mul, sqrt, sub
from graphls.ops.logic import equal, greater_equal, logical_and, where
from graphls.ops.matrices import (
    as_column,
    as_one,
    numbered,
    require_square,
    require_system,
    substituted,
    transposed,
    unit_matrices,
)
from graphls.ops.network import matmul
from graphls.ops.record import operation
from graphls.ops.shapes import gather, squeeze
from graphls.tensors.tensor import Tensor, TensorLike


@operation(classes="Cholesky", settings="upper")
def cholesky(input_x: TensorLike, upper: bool = False) -> Tensor:
    """The lower triangular matrices L, or with `upper` their transposes, with which symmetric ones are L @ L.mT.

    Of matrices that are not symmetric it is that of the symmetric part, so that gradients are symmetric. It holds nan
    where a matrix is not positive definite. Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> Tensor:
        require_square("cholesky", x)
        if not x.size:
            return x
        factor: Tensor = with_gradient(_column_by_column, _gradient, _symmetric(x))
        return transposed(factor) if upper else factor

    result: Tensor = as_one(computed, input_x)
    return result


def _symmetric(x: Tensor) -> Tensor:
    return mul(add(x, transposed(x)), 0.5)


def _column_by_column(x: Tensor) -> Tensor:
    """Each column of L is that of x less what the columns before it contribute, divided by the root of the diagonal."""
    places = numbered(x.shape[-1])

    def step(factor: Tensor, item: Tensor) -> tuple[Tensor, None]:
        column, i = item
        row = as_column(gather(factor, i, -2))
        rest = sub(column, squeeze(matmul(factor, row), -1))
        line = div(rest, sqrt(as_column(gather(rest, i, -1))))
        is_new = logical_and(greater_equal(as_column(places), i), equal(places, i))
        return where(is_new, as_column(line), factor), None

    found, _ = scan(step, zeros_like(x), (movedim(x, -1, 0), arange(x.shape[-1])))
    factor: Tensor = found
    return factor


def _gradient(x: Tensor, factor: Tensor, sensitivity: Tensor) -> tuple[Tensor]:
    """Murray's "Differentiation of the Cholesky decomposition" (2016), equation 10."""
    inner = tril(matmul(transposed(factor), tril(sensitivity)))
    inner = sub(inner, mul(inner, mul(unit_matrices(x), 0.5)))
    upper = transposed(factor)
    left = substituted(upper, inner, lower=False)
    return (_symmetric(transposed(substituted(upper, transposed(left), lower=False))),)


@operation(classes="CholeskySolve", settings="upper")
def cholesky_solve(input: TensorLike, input2: TensorLike, upper: bool = False) -> Tensor:
    """The solutions x of A @ x = `input`, of shape (..., n, k), by the factors `input2` of A that `cholesky` gives.

    They broadcast. `upper` says that the factors are the upper ones. Raises GraphValueError for other shapes.
    """

    def computed(rhs: Tensor, factor: Tensor) -> Tensor:
        factor, rhs = require_system("cholesky_solve", factor, rhs)
        return _solved(rhs, transposed(triu(factor)) if upper else tril(factor))

    result: Tensor = as_one(computed, input, input2)
    return result


def _solved(rhs: Tensor, lower: Tensor) -> Tensor:
    return substituted(transposed(lower), substituted(lower, rhs, lower=True), lower=False)


@operation(classes="CholeskyInverse", settings="upper")
def cholesky_inverse(input_x: TensorLike, upper: bool = False) -> Tensor:
    """The inverses of the matrices whose lower factors, or with `upper` whose upper ones, are given.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(factor: Tensor) -> Tensor:
        require_square("cholesky_inverse", factor)
        return _solved(unit_matrices(factor), transposed(triu(factor)) if upper else tril(factor))

    result: Tensor = as_one(computed, input_x)
    return result
