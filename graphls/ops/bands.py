"""Bands of diagonals of matrices: taken out, put in, kept. Positions are computed in the graph, not stored."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

from graphls.ir.checks import integer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.creation import arange, zeros
from graphls.ops.diagonals import diag_embed, matrices_of, positions
from graphls.ops.elementwise import add, cast, maximum, minimum, mul, sub
from graphls.ops.logic import less, less_equal, logical_and, logical_or, where
from graphls.ops.operands import in_graph, shape_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import gather, reshape
from graphls.tensors.tensor import Tensor

ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


class Band(NamedTuple):
    """The diagonals from `low` to `high` of matrices; one above the main diagonal has a number above 0."""

    low: int
    high: int
    rows: int
    columns: int
    align: str

    @property
    def height(self) -> int:
        """How many diagonals there are."""
        return self.high - self.low + 1

    @property
    def longest(self) -> int:
        """The number of elements of the longest one."""
        return builtins.min(self.rows + builtins.min(self.high, 0), self.columns - builtins.max(self.low, 0))

    def shifts(self, diagonals: Tensor) -> tuple[Tensor, Tensor]:
        """How many places stand before the first element of each diagonal, and how many elements it has."""
        lengths = minimum(add(minimum(diagonals, 0), self.rows), sub(self.columns, maximum(diagonals, 0)))
        missing = sub(self.longest, lengths)
        above, below = (missing if side == "RIGHT" else zeros((), missing.dtype) for side in self.align.split("_"))
        return where(less(diagonals, 0), below, above), lengths


def _band(name: str, k: Any, rows: int, columns: int, align: Any) -> Band:
    """The band that `k` names: one integer, or the lowest and the highest; raises GraphValueError for another one."""
    low, high = _bounds(name, k)
    if align not in ALIGNMENTS:
        listed = ", ".join(map(repr, ALIGNMENTS))
        raise GraphValueError(f"The 'align' of {name} is one of {listed}, not {align!r}.")
    if not (-rows < low <= high < columns or low == high == 0):
        message = f"A matrix of {rows} rows and {columns} columns has no diagonals {k}, as {name} takes them."
        raise GraphValueError(message)
    return Band(low, high, rows, columns, align)


def _bounds(name: str, k: Any) -> tuple[int, int]:
    bounds = shape_of(k.tolist() if isinstance(k, Tensor) else k)
    if len(bounds) not in (1, 2) or bounds[0] > bounds[-1]:
        raise GraphValueError(f"The 'k' of {name} is one integer or two rising ones, not {k!r}.")
    return bounds[0], bounds[-1]


@operation(classes="MatrixDiagPartV3", settings="align")
def matrix_diag_part(x: Any, k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """The diagonals `k` of matrices as rows, the highest first, or one diagonal in place of both axes.

    `k` is an integer, or the lowest and the highest of several. Shorter diagonals are filled with `padding_value`:
    those above the main one on the left for "RIGHT" in the first half of `align`, those below for "RIGHT" in the
    second. Raises GraphValueError for fewer axes than two, and for diagonals that are not there.
    """
    x = matrices_of("matrix_diag_part", x)
    band = _band("matrix_diag_part", k, x.shape[-2], x.shape[-1], align)
    diagonals = reshape(in_graph(arange(band.high, band.low - 1, -1)), (-1, 1))
    shifts, lengths = band.shifts(diagonals)
    along = sub(in_graph(arange(band.longest)), shifts)
    inside = logical_and(less_equal(0, along), less(along, lengths))
    places = add(mul(sub(along, minimum(diagonals, 0)), band.columns), add(along, maximum(diagonals, 0)))
    flat = reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    parts = where(inside, gather(flat, where(inside, places, 0), -1), cast(padding_value, x.dtype))
    return parts if band.height > 1 else reshape(parts, (*x.shape[:-2], band.longest))


@operation(classes="MatrixDiagV3", settings="align")
def matrix_diag(
    x: Any, k: Any = 0, num_rows: Any = -1, num_cols: Any = -1, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Matrices with the diagonals `k` that `matrix_diag_part` would take from them, and `padding_value` elsewhere.

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


def _count(argument: str, value: Any) -> int:
    return integer("matrix_diag", argument, value.item() if isinstance(value, Tensor) and value.size == 1 else value)


def _sizes(length: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    least_rows, least_columns = length - builtins.min(high, 0), length + builtins.max(low, 0)
    if rows == columns == -1:
        return (builtins.max(least_rows, least_columns),) * 2
    return least_rows if rows == -1 else rows, least_columns if columns == -1 else columns


@operation(classes="MatrixSetDiagV3", settings="align")
def matrix_set_diag(x: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Matrices with other diagonals `k`, in the form in which `matrix_diag_part` takes them.

    Raises GraphValueError where the shape of `diagonal` is another one.
    """
    x = matrices_of("matrix_set_diag", x)
    values = cast(diagonal, x.dtype)
    band = _band("matrix_set_diag", k, x.shape[-2], x.shape[-1], align)
    wanted = (*x.shape[:-2], *((band.height,) if band.height > 1 else ()), band.longest)
    if values.shape != wanted:
        message = f"matrix_set_diag of {x.type} for k = {k} takes diagonals of shape {wanted}, not {values.type}."
        raise GraphValueError(message)
    return _set(x, values, band)


def _set(background: Tensor, values: Tensor, band: Band) -> Tensor:
    """The diagonals on a background, each element found by the number of its diagonal."""
    rows, columns = positions(band.rows, band.columns)
    diagonals = sub(columns, rows)
    inside = logical_and(less_equal(band.low, diagonals), less_equal(diagonals, band.high))
    along = add(minimum(rows, columns), band.shifts(diagonals)[0])
    places = add(mul(sub(band.high, diagonals), band.longest), along)
    outer = values.shape[: values.ndim - (2 if band.height > 1 else 1)]
    flat = reshape(values, (*outer, band.height * band.longest))
    return where(inside, gather(flat, where(inside, places, 0), -1), background)


@operation(classes="MatrixBandPart")
def matrix_band_part(x: Any, lower: Any, upper: Any) -> Tensor:
    """Matrices with zeros but on `lower` diagonals below the main one and `upper` above; a negative number means all.

    Raises GraphValueError for fewer axes than two, GraphTypeError for bounds that are no integers.
    """
    x = matrices_of("matrix_band_part", x)
    rows, columns = positions(*x.shape[-2:])
    below, above = sub(rows, columns), sub(columns, rows)
    kept = logical_and(_within(below, lower), _within(above, upper))
    return where(kept, x, zeros((), x.dtype))


def _within(distances: Tensor, bound: Any) -> Tensor:
    most = tensor_of(bound)
    if most.dtype.kind not in ("int", "uint") or most.ndim:
        raise GraphTypeError(f"matrix_band_part takes integers as bounds, not {most.type}.")
    return logical_or(less(most, 0), less_equal(distances, most))


@operation
def diagflat(input: Any, offset: int = 0) -> Tensor:
    """A matrix of zeros with all elements of a tensor on a diagonal: 1 is the one above the main one, -1 that below."""
    return diag_embed(reshape(tensor_of(input), (-1,)), offset)
