"""Matrices of which only three diagonals hold numbers."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ops.creation import zeros
from graphls.ops.elementwise import addn, mul
from graphls.ops.matrices import transposed
from graphls.ops.operands import floats, in_single
from graphls.ops.record import operator_class
from graphls.ops.shapes import concat, cut
from graphls.tensors.tensor import Tensor


@operator_class("TridiagonalMatMul")
def tridiagonal_product(superdiag: Any, maindiag: Any, subdiag: Any, rhs: Any) -> Tensor:
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
