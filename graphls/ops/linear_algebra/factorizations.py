"""Matrix factorizations: triangular systems, Cholesky's, and QR by Householder reflections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import broadcast_shapes, float32
from graphls.ops.arrays.arrangement import movedim
from graphls.ops.arrays.creation import arange, zeros, zeros_like
from graphls.ops.arrays.diagonals import eye, tril, triu
from graphls.ops.arrays.shapes import broadcast_to, concat, cut, gather, reshape, squeeze, swapaxes
from graphls.ops.control_flow import scan
from graphls.ops.gradients import with_gradient
from graphls.ops.math.elementwise import (
    cast,
    sqrt,
    square,
    where,
)
from graphls.ops.math.reductions import sum
from graphls.ops.network.network import matmul
from graphls.ops.operands import floats, in_graph, tensor_of
from graphls.ops.record import operation, operator_class

Result = TypeVar("Result")


def as_one(function: Callable[..., Result], *operands: object) -> Result:
    """`function` of the operands in one float dtype, which rounds and casts as a single operation.

    16-bit floats are computed in float32 and rounded once, and mixed precision does not cast operations inside.
    """
    tensors = floats(*operands)
    dtype = tensors[0].dtype
    with dispatch.without_casts():
        results = function(*(cast(t, float32) if dtype.is_half else t for t in tensors))
    rounded: Result = map_leaves(lambda t: cast(t, dtype) if dtype.is_half and t.dtype is float32 else t, results)
    return rounded


def require_matrices(name: str, x: Tensor) -> Tensor:
    """x itself; raises GraphValueError for fewer than two axes."""
    if x.ndim < 2:
        raise GraphValueError(f"{name} takes matrices or batches of them, not {x.type}.")
    return x


def require_square(name: str, x: Tensor) -> Tensor:
    """x itself; raises GraphValueError unless its last two axes are equal in size."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise GraphValueError(f"{name} takes square matrices, not {x.type}.")
    return x


def require_system(name: str, matrix: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
    """Square matrices and right-hand sides, broadcast to one batch shape; raises GraphValueError if they do not fit."""
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


def row_indices(size: int) -> Tensor:
    """The indices of rows or columns, to compare them with the current one of a loop."""
    return in_graph(arange(size))


def as_column(x: Tensor) -> Tensor:
    """Vectors along the last axis as matrices of one column."""
    return reshape(x, (*x.shape, 1))


def as_row(x: Tensor) -> Tensor:
    """Vectors along the last axis as matrices of one row."""
    return reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


@operator_class("MatrixTriangularSolve", "lower adjoint")
def solve_triangular(matrix: TensorLike, rhs: TensorLike, lower: bool = True, adjoint: bool = False) -> Tensor:
    """The solutions of triangular systems with right-hand sides of shape (..., n, k); batches broadcast.

    Only the lower triangle is read, or with `lower` False the upper one. `adjoint` solves with the transposed matrices.
    Infinite or nan where a diagonal has a 0. Raises GraphValueError for other shapes.
    """

    def computed(matrix: Tensor, rhs: Tensor) -> Tensor:
        matrix, rhs = require_system("solve_triangular", matrix, rhs)
        triangle = tril(matrix) if lower else triu(matrix)
        return substituted(transposed(triangle) if adjoint else triangle, rhs, bool(lower) is not bool(adjoint))

    return as_one(computed, matrix, rhs)


def substituted(triangle: Tensor, rhs: Tensor, lower: bool) -> Tensor:
    """`solve_triangular` of batches of one shape and dtype, with zeros in the other triangle."""

    def gradient(triangle: Tensor, rhs: Tensor, solution: Tensor, sensitivity: Tensor) -> tuple[Tensor, Tensor]:
        by_rhs = substituted(transposed(triangle), sensitivity, not lower)
        by_matrix = -matmul(by_rhs, transposed(solution))
        return (tril if lower else triu)(by_matrix), by_rhs

    if not rhs.size:
        return rhs
    return with_gradient(lambda a, b: _row_by_row(a, b, lower), gradient, triangle, rhs)


def _row_by_row(triangle: Tensor, rhs: Tensor, lower: bool) -> Tensor:
    """Forward or backward substitution; rows that are not yet solved count as 0."""
    size = triangle.shape[-1]
    positions = as_column(row_indices(size))

    def step(solution: Tensor, row: Tensor) -> tuple[Tensor, None]:
        factors, values, i = row
        known = squeeze(matmul(as_row(factors), solution), -2)
        line = (values - known) / as_column(gather(factors, i, -1))
        return where(positions == i, as_row(line), solution), None

    rows = (movedim(triangle, -2, 0), movedim(rhs, -2, 0), arange(size))
    result: Tensor = scan(step, zeros_like(rhs), rows, reverse=not lower)[0]
    return result


@operation(classes="Cholesky", settings="upper")
def cholesky(input_x: TensorLike, upper: bool = False) -> Tensor:
    """Cholesky's factors L of symmetric positive definite matrices L @ L.mT, or with `upper` their transposes.

    For other matrices it is that of the symmetric part, so that gradients are symmetric, with nan where it is not
    positive definite. Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> Tensor:
        require_square("cholesky", x)
        if not x.size:
            return x
        factor: Tensor = with_gradient(_column_by_column, _cholesky_gradient, _symmetric(x))
        return transposed(factor) if upper else factor

    return as_one(computed, input_x)


def _symmetric(x: Tensor) -> Tensor:
    return (x + transposed(x)) * 0.5


def _column_by_column(x: Tensor) -> Tensor:
    """Computes each column of L from that of x minus the contribution of the columns before it."""
    positions = row_indices(x.shape[-1])

    def step(factor: Tensor, item: Tensor) -> tuple[Tensor, None]:
        column, i = item
        row = as_column(gather(factor, i, -2))
        remainder = column - squeeze(matmul(factor, row), -1)
        line = remainder / sqrt(as_column(gather(remainder, i, -1)))
        is_new = (as_column(positions) >= i) & (positions == i)
        return where(is_new, as_column(line), factor), None

    factor: Tensor = scan(step, zeros_like(x), (movedim(x, -1, 0), arange(x.shape[-1])))[0]
    return factor


def _cholesky_gradient(x: Tensor, factor: Tensor, sensitivity: Tensor) -> tuple[Tensor]:
    """Murray's "Differentiation of the Cholesky decomposition" (2016), equation 10."""
    inner = tril(matmul(transposed(factor), tril(sensitivity)))
    inner = inner - inner * (unit_matrices(x) * 0.5)
    upper = transposed(factor)
    left = substituted(upper, inner, lower=False)
    return (_symmetric(transposed(substituted(upper, transposed(left), lower=False))),)


@operation(classes="CholeskySolve", settings="upper")
def cholesky_solve(input: TensorLike, input2: TensorLike, upper: bool = False) -> Tensor:
    """The solutions x of A @ x = `input`, of shape (..., n, k), from the Cholesky factors `input2` of A.

    Batches broadcast. With `upper` the factors are the upper ones. Raises GraphValueError for other shapes.
    """

    def computed(rhs: Tensor, factor: Tensor) -> Tensor:
        factor, rhs = require_system("cholesky_solve", factor, rhs)
        return _solved(rhs, transposed(triu(factor)) if upper else tril(factor))

    return as_one(computed, input, input2)


def _solved(rhs: Tensor, lower: Tensor) -> Tensor:
    return substituted(transposed(lower), substituted(lower, rhs, lower=True), lower=False)


@operation(classes="CholeskyInverse", settings="upper")
def cholesky_inverse(input_x: TensorLike, upper: bool = False) -> Tensor:
    """The inverses of matrices from their lower Cholesky factors, or with `upper` from the upper ones.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(factor: Tensor) -> Tensor:
        require_square("cholesky_inverse", factor)
        return _solved(unit_matrices(factor), transposed(triu(factor)) if upper else tril(factor))

    return as_one(computed, input_x)


@operation(also="mint.linalg")
def qr(input: TensorLike, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """The QR factorization Q @ R of matrices: Q has orthonormal columns, R is upper triangular.

    For m rows and n columns, the Q of "reduced" has min(m, n) columns, that of "complete" is square. The signs are
    those of LAPACK. Raises GraphValueError for another mode and for fewer than two axes.
    """
    if mode not in ("reduced", "complete"):
        raise GraphValueError(f"The mode of qr is 'reduced' or 'complete', not {mode!r}.")
    factors = thin_factors if mode == "reduced" else _full_factors
    return as_one(factors, require_matrices("qr", tensor_of(input)))


def thin_factors(x: Tensor) -> tuple[Tensor, Tensor]:
    """Q with as many columns as the smaller size of x, and R.

    The columns of x beyond a square matrix only extend R: Q stays the same.
    """
    rows, columns = x.shape[-2:]
    if rows < columns:
        q, r = thin_factors(cut(x, x.ndim - 1, 0, rows))
        return q, concat((r, matmul(transposed(q), cut(x, x.ndim - 1, rows, columns))), -1)
    if not x.size:
        return x, zeros((*x.shape[:-2], columns, columns), x.dtype)
    return with_gradient(lambda x: _factors(x, columns), _qr_gradient, x)


def _full_factors(x: Tensor) -> tuple[Tensor, Tensor]:
    return _factors(x, x.shape[-2])


def _factors(x: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    packed, scales = _reflections(x)
    return _orthogonal(packed, scales, columns), triu(cut(packed, x.ndim - 2, 0, columns))


def _qr_gradient(x: Tensor, factors: tuple[Tensor, Tensor], sensitivity: tuple[Tensor, Tensor]) -> tuple[Tensor]:
    """Walter and Lehmann's "Algorithmic Differentiation of Linear Algebra Functions" (2018), section on QR."""
    (q, r), (by_q, by_r) = factors, sensitivity
    inner = tril(matmul(r, transposed(by_r)) - matmul(transposed(by_q), q))
    symmetric = inner + transposed(tril(inner, -1))
    outer = by_q + matmul(q, symmetric)
    return (transposed(substituted(r, transposed(outer), lower=False)),)


@operation(classes="Geqrf")
def geqrf(input: TensorLike) -> tuple[Tensor, Tensor]:
    """The packed QR factorization: R, below its diagonal the vectors v of the reflections 1 - tau v v.mT, and tau.

    The first element of v, which is 1, is left out, as in LAPACK. Raises GraphValueError for fewer than two axes.
    """
    return as_one(_reflections, require_matrices("geqrf", tensor_of(input)))


def _reflections(x: Tensor) -> tuple[Tensor, Tensor]:
    count = min(x.shape[-2:])
    if not x.size:
        return x, zeros((*x.shape[:-2], count), x.dtype)
    packed, scales = scan(_reflected_column, x, arange(count))
    return packed, movedim(scales, 0, -1)


def _reflected_column(matrix: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
    """Reflects one column to triangular form, unless it has that form already."""
    rows, columns = map(row_indices, matrix.shape[-2:])
    column, first = gather(matrix, i, -1), as_column(gather(gather(matrix, i, -1), i, -1))
    below = where(rows > i, column, 0.0)
    # Where nothing is left to reflect, divisors are 1, not 0: the gradient of the branch that is not chosen must be
    # finite, too. The corner has the opposite sign of the first element, so that their difference loses no digits.
    is_done = sum(square(below), -1, keepdims=True) == 0.0
    length = sqrt(where(is_done, 1.0, square(first) + sum(square(below), -1, keepdims=True)))
    corner = where(is_done, first, where(first < 0.0, length, length * -1.0))
    vector = where(rows == i, 1.0, below / where(is_done, 1.0, first - corner))
    scale = where(is_done, 0.0, (corner - first) / where(is_done, 1.0, corner))
    reflected = where(columns > i, _reflect(matrix, vector, scale), matrix)
    packed_column = where(rows > i, vector, where(rows == i, corner, column))
    return where(columns == i, as_column(packed_column), reflected), squeeze(scale, -1)


def _reflect(matrix: Tensor, vector: Tensor, scale: Tensor) -> Tensor:
    """(1 - scale v v.mT) @ matrix."""
    return matrix - as_column(vector * scale) * matmul(as_row(vector), matrix)


def _orthogonal(packed: Tensor, scales: Tensor, columns: int) -> Tensor:
    """The first columns of the product of all reflections."""
    unit = eye(packed.shape[-2], columns, dtype=packed.dtype)
    return _product(packed, scales, broadcast_to(unit, (*packed.shape[:-2], *unit.shape)), reverse=True)


def _product(packed: Tensor, scales: Tensor, other: Tensor, reverse: bool) -> Tensor:
    """Applies all reflections to a matrix: Q @ other with `reverse`, the last reflection first, else Q.mT @ other."""
    count = scales.shape[-1]
    if not count or not other.size:
        return other
    rows = row_indices(packed.shape[-2])

    def step(matrix: Tensor, item: Tensor) -> tuple[Tensor, None]:
        column, scale, i = item
        vector = where(rows > i, column, where(rows == i, 1.0, 0.0))
        return _reflect(matrix, vector, as_column(scale)), None

    columns = cut(packed, packed.ndim - 1, 0, count)
    steps = (movedim(columns, -1, 0), movedim(scales, -1, 0), arange(count))
    result: Tensor = scan(step, other, steps, reverse=reverse)[0]
    return result


@operation(classes="Orgqr")
def orgqr(input: TensorLike, input2: TensorLike) -> Tensor:
    """The first columns of the product of the reflections of `geqrf`, as many as the matrices have.

    Raises GraphValueError for other shapes.
    """

    def computed(packed: Tensor, scales: Tensor) -> Tensor:
        _require_reflections("orgqr", packed, scales)
        if packed.shape[-1] > packed.shape[-2]:
            raise GraphValueError(f"orgqr takes no more columns than rows, not {packed.type}.")
        return _orthogonal(packed, scales, packed.shape[-1])

    return as_one(computed, input, input2)


@operation(classes="Ormqr", settings="left transpose")
def ormqr(input: TensorLike, tau: TensorLike, other: TensorLike, left: bool = True, transpose: bool = False) -> Tensor:
    """Q @ other with the product Q of the reflections of `geqrf`, or other @ Q if not `left`.

    With `transpose`, Q.mT replaces Q. Raises GraphValueError for other shapes.
    """

    def computed(packed: Tensor, scales: Tensor, other: Tensor) -> Tensor:
        _require_reflections("ormqr", packed, scales)
        columns = require_matrices("ormqr", other) if left else transposed(require_matrices("ormqr", other))
        if columns.shape[:-1] != packed.shape[:-1]:
            message = f"ormqr with reflections {packed.type} takes as many rows to reflect, not {other.type}."
            raise GraphValueError(message)
        product = _product(packed, scales, columns, reverse=bool(left) is not bool(transpose))
        return product if left else transposed(product)

    return as_one(computed, input, tau, other)


def _require_reflections(name: str, packed: Tensor, scales: Tensor) -> None:
    require_matrices(name, packed)
    if scales.shape[:-1] != packed.shape[:-2] or not scales.ndim or scales.shape[-1] > min(packed.shape[-2:]):
        message = f"{name} of {packed.type} takes a factor for each reflection, not {scales.type}."
        raise GraphValueError(message)


@operator_class("Qr", "full_matrices")
def _qr_of(x: TensorLike, full_matrices: bool = False) -> Any:
    """The QR factorization of matrices, see `qr`; a square Q with `full_matrices`."""
    return qr(x, "complete" if full_matrices else "reduced")
