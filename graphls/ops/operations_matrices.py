"""Operator classes of matrices: the tables that `graphls.ops.operations` makes them of."""

from __future__ import annotations

from typing import Any

from graphls.ops import (
    householder,
    linear_systems,
    matrices,
)
from graphls.ops.record import operator_class


@operator_class("MatrixInverse", "adjoint")
def _inverse(x: Any, adjoint: bool = False) -> Any:
    """The inverses of square matrices, or with `adjoint` those of their transposes."""
    inverse = linear_systems.inverse(x)
    return matrices.transposed(inverse) if adjoint else inverse


@operator_class("Qr", "full_matrices")
def _qr(x: Any, full_matrices: bool = False) -> Any:
    """The orthogonal and triangular factors of matrices, see `qr`; a square Q with `full_matrices`."""
    return householder.qr(x, "complete" if full_matrices else "reduced")
