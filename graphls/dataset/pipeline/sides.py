"""The columns of several rows, the items of each side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphls.dataset.columns import Array, Row

Sides = tuple[Any, ...]
"""The columns of some rows: the items of each in a sequence, or in one array."""

LARGE, MOST = 2**14, 2**28
"""Bytes of an item that is copied at once, and of a column for which there is memory before its items are there."""


def side_by_side(rows: Iterator[Row], count: int, in_one: bool) -> Sides:
    """The columns of the next rows, of `count` at most; nothing where there are no more.

    With `in_one`, columns of large items come as one array. Each is copied there when it comes, from a cache of the
    processor, and its memory is free for the next row, which is faster than memory that the system has to clear.
    """
    first = next(rows, None)
    if first is None:
        return ()
    if not in_one or not any(_is_large(item, count) for item in first):
        return tuple(zip(first, *rows, strict=True))
    columns = [_Column(item, count) if _is_large(item, count) else [item] for item in first]
    for row in rows:
        for column, item in zip(columns, row, strict=True):
            column.append(item)
    return tuple([column.items() if isinstance(column, _Column) else column for column in columns])


def _is_large(item: Any, count: int) -> bool:
    if type(item) is dict:
        return False
    return bool(item.dtype.kind in "biufc" and item.nbytes >= LARGE and item.nbytes * count <= MOST)


class _Column:
    """The items of a column in one array, as long as their shapes and dtypes are the same; then in a list."""

    def __init__(self, first: Array, count: int) -> None:
        self._array = np.empty((count, *first.shape), first.dtype)
        self._others: list[Array] = []
        self._length = 0
        self.append(first)

    def append(self, item: Array) -> None:
        array, length = self._array, self._length
        if self._others or item.shape != array.shape[1:] or item.dtype != array.dtype:
            self._others.append(item)
        else:
            array[length] = item
            self._length += 1

    def items(self) -> Any:
        """The array, or the list where items differ."""
        array = self._array if self._length == len(self._array) else self._array[: self._length].copy()
        return [*array, *self._others] if self._others else array
