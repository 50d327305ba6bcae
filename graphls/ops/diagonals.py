"""Diagonals and triangles of matrices; masks are computed in the graph, not stored."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from graphls.ir.checks import integer
from graphls.ir.errors import GraphValueError
from graphls.ir.reporting import checked
from graphls.ir.types import float32, int32, int64
from graphls.ops.creation import arange, zeros
from graphls.ops.elementwise import cast
from graphls.ops.logic import equal, greater_equal, where
from graphls.ops.movement import movedim
from graphls.ops.operands import apply, axis_of, in_graph, shape_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import concat, expand_dims, reshape
from graphls.tensors.tensor import Tensor


@operation(classes="Eye")
def eye(n: int, m: int | None = None, dtype: Any = None) -> Tensor:
    """A matrix of n rows and m columns (n without) with ones on the diagonal; float32 unless another dtype is given."""
    rows, columns = shape_of((n, n if m is None else m))
    return cast(equal(*positions(rows, columns)), dtype or float32)


def positions(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """The numbers of the rows as a column, and of the columns as a row."""
    return in_graph(reshape(arange(rows), (-1, 1))), in_graph(arange(columns))


@operation(classes="Tril", settings="diagonal")
def tril(x: Any, diagonal: int = 0) -> Tensor:
    """Matrices, or the last two axes, with zeros above a diagonal: 1 is the one above the main one, -1 that below.

    Raises GraphValueError for fewer axes.
    """
    x = matrices_of("tril", x)
    rows, columns = positions(*x.shape[-2:])
    return where(greater_equal(rows + integer("tril", "diagonal", diagonal), columns), x, zeros((), x.dtype))


@operation(classes="Triu", settings="diagonal")
def triu(x: Any, diagonal: int = 0) -> Tensor:
    """Matrices, or the last two axes, with zeros below a diagonal: 1 is the one above the main one, -1 that below.

    Raises GraphValueError for fewer axes.
    """
    x = matrices_of("triu", x)
    rows, columns = positions(*x.shape[-2:])
    return where(greater_equal(columns, rows + integer("triu", "diagonal", diagonal)), x, zeros((), x.dtype))


def matrices_of(name: str, x: Any) -> Tensor:
    """A tensor of two axes or more; raises GraphValueError for fewer."""
    matrices = tensor_of(x)
    if matrices.ndim < 2:
        raise GraphValueError(f"{name} takes a tensor of two axes or more, not {matrices.type}.")
    return matrices


@operation(classes="TrilIndices", settings="row col offset dtype", defaults={"dtype": int32})
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = int64) -> Tensor:
    """The rows and the columns of the elements on and below a diagonal of a matrix of that size: two rows of integers.

    They come row by row.
    """
    places = checked(np.tril_indices, *_integers("tril_indices", row=row, offset=offset, col=col))
    return Tensor(np.stack(places), dtype)


@operation(classes="TriuIndices", settings="row col offset dtype", defaults={"dtype": int32})
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = int64) -> Tensor:
    """The rows and the columns of the elements on and above a diagonal of a matrix of that size: two rows of integers.

    They come row by row.
    """
    places = checked(np.triu_indices, *_integers("triu_indices", row=row, offset=offset, col=col))
    return Tensor(np.stack(places), dtype)


def _integers(name: str, **settings: Any) -> list[int]:
    return [integer(name, setting, value) for setting, value in settings.items()]


@operation
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonals of the matrices of two axes, as a new last axis in their place.

    An offset above 0 counts diagonals towards the second axis, one below 0 towards the first. Raises GraphValueError
    unless there are two different axes.
    """
    x = matrices_of("diagonal", x)
    x, offset = movedim(x, two_axes(dim1, dim2, x.ndim), (-2, -1)), integer("diagonal", "offset", offset)
    *outer, rows, columns = x.shape
    start = offset if offset >= 0 else -offset * columns
    longest = builtins.min(rows, columns - offset) if offset >= 0 else builtins.min(rows + offset, columns)
    count = builtins.max(0, longest)
    flat = reshape(x, (*outer, rows * columns))
    stop = start + (count - 1) * (columns + 1) + 1 if count else start
    bounds = ((0, size, 1) for size in outer)
    starts, stops, steps = zip(*bounds, (start, stop, columns + 1), strict=True)
    return apply("slice", flat, starts=starts, stops=stops, steps=steps)


def two_axes(dim1: int, dim2: int, rank: int) -> tuple[int, int]:
    """Two axes counted from the front; raises GraphValueError where they are one."""
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    if first == second:
        raise GraphValueError(f"A diagonal is of two different axes, not of {dim1} and {dim2}.")
    return first, second


@operation
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last axis as a diagonal of matrices of zeros, whose axes are `dim1` and `dim2` of the result.

    An offset above 0 counts diagonals towards the second axis, one below 0 towards the first.
    """
    x = tensor_of(x)
    axes = two_axes(dim1, dim2, x.ndim + 1)
    if not x.ndim:
        raise GraphValueError("diag_embed takes a tensor with axes, not a number.")
    size = x.shape[-1] + builtins.abs(integer("diag_embed", "offset", offset))
    rows, columns = positions(size, size)
    before, after = (zeros((*x.shape[:-1], n), x.dtype) for n in (builtins.max(offset, 0), builtins.max(-offset, 0)))
    lines = expand_dims(concat((before, x, after), -1), -2)
    matrices = where(equal(rows + offset, columns), lines, zeros((), x.dtype))
    return movedim(matrices, (-2, -1), axes)


@operation(classes="Diag")
def diag(x: Any) -> Tensor:
    """A tensor with the elements of x on its diagonal and zeros elsewhere, with the axes of x twice.

    A vector becomes a matrix; `diagonal` takes the diagonal of one. Raises GraphValueError for a number.
    """
    x = tensor_of(x)
    if not x.ndim:
        raise GraphValueError("diag takes a tensor with axes, not a number.")
    return reshape(diag_embed(reshape(x, (-1,))), (*x.shape, *x.shape))
