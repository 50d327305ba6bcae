"""The kinds of objects that a dataset reads from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np

from graphls.dataset.values import NUMBERS, Array, Row, as_array, row_of, stacked
from graphls.ir.errors import GraphlsError, GraphTypeError

Plain = np.ndarray
ITEMS, FUNCTION, ITERABLE = "random access", "generator function", "iterable"


def kind_of(source: Any) -> str:
    """How a source is read: by index, by calling it, or by iterating it; raises GraphTypeError for other objects."""
    if hasattr(source, "__getitem__") and not isinstance(source, (str, bytes, dict)):
        return ITEMS
    if callable(source):
        return FUNCTION
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, dict)):
        return ITERABLE
    raise GraphTypeError(
        "The source of GeneratorDataset has __getitem__ and __len__, or is a generator function or an iterable, and is "
        f"of type {type(source).__name__}.",
    )


def is_read_once(source: Any) -> bool:
    """Whether an iterable is one of Python's own iterators, such as a zip or a generator, which end for good."""
    return isinstance(source, Iterator) and not inspect.isfunction(type(source).__iter__)


class Kept:
    """The items of an iterator that can be read once, kept for the passes that come later."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator
        self._items: list[Any] = []
        self._lock = Lock()

    def __iter__(self) -> Iterator[Any]:
        place = 0
        while self._has(place):
            yield self._items[place]
            place += 1

    def _has(self, place: int) -> bool:
        with self._lock:
            if place == len(self._items):
                self._items.extend(islice(self._iterator, 1))
            return place < len(self._items)


class Columns:
    """Makes an item of a source the columns of a row, and holds them to the types that were announced."""

    def __init__(self, names: tuple[str, ...], types: tuple[np.dtype[Any] | None, ...]) -> None:
        self.names, self.width = names, len(names)
        self.types = types if any(type is not None for type in types) else ()

    def __call__(self, item: Any) -> Row:
        if type(item) is tuple and len(item) == self.width:
            row: Row = tuple([value if type(value) is Plain else as_array(value) for value in item])
        else:
            row = row_of(item, self.width)
        return self._typed(row, item) if self.types else row

    def side_by_side(self, items: list[Any]) -> tuple[Any, ...]:
        """The columns of items that are tuples of arrays and numbers; one of numbers is one array.

        Gives nothing for items that need a closer look.
        """
        if self.types or set(map(type, items)) != {tuple} or set(map(len, items)) != {self.width}:
            return ()
        columns = tuple(map(_side, zip(*items, strict=True)))
        return () if any(column is None for column in columns) else columns

    def _typed(self, row: Row, item: Any) -> Row:
        values = item if isinstance(item, (tuple, list)) and len(item) == len(row) else (item,)
        return tuple([self._as_announced(i, array, value) for i, (array, value) in enumerate(zip(row, values))])  # noqa: B905

    def _as_announced(self, place: int, array: Array, value: Any) -> Array:
        type = self.types[place]
        if type is None or array.dtype == type or (array.dtype.kind in "US" and type.kind == array.dtype.kind):
            return array
        if hasattr(value, "dtype"):
            raise GraphTypeError(f"it gave {array.dtype} for {self.names[place]!r}, where column_types has {type}")
        return array.astype(type)


def _side(column: tuple[Any, ...]) -> Any:
    """A column of arrays as it is, one of numbers of one type as an array; None for others."""
    kinds = set(map(type, column))
    if kinds == {Plain}:
        return column
    (kind, *others) = kinds
    if others or not (kind in NUMBERS or issubclass(kind, (np.number, np.bool_))):
        return None
    array = np.array(column)
    return None if array.dtype.kind == "O" else array


class Reader:
    """Reads one item of a source with `__getitem__`; what a worker of GeneratorDataset does."""

    def __init__(self, source: Any, columns: Columns) -> None:
        self.source, self.columns = source, columns

    def __call__(self, index: int) -> Row:
        return self.columns(self.source[index])


class BatchReader:
    """Reads the items of a batch and puts them together, by the user's function or by stacking each column."""

    def __init__(self, source: Any, columns: Columns, collate: Callable[[list[Any]], Any] | None) -> None:
        self.source, self.columns, self.collate = source, columns, collate

    def __call__(self, indices: Any) -> Row:
        if isinstance(indices, (int, np.integer)):
            raise GraphTypeError(f"batch_sampler gives lists of row numbers, not {indices!r}")
        items = [self.source[int(index)] for index in indices]
        if self.collate is not None:
            return self.columns(self.collate(items))
        if not items:
            raise GraphlsError("batch_sampler gave a batch without rows")
        columns = zip(self.columns.names, zip(*map(self.columns, items), strict=True), strict=True)
        return tuple([stacked(column, place, name) for place, (name, column) in enumerate(columns)])
