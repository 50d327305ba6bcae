"""Operator classes of matrices: the tables that `graphls.ops.operations` makes them of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ops import (
    cholesky_factors,
    determinants,
    householder,
    linear_systems,
    lu_factors,
    matrices,
    matrix_exponential,
    triangular,
    tridiagonal,
)


def _inverse(x: Any, adjoint: bool = False) -> Any:
    """The inverses of square matrices, or with `adjoint` those of their transposes."""
    inverse = linear_systems.inverse(x)
    return matrices.transposed(inverse) if adjoint else inverse


def _qr(x: Any, full_matrices: bool = False) -> Any:
    """The orthogonal and triangular factors of matrices, see `qr`; a square Q with `full_matrices`."""
    return householder.qr(x, "complete" if full_matrices else "reduced")


PLAIN: dict[str, Callable[..., Any]] = {
    "Geqrf": householder.geqrf,
    "LogMatrixDeterminant": determinants.log_matrix_determinant,
    "LuSolve": lu_factors.lu_solve,
    "MatrixDeterminant": determinants.det,
    "MatrixExp": matrix_exponential.matrix_exp,
    "Orgqr": householder.orgqr,
    "TridiagonalMatMul": tridiagonal.tridiagonal_product,
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Cholesky": (cholesky_factors.cholesky, {"upper": False}),
    "CholeskyInverse": (cholesky_factors.cholesky_inverse, {"upper": False}),
    "CholeskySolve": (cholesky_factors.cholesky_solve, {"upper": False}),
    "LuUnpack": (lu_factors.lu_unpack, {"unpack_data": True, "unpack_pivots": True}),
    "MatrixInverse": (_inverse, {"adjoint": False}),
    "MatrixSolve": (linear_systems.matrix_solve, {"adjoint": False}),
    "MatrixTriangularSolve": (triangular.solve_triangular, {"lower": True, "adjoint": False}),
    "Ormqr": (householder.ormqr, {"left": True, "transpose": False}),
    "Qr": (_qr, {"full_matrices": False}),
}
