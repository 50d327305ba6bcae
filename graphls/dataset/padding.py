"""Padding of the arrays of a batch to one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.dataset import checks
from graphls.dataset.values import Array, as_array
from graphls.ir.errors import GraphTypeError, GraphValueError

Shape = tuple[int | None, ...]


class Padding:
    """Pads columns at the end of each axis: to a given shape, or to the largest of the batch.

    `info` gives (shape, value) by column name, where None stands for what the batch or the dtype says; without any
    name all columns are padded.
    """

    def __init__(self, columns: tuple[str, ...], info: dict[str, Any]) -> None:
        if not isinstance(info, dict):
            raise GraphTypeError(f"pad_info is a dict of column names, not {info!r}.")
        places = checks.names_among(tuple(info), columns, "pad_info")
        entries = [_entry(name, entry) for name, entry in info.items()]
        self.columns = columns
        self.entries: dict[int, tuple[Shape | None, Any]] = (
            dict(zip(places, entries, strict=True)) if info else {i: (None, None) for i in range(len(columns))}
        )

    def __call__(self, columns: Sequence[Any], limit: int | None = None) -> tuple[Any, ...]:
        """The columns, as lists of arrays of one shape each; `limit` replaces sizes that are open."""
        return tuple(
            self._padded(place, column, limit) if place in self.entries else column
            for place, column in enumerate(columns)
        )

    def _padded(self, place: int, column: Sequence[Any], limit: int | None) -> list[Array]:
        shape, value = self.entries[place]
        arrays = [as_array(item) for item in column]
        ranks = {array.ndim for array in arrays}
        if len(ranks) > 1 or (shape is not None and {len(shape)} != ranks):
            raise GraphValueError(
                f"Column {self.columns[place]!r} has rows of {' and '.join(map(str, sorted(ranks)))} axes"
                + (f" where pad_info has {len(shape)}" if shape is not None else "")
            )
        sizes = _sizes(arrays, shape, limit)
        return [_padded_to(array, sizes, value, self.columns[place]) for array in arrays]


def _entry(name: str, entry: Any) -> tuple[Shape | None, Any]:
    if entry is None:
        return None, None
    if not isinstance(entry, (tuple, list)) or len(entry) != 2:
        raise GraphTypeError(f"pad_info gives (shape, value) for {name!r}, not {entry!r}.")
    shape, value = entry
    if shape is None:
        return None, value
    if not isinstance(shape, (tuple, list)) or not all(size is None or isinstance(size, int) for size in shape):
        raise GraphTypeError(f"The shape that pad_info gives for {name!r} cannot be {shape!r}.")
    return tuple(None if size == -1 else size for size in shape), value


def _sizes(arrays: Sequence[Array], shape: Shape | None, limit: int | None) -> tuple[int, ...]:
    largest = tuple(map(max, zip(*(array.shape for array in arrays), strict=True)))
    if shape is None:
        return largest
    sizes = zip(shape, largest, strict=True)
    return tuple((most if limit is None else limit) if size is None else size for size, most in sizes)


def _padded_to(array: Array, sizes: tuple[int, ...], value: Any, name: str) -> Array:
    if array.shape == sizes:
        return array
    if any(size > wanted for size, wanted in zip(array.shape, sizes, strict=True)):
        raise GraphValueError(f"Column {name!r} has a row of shape {array.shape}, larger than {sizes} in pad_info")
    empty = "" if array.dtype.kind == "U" else b"" if array.dtype.kind == "S" else 0
    padded = np.full(sizes, empty if value is None else value, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded
