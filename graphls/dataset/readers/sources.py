"""The sources of GeneratorDataset: kinds of objects, their columns, and the choice of rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeGuard

import numpy as np

from graphls.base.errors import GraphlsError, GraphTypeError, GraphValueError
from graphls.base.sharing.reentrant import Lock
from graphls.dataset import checks, samplers
from graphls.dataset.checks import DTypeLike, Function
from graphls.dataset.columns import (
    NUMBERS,
    Array,
    ArrayDType,
    Row,
    Schema,
    as_array,
    as_schema,
    column_dtype,
    row_of,
    stacked,
)
from graphls.dataset.samplers import Sampler, SamplerLike

Plain = np.ndarray
Types = tuple["ArrayDType | None", ...]
ColumnTypes = DTypeLike | Sequence[DTypeLike] | None
ITEMS, FUNCTION, ITERABLE = "random access", "generator function", "iterable"


def kind_of(source: object) -> str:
    """The way to read a source: by index, by a call, or by iteration; raises GraphTypeError for other objects."""
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


def is_read_once(source: object) -> TypeGuard[Iterator[object]]:
    """Returns whether an iterable is one of Python's own iterators, such as a zip, which can be read only once."""
    return isinstance(source, Iterator) and not inspect.isfunction(type(source).__iter__)


class Replayable:
    """The items of an iterator that can be read only once, stored for later passes."""

    def __init__(self, iterator: Iterator[object]) -> None:
        self._iterator = iterator
        self._items: list[object] = []
        self._lock = Lock()

    def __iter__(self) -> Iterator[object]:
        position = 0
        while self._has_item(position):
            yield self._items[position]
            position += 1

    def _has_item(self, position: int) -> bool:
        with self._lock:
            if position == len(self._items):
                self._items.extend(islice(self._iterator, 1))
            return position < len(self._items)


class Columns:
    """Converts an item of a source to the columns of a row, and checks their announced types."""

    def __init__(self, names: tuple[str, ...], types: Types) -> None:
        self.names, self.width = names, len(names)
        self.types = types if any(type is not None for type in types) else ()

    def __call__(self, item: Any) -> Row:
        if type(item) is tuple and len(item) == self.width:
            row: Row = tuple([value if type(value) is Plain else as_array(value) for value in item])
        else:
            row = row_of(item, self.width)
        return self._typed(row, item) if self.types else row

    def side_by_side(self, items: list[Any]) -> tuple[Any, ...]:
        """The columns of items that are tuples of arrays and numbers; a column of numbers is one array.

        Empty for items of other kinds.
        """
        if self.types or set(map(type, items)) != {tuple} or set(map(len, items)) != {self.width}:
            return ()
        columns = tuple(map(_column_array, zip(*items, strict=True)))
        return () if any(column is None for column in columns) else columns

    def _typed(self, row: Row, item: Any) -> Row:
        values = item if isinstance(item, (tuple, list)) and len(item) == len(row) else (item,)
        return tuple([self._as_announced(i, array, value) for i, (array, value) in enumerate(zip(row, values))])  # noqa: B905

    def _as_announced(self, position: int, array: Array, value: Any) -> Array:
        type = self.types[position]
        if type is not None and not isinstance(array, Plain):
            raise GraphTypeError(f"it gave a dict for {self.names[position]!r}, where column_types has {type}")
        if type is None or array.dtype == type or (array.dtype.kind in "US" and type.kind == array.dtype.kind):
            return array
        if hasattr(value, "dtype"):
            raise GraphTypeError(f"it gave {array.dtype} for {self.names[position]!r}, where column_types has {type}")
        return array.astype(type)


def _column_array(column: tuple[object, ...]) -> Any:
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
    """Reads one item of a source with `__getitem__`; the task of a worker of GeneratorDataset."""

    def __init__(self, source: Any, columns: Columns) -> None:
        self.source, self.columns = source, columns

    def __call__(self, index: int) -> Row:
        return self.columns(self.source[index])


class BatchReader:
    """Reads the items of a batch and combines them, by the user's function or by stacking each column."""

    def __init__(self, source: Any, columns: Columns, collate: Function | None) -> None:
        self.source, self.columns, self.collate = source, columns, collate

    def __call__(self, indices: Any) -> Row:
        if isinstance(indices, (int, np.integer)):
            raise GraphTypeError(f"batch_sampler gives lists of row indices, not {indices!r}")
        items = [self.source[int(index)] for index in indices]
        if self.collate is not None:
            return self.columns(self.collate(items))
        if not items:
            raise GraphlsError("batch_sampler gave a batch without rows")
        columns = zip(self.columns.names, zip(*map(self.columns, items), strict=True), strict=True)
        return tuple([stacked(column, position, name) for position, (name, column) in enumerate(columns)])


def announced_columns(column_names: object, column_types: object, schema: object) -> tuple[tuple[str, ...], Types]:
    """The names of the columns, and their dtypes if they are announced."""
    if column_names is None and schema is None:
        raise GraphValueError("Neither columns_names nor schema are provided.")
    if column_names is None:
        announced: Schema = as_schema(schema)
        return checks.names("The columns of schema", announced.names()), announced.dtypes()
    names = checks.names("column_names", column_names)
    if column_types is None:
        return names, (None,) * len(names)
    listed = column_types if isinstance(column_types, (list, tuple)) else [column_types]
    if len(listed) != len(names):
        raise GraphValueError(
            f"column_types has one dtype for each of column_names, not {len(listed)} for {len(names)}."
        )
    return names, tuple(column_dtype(item) for item in listed)


@dataclass(frozen=True)
class Choice:
    """The arguments that choose the rows of a pass; `check` checks their combination."""

    num_samples: int | None
    shuffle: bool | None
    sampler: SamplerLike | None
    num_shards: int | None
    shard_id: int | None
    batch_sampler: object
    collate_fn: object

    def check(self, has_items: bool) -> None:
        """Raise GraphTypeError or GraphValueError for invalid arguments or combinations."""
        checks.optional_integer("num_samples", self.num_samples, 0)
        if self.shuffle is not None:
            checks.boolean("shuffle", self.shuffle)
        if self.sampler is not None and self.shuffle is not None:
            raise GraphValueError("sampler and shuffle cannot be specified at the same time.")
        if self.sampler is not None and self.num_shards is not None:
            raise GraphValueError("sampler and sharding cannot be specified at the same time.")
        if (self.num_shards is None) != (self.shard_id is None):
            raise GraphValueError("num_shards and shard_id need to be passed in together.")
        self._check_batch_sampler()
        for name in () if has_items else ("sampler", "num_shards", "batch_sampler", "shuffle"):
            if getattr(self, name) is not None and getattr(self, name) is not False:
                raise GraphValueError(f"{name} is not supported if source does not have attribute '__getitem__'.")

    def _check_batch_sampler(self) -> None:
        batch_sampler = self.batch_sampler
        if self.collate_fn is not None:
            checks.function("collate_fn", self.collate_fn)
            if batch_sampler is None:
                raise GraphValueError("collate_fn can be specified only when batch_sampler is set.")
        if batch_sampler is None:
            return
        if not hasattr(batch_sampler, "__iter__") and not hasattr(batch_sampler, "__getitem__"):
            raise checks.type_error("batch_sampler", batch_sampler, "an iterable of lists")
        if any(other is not None for other in (self.num_samples, self.shuffle, self.sampler, self.num_shards)):
            raise GraphValueError(
                "batch_sampler cannot be specified together with num_samples, shuffle, sampler, num_shards and "
                "shard_id.",
            )

    def new_sampler(self) -> Sampler:
        """The sampler for these arguments."""
        count = self.num_samples
        if self.sampler is not None:
            sampler = samplers.as_sampler(self.sampler)
            return sampler if count is None else _combined(sampler, samplers.SequentialSampler(num_samples=count))
        if self.num_shards is not None and self.shard_id is not None:
            return samplers.DistributedSampler(self.num_shards, self.shard_id, self.shuffle is not False, count)
        kind = samplers.SequentialSampler if self.shuffle is False else samplers.RandomSampler
        return kind(num_samples=count)


def _combined(child: Sampler, sampler: Sampler) -> Sampler:
    sampler.add_child(child)
    return sampler
