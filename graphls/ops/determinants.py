"""Determinants of square matrices."""

from __future__ import annotations

from typing import Any

from graphls.ops.cofactors import cofactors
from graphls.ops.contractions import diagonal_of
from graphls.ops.creation import arange, ones, zeros
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.elementwise import abs, add, cast, log, mul, sign
from graphls.ops.linear_systems import solved
from graphls.ops.logic import equal, where
from graphls.ops.lu_factors import factors_of
from graphls.ops.matrices import as_column, as_one, require_square, transposed, unit_matrices
from graphls.ops.record import operation
from graphls.ops.reductions import prod, sum
from graphls.tensors.tensor import Tensor


@operation(names="matrix_determinant", classes="MatrixDeterminant")
def det(input: Any) -> Tensor:
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
def slogdet(input: Any) -> tuple[Tensor, Tensor]:
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


def _gradient_of_logarithm(x: Tensor, found: Any, sensitivity: Any) -> tuple[Tensor]:
    inverses = solved(transposed(x), unit_matrices(x))
    return (mul(inverses, as_column(as_column(sensitivity[1]))),)


@operation
def logdet(input: Any) -> Tensor:
    """The logarithms of the determinants of square matrices: -inf for 0, nan below.

    Raises GraphValueError for matrices that are not square.
    """
    signs, logarithms = slogdet(input)
    return add(logarithms, log(signs))
