"""Diagonals, bands and triangles of matrices, and replaced diagonals and slices."""

from __future__ import annotations

import builtins
from math import prod
from typing import NamedTuple

import numpy as np

from graphls.base.checks import integer
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import checked
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32, int32, int64
from graphls.ops.arrays import shapes
from graphls.ops.arrays.arrangement import movedim
from graphls.ops.arrays.creation import arange, zeros
from graphls.ops.arrays.indexing import getitem, setitem
from graphls.ops.arrays.shapes import concat, expand_dims, gather, reshape
from graphls.ops.math.elementwise import (
    cast,
    equal,
    less_equal,
    logical_and,
    maximum,
    minimum,
    where,
)
from graphls.ops.operands import apply, axis_of, in_graph, shape_of, tensor_of
from graphls.ops.record import cell, operation, operator_class


@operation(classes="Eye", also="mint")
def eye(n: int, m: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """A matrix of n rows and m (default n) columns with ones on the diagonal; float32 unless another dtype is given."""
    rows, columns = shape_of((n, n if m is None else m))
    return cast(equal(*positions(rows, columns)), dtype or float32)


def positions(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """The indices of the rows as a column, and of the columns as a row."""
    return in_graph(reshape(arange(rows), (-1, 1))), in_graph(arange(columns))


@operation(classes="Tril", settings="diagonal", also="numpy mint", checks={"diagonal": integer})
def tril(x: TensorLike, diagonal: int = 0) -> Tensor:
    """Lower triangles of matrices, the last two axes, with zeros above a diagonal: 1 is the one above the main one.

    Raises GraphValueError for fewer axes.
    """
    x = matrices_of("tril", x)
    rows, columns = positions(*x.shape[-2:])
    return where(rows + diagonal >= columns, x, zeros((), x.dtype))


@operation(classes="Triu", settings="diagonal", also="numpy mint", checks={"diagonal": integer})
def triu(x: TensorLike, diagonal: int = 0) -> Tensor:
    """Upper triangles of matrices, the last two axes, with zeros below a diagonal: 1 is the one above the main one.

    Raises GraphValueError for fewer axes.
    """
    x = matrices_of("triu", x)
    rows, columns = positions(*x.shape[-2:])
    return where(columns >= rows + diagonal, x, zeros((), x.dtype))


def matrices_of(name: str, x: TensorLike) -> Tensor:
    """A tensor of two axes or more; raises GraphValueError for fewer."""
    matrices = tensor_of(x)
    if matrices.ndim < 2:
        raise GraphValueError(f"{name} takes a tensor of two axes or more, not {matrices.type}.")
    return matrices


@operation(classes="TrilIndices", settings="row col offset dtype", defaults={"dtype": int32})
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DTypeLike = int64) -> Tensor:
    """The rows and the columns of the elements on and below a diagonal of a matrix of that size: two rows of integers.

    They come row by row.
    """
    indices = checked(np.tril_indices, *_integers("tril_indices", row=row, offset=offset, col=col))
    return Tensor(np.stack(indices), dtype)


@operation(classes="TriuIndices", settings="row col offset dtype", defaults={"dtype": int32})
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DTypeLike = int64) -> Tensor:
    """The rows and the columns of the elements on and above a diagonal of a matrix of that size: two rows of integers.

    They come row by row.
    """
    indices = checked(np.triu_indices, *_integers("triu_indices", row=row, offset=offset, col=col))
    return Tensor(np.stack(indices), dtype)


def _integers(name: str, **settings: object) -> list[int]:
    return [integer(name, setting, value) for setting, value in settings.items()]


@operation(checks={"offset": integer})
def diagonal(x: TensorLike, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonals of the matrices of two axes, which a new last axis replaces.

    An offset above 0 counts diagonals towards the second axis, one below 0 towards the first. Raises GraphValueError
    unless there are two different axes.
    """
    x = matrices_of("diagonal", x)
    x = movedim(x, two_axes(dim1, dim2, x.ndim), (-2, -1))
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
    """Two axes counted from the front; raises GraphValueError where they are equal."""
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    if first == second:
        raise GraphValueError(f"A diagonal is of two different axes, not of {dim1} and {dim2}.")
    return first, second


@operation(checks={"offset": integer})
def diag_embed(x: TensorLike, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last axis as a diagonal of matrices of zeros, whose axes are `dim1` and `dim2` of the result.

    An offset above 0 counts diagonals towards the second axis, one below 0 towards the first.
    """
    x = tensor_of(x)
    axes = two_axes(dim1, dim2, x.ndim + 1)
    if not x.ndim:
        raise GraphValueError("diag_embed takes a tensor with axes, not a number.")
    size = x.shape[-1] + builtins.abs(offset)
    rows, columns = positions(size, size)
    before, after = (zeros((*x.shape[:-1], n), x.dtype) for n in (builtins.max(offset, 0), builtins.max(-offset, 0)))
    lines = expand_dims(concat((before, x, after), -1), -2)
    matrices = where(rows + offset == columns, lines, zeros((), x.dtype))
    return movedim(matrices, (-2, -1), axes)


@operation(classes="Diag", also="numpy")
def diag(x: TensorLike) -> Tensor:
    """A tensor with the axes of x twice, its elements on the diagonal and zeros elsewhere.

    A vector becomes a matrix; `diagonal` is the opposite. Raises GraphValueError for a tensor without axes.
    """
    x = tensor_of(x)
    if not x.ndim:
        raise GraphValueError("diag takes a tensor with axes, not a number.")
    return reshape(diag_embed(reshape(x, (-1,))), (*x.shape, *x.shape))


ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


class Band(NamedTuple):
    """The diagonals from `low` to `high` of matrices; those above the main diagonal have positive numbers."""

    low: int
    high: int
    rows: int
    columns: int
    align: str

    @property
    def height(self) -> int:
        """The number of diagonals."""
        return self.high - self.low + 1

    @property
    def longest(self) -> int:
        """The number of elements of the longest diagonal."""
        return builtins.min(self.rows + builtins.min(self.high, 0), self.columns - builtins.max(self.low, 0))

    def shifts(self, diagonals: Tensor) -> tuple[Tensor, Tensor]:
        """The padding before the first element of each diagonal, and the number of its elements."""
        lengths = minimum(minimum(diagonals, 0) + self.rows, self.columns - maximum(diagonals, 0))
        missing = self.longest - lengths
        above, below = (missing if side == "RIGHT" else zeros((), missing.dtype) for side in self.align.split("_"))
        return where(diagonals < 0, below, above), lengths


def _band(name: str, k: TensorLike, rows: int, columns: int, align: object) -> Band:
    """The band of `k`: one integer, or the lowest and the highest; raises GraphValueError for anything else."""
    low, high = _bounds(name, k)
    if align not in ALIGNMENTS:
        listed = ", ".join(map(repr, ALIGNMENTS))
        raise GraphValueError(f"The 'align' of {name} is one of {listed}, not {align!r}.")
    if not (-rows < low <= high < columns or low == high == 0):
        message = f"A matrix of {rows} rows and {columns} columns has no diagonals {k}, as {name} takes them."
        raise GraphValueError(message)
    return Band(low, high, rows, columns, align)


def _bounds(name: str, k: TensorLike) -> tuple[int, int]:
    bounds = shape_of(k.tolist() if isinstance(k, Tensor) else k)
    if len(bounds) not in (1, 2) or bounds[0] > bounds[-1]:
        raise GraphValueError(f"The 'k' of {name} is one integer or two rising ones, not {k!r}.")
    return bounds[0], bounds[-1]


@cell("MatrixDiagPart", inputs="input_x")
@operation(classes="MatrixDiagPartV3", settings="align")
def matrix_diag_part(x: Tensor, k: TensorLike = 0, padding_value: TensorLike = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """The diagonals `k` of matrices as rows, the highest first; a single diagonal replaces both axes.

    `k` is an integer, or the lowest and the highest of several. Shorter diagonals are padded with `padding_value`:
    those above the main one on the left for "RIGHT" in the first half of `align`, those below for "RIGHT" in the
    second. Raises GraphValueError for fewer axes than two, and for missing diagonals.
    """
    x = matrices_of("matrix_diag_part", x)
    band = _band("matrix_diag_part", k, x.shape[-2], x.shape[-1], align)
    diagonals = reshape(in_graph(arange(band.high, band.low - 1, -1)), (-1, 1))
    shifts, lengths = band.shifts(diagonals)
    along = in_graph(arange(band.longest)) - shifts
    inside = less_equal(0, along) & (along < lengths)
    indices = (along - minimum(diagonals, 0)) * band.columns + (along + maximum(diagonals, 0))
    flat = reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    parts = where(inside, gather(flat, where(inside, indices, 0), -1), cast(padding_value, x.dtype))
    return parts if band.height > 1 else reshape(parts, (*x.shape[:-2], band.longest))


@cell("MatrixDiag", inputs="input_x")
@operation(classes="MatrixDiagV3", settings="align")
def matrix_diag(
    x: Tensor, k: TensorLike = 0, num_rows: TensorLike = -1, num_cols: TensorLike = -1, padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:  # fmt: skip
    """Matrices with the diagonals `k` in the form of `matrix_diag_part`, and `padding_value` elsewhere.

    They are square and as small as the diagonals allow, unless `num_rows` or `num_cols` is given. Raises
    GraphValueError where the diagonals do not fit.
    """
    x = tensor_of(x)
    low, high = _bounds("matrix_diag", k)
    outer = x.ndim - (2 if low < high else 1)
    if outer < 0 or (low < high and x.shape[-2] != high - low + 1):
        message = f"matrix_diag takes {high - low + 1} diagonals as rows for k = {k}, not {x.type}."
        raise GraphValueError(message)
    rows, columns = _sizes(x.shape[-1], low, high, _count("num_rows", num_rows), _count("num_cols", num_cols))
    band = _band("matrix_diag", k, rows, columns, align)
    if band.longest != x.shape[-1]:
        message = f"Diagonals of {x.shape[-1]} elements do not fit into {rows} rows and {columns} columns."
        raise GraphValueError(message)
    return _set(cast(padding_value, x.dtype), x, band)


def _count(argument: str, value: TensorLike) -> int:
    return integer("matrix_diag", argument, value.item() if isinstance(value, Tensor) and value.size == 1 else value)


def _sizes(length: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    least_rows, least_columns = length - builtins.min(high, 0), length + builtins.max(low, 0)
    if rows == columns == -1:
        return (builtins.max(least_rows, least_columns),) * 2
    return least_rows if rows == -1 else rows, least_columns if columns == -1 else columns


@cell("MatrixSetDiag", inputs="input_x diagonal")
@operation(classes="MatrixSetDiagV3", settings="align")
def matrix_set_diag(x: Tensor, diagonal: TensorLike, k: TensorLike = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Matrices with their diagonals `k` replaced, in the form of `matrix_diag_part`.

    Raises GraphValueError where the shape of `diagonal` does not fit.
    """
    x = matrices_of("matrix_set_diag", x)
    values = cast(diagonal, x.dtype)
    band = _band("matrix_set_diag", k, x.shape[-2], x.shape[-1], align)
    expected = (*x.shape[:-2], *((band.height,) if band.height > 1 else ()), band.longest)
    if values.shape != expected:
        message = f"matrix_set_diag of {x.type} for k = {k} takes diagonals of shape {expected}, not {values.type}."
        raise GraphValueError(message)
    return _set(x, values, band)


def _set(background: Tensor, values: Tensor, band: Band) -> Tensor:
    """The diagonals on a background, gathered by the numbers of the diagonals."""
    rows, columns = positions(band.rows, band.columns)
    diagonals = columns - rows
    inside = less_equal(band.low, diagonals) & (diagonals <= band.high)
    along = minimum(rows, columns) + band.shifts(diagonals)[0]
    indices = (band.high - diagonals) * band.longest + along
    outer = values.shape[: values.ndim - (2 if band.height > 1 else 1)]
    flat = reshape(values, (*outer, band.height * band.longest))
    return where(inside, gather(flat, where(inside, indices, 0), -1), background)


@operation(classes="MatrixBandPart")
def matrix_band_part(x: TensorLike, lower: TensorLike, upper: TensorLike) -> Tensor:
    """Matrices with zeros except on `lower` diagonals below the main one and `upper` above; negative means all.

    Raises GraphValueError for fewer axes than two, GraphTypeError for bounds that are not integers.
    """
    x = matrices_of("matrix_band_part", x)
    rows, columns = positions(*x.shape[-2:])
    below, above = rows - columns, columns - rows
    mask = logical_and(_within(below, lower), _within(above, upper))
    return where(mask, x, zeros((), x.dtype))


def _within(distances: Tensor, bound: object) -> Tensor:
    most = tensor_of(bound)
    if most.dtype.kind not in ("int", "uint") or most.ndim:
        raise GraphTypeError(f"matrix_band_part takes integers as bounds, not {most.type}.")
    return (most < 0) | (distances <= most)


@operation
def diagflat(input: TensorLike, offset: int = 0) -> Tensor:
    """A matrix of zeros with all elements of a tensor on a diagonal: 1 is the one above the main one, -1 below."""
    return diag_embed(reshape(tensor_of(input), (-1,)), offset)


@operator_class("DiagPart")
def _diagonal_part(x: TensorLike) -> Tensor:
    """The elements with equal halves of coordinates; raises GraphValueError where the sizes differ."""
    tensor = tensor_of(x)
    half = tensor.shape[: tensor.ndim // 2]
    if not half or tensor.shape != half * 2:
        raise GraphValueError(f"DiagPart takes a shape of two equal halves, not {tensor.type}.")
    return shapes.reshape(diagonal(shapes.reshape(tensor, (prod(half), prod(half)))), half)


@operator_class("FillDiagonal", "fill_value wrap")
def _fill_diagonal(input_x: TensorLike, fill_value: float, wrap: bool = False) -> Tensor:
    """x with one number where all coordinates are equal; `wrap` repeats the diagonal of a tall matrix after a free row.

    Raises GraphValueError for fewer axes than two, and for more than two of different sizes.
    """
    x = tensor_of(input_x)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise GraphValueError(f"FillDiagonal takes a matrix, or axes of one size, not {x.type}.")
    step = sum(prod(x.shape[i + 1 :]) for i in range(x.ndim))
    stop = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] ** 2)
    indices = np.arange(0, stop, step)
    flat = setitem(shapes.reshape(x, (-1,)), Tensor(indices), fill_value)
    return shapes.reshape(flat, x.shape)


@operation(checks={"index": integer})
def select_scatter(input: TensorLike, src: TensorLike, axis: int, index: int) -> Tensor:
    """x with the slice at `index` along an axis replaced by `src`.

    Raises GraphValueError where `src` has another shape than that slice, GraphIndexError for an index out of range.
    """
    return _with_part("select_scatter", input, src, axis, index)


@operation
def slice_scatter(
    input: TensorLike, src: TensorLike, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """x with every `step`-th slice from `start` to `end`, excluding it, along an axis replaced by `src`.

    Bounds count as in a Python slice. Raises GraphValueError where `src` has another shape than these slices.
    """
    return _with_part("slice_scatter", input, src, axis, builtins.slice(start, end, step))


def _with_part(name: str, input: TensorLike, src: TensorLike, axis: int, part: object) -> Tensor:
    x, values = tensor_of(input), tensor_of(src)
    index = (*(builtins.slice(None) for _ in range(axis_of(axis, x.ndim))), part)
    replaced_shape = getitem(x, index).shape
    if values.shape != replaced_shape:
        message = f"{name} takes a source of shape {replaced_shape} for what it replaces, not {values.type}."
        raise GraphValueError(message)
    return setitem(x, index, values)


@operation
def diagonal_scatter(input: TensorLike, src: TensorLike, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """x with the result of `diagonal` with the same arguments replaced by `src`.

    Raises GraphValueError where `src` has another shape, and unless there are two different axes.
    """
    x = matrices_of("diagonal_scatter", input)
    axes = two_axes(dim1, dim2, x.ndim)
    return movedim(matrix_set_diag(movedim(x, axes, (-2, -1)), src, offset), (-2, -1), axes)
