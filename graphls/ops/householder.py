"""Orthogonal and triangular factors of matrices, by Householder's reflections."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ops.arrangement import movedim
from graphls.ops.control_flow import scan
from graphls.ops.creation import arange, zeros
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.diagonals import eye, tril, triu
from graphls.ops.elementwise import add, div, mul, sqrt, square, sub
from graphls.ops.logic import equal, greater, less, where
from graphls.ops.matrices import as_column, as_one, as_row, numbered, require_matrices, substituted, transposed
from graphls.ops.network import matmul
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation, operator_class
from graphls.ops.reductions import sum
from graphls.ops.shapes import broadcast_to, concat, cut, gather, squeeze
from graphls.tensors.tensor import Tensor, TensorLike


@operation
def qr(input: TensorLike, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """The matrices Q with orthonormal columns and the upper triangular R with which matrices are Q @ R.

    Of m rows and n columns, "reduced" gives a Q of min(m, n) columns and "complete" a square one. The signs are those
    of LAPACK. Raises GraphValueError for another mode and for fewer than two axes.
    """
    if mode not in ("reduced", "complete"):
        raise GraphValueError(f"The mode of qr is 'reduced' or 'complete', not {mode!r}.")
    factors = thin_factors if mode == "reduced" else _full_factors
    result: tuple[Tensor, Tensor] = as_one(factors, require_matrices("qr", tensor_of(input)))
    return result


def thin_factors(x: Tensor) -> tuple[Tensor, Tensor]:
    """Q with as many columns as the smaller size of x, and R.

    The columns of x behind a square only make R longer: they have the same Q.
    """
    rows, columns = x.shape[-2:]
    if rows < columns:
        q, r = thin_factors(cut(x, x.ndim - 1, 0, rows))
        return q, concat((r, matmul(transposed(q), cut(x, x.ndim - 1, rows, columns))), -1)
    if not x.size:
        return x, zeros((*x.shape[:-2], columns, columns), x.dtype)
    result: tuple[Tensor, Tensor] = with_gradient(lambda x: _factors(x, columns), _gradient, x)
    return result


def _full_factors(x: Tensor) -> tuple[Tensor, Tensor]:
    return _factors(x, x.shape[-2])


def _factors(x: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    packed, scales = _reflections(x)
    return _orthogonal(packed, scales, columns), triu(cut(packed, x.ndim - 2, 0, columns))


def _gradient(x: Tensor, factors: tuple[Tensor, Tensor], sensitivity: tuple[Tensor, Tensor]) -> tuple[Tensor]:
    """Walter and Lehmann's "Algorithmic Differentiation of Linear Algebra Functions" (2018), section on QR."""
    (q, r), (by_q, by_r) = factors, sensitivity
    inner = tril(sub(matmul(r, transposed(by_r)), matmul(transposed(by_q), q)))
    symmetric = add(inner, transposed(tril(inner, -1)))
    outer = add(by_q, matmul(q, symmetric))
    return (transposed(substituted(r, transposed(outer), lower=False)),)


@operation(classes="Geqrf")
def geqrf(input: TensorLike) -> tuple[Tensor, Tensor]:
    """R on and above diagonals, below them the vectors v of the reflections 1 - tau v v.mT that lead to it, and tau.

    The first element of v, which is 1, is left out, as LAPACK does it. Raises GraphValueError for fewer than two axes.
    """
    result: tuple[Tensor, Tensor] = as_one(_reflections, require_matrices("geqrf", tensor_of(input)))
    return result


def _reflections(x: Tensor) -> tuple[Tensor, Tensor]:
    count = min(x.shape[-2:])
    if not x.size:
        return x, zeros((*x.shape[:-2], count), x.dtype)
    packed, scales = scan(_reflected_column, x, arange(count))
    return packed, movedim(scales, 0, -1)


def _reflected_column(matrix: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
    """One column made triangular; a column that already is is not reflected."""
    rows, columns = map(numbered, matrix.shape[-2:])
    column, first = gather(matrix, i, -1), as_column(gather(gather(matrix, i, -1), i, -1))
    below = where(greater(rows, i), column, 0.0)
    is_done = equal(sum(square(below), -1, keepdims=True), 0.0)
    length = sqrt(where(is_done, 1.0, add(square(first), sum(square(below), -1, keepdims=True))))
    corner = where(is_done, first, where(less(first, 0.0), length, mul(length, -1.0)))
    vector = where(equal(rows, i), 1.0, div(below, where(is_done, 1.0, sub(first, corner))))
    scale = where(is_done, 0.0, div(sub(corner, first), where(is_done, 1.0, corner)))
    made = where(greater(columns, i), _reflect(matrix, vector, scale), matrix)
    kept = where(greater(rows, i), vector, where(equal(rows, i), corner, column))
    return where(equal(columns, i), as_column(kept), made), squeeze(scale, -1)


def _reflect(matrix: Tensor, vector: Tensor, scale: Tensor) -> Tensor:
    """(1 - scale v v.mT) @ matrix."""
    return sub(matrix, mul(as_column(mul(vector, scale)), matmul(as_row(vector), matrix)))


def _orthogonal(packed: Tensor, scales: Tensor, columns: int) -> Tensor:
    """The first columns of the product of all reflections."""
    unit = eye(packed.shape[-2], columns, dtype=packed.dtype)
    return _product(packed, scales, broadcast_to(unit, (*packed.shape[:-2], *unit.shape)), reverse=True)


def _product(packed: Tensor, scales: Tensor, other: Tensor, reverse: bool) -> Tensor:
    """All reflections of another matrix, the last one first with `reverse`, which is Q @ other, else Q.mT @ other."""
    count = scales.shape[-1]
    if not count or not other.size:
        return other
    rows = numbered(packed.shape[-2])

    def step(matrix: Tensor, item: Tensor) -> tuple[Tensor, None]:
        column, scale, i = item
        vector = where(greater(rows, i), column, where(equal(rows, i), 1.0, 0.0))
        return _reflect(matrix, vector, as_column(scale)), None

    columns = cut(packed, packed.ndim - 1, 0, count)
    found, _ = scan(step, other, (movedim(columns, -1, 0), movedim(scales, -1, 0), arange(count)), reverse=reverse)
    result: Tensor = found
    return result


@operation(classes="Orgqr")
def orgqr(input: TensorLike, input2: TensorLike) -> Tensor:
    """The columns of the product of the reflections that `geqrf` gives, as many as the matrices have.

    Raises GraphValueError for other shapes.
    """

    def computed(packed: Tensor, scales: Tensor) -> Tensor:
        _require_reflections("orgqr", packed, scales)
        if packed.shape[-1] > packed.shape[-2]:
            raise GraphValueError(f"orgqr takes no more columns than rows, not {packed.type}.")
        return _orthogonal(packed, scales, packed.shape[-1])

    result: Tensor = as_one(computed, input, input2)
    return result


@operation(classes="Ormqr", settings="left transpose")
def ormqr(input: TensorLike, tau: TensorLike, other: TensorLike, left: bool = True, transpose: bool = False) -> Tensor:
    """Q @ other with the product Q of the reflections that `geqrf` gives, other @ Q where not `left`.

    With `transpose`, Q.mT takes the place of Q. Raises GraphValueError for other shapes.
    """

    def computed(packed: Tensor, scales: Tensor, other: Tensor) -> Tensor:
        _require_reflections("ormqr", packed, scales)
        columns = require_matrices("ormqr", other) if left else transposed(require_matrices("ormqr", other))
        if columns.shape[:-1] != packed.shape[:-1]:
            message = f"ormqr with reflections {packed.type} takes as many rows to reflect, not {other.type}."
            raise GraphValueError(message)
        found = _product(packed, scales, columns, reverse=bool(left) is not bool(transpose))
        return found if left else transposed(found)

    result: Tensor = as_one(computed, input, tau, other)
    return result


def _require_reflections(name: str, packed: Tensor, scales: Tensor) -> None:
    require_matrices(name, packed)
    if scales.shape[:-1] != packed.shape[:-2] or not scales.ndim or scales.shape[-1] > min(packed.shape[-2:]):
        message = f"{name} of {packed.type} takes a factor for each reflection, not {scales.type}."
        raise GraphValueError(message)


@operator_class("Qr", "full_matrices")
def _qr_of(x: TensorLike, full_matrices: bool = False) -> Any:
    """The orthogonal and triangular factors of matrices, see `qr`; a square Q with `full_matrices`."""
    return qr(x, "complete" if full_matrices else "reduced")
