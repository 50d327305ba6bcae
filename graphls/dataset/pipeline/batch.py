"""Pipeline nodes that stack rows into batches, padded or not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, tee
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.dataset import checks
from graphls.dataset.checks import Function
from graphls.dataset.columns import Array, Row, as_array, stacked
from graphls.dataset.config import get_num_parallel_workers
from graphls.dataset.pipeline.dataset import Dataset, Names, PadInfo, node_of
from graphls.dataset.pipeline.functions import Replacement
from graphls.dataset.pipeline.node import Run, Sides, side_by_side
from graphls.dataset.pipeline.workers import DatasetError, Job, described, trace_of

Shape = tuple[int | None, ...]


class Padding:
    """Pads columns at the end of each axis: to a given shape, or to the largest of the batch.

    `info` gives (shape, value) by column name, where None means the size of the batch or the zero of the dtype; without
    any name all columns are padded.
    """

    def __init__(self, columns: tuple[str, ...], info: PadInfo) -> None:
        positions = checks.names_among(tuple(checks.instance("pad_info", info, dict, [dict])), columns, "pad_info")
        entries = [_entry(name, entry) for name, entry in info.items()]
        self.columns = columns
        self.entries: dict[int, tuple[Shape | None, Any]] = (
            dict(zip(positions, entries, strict=True)) if info else {i: (None, None) for i in range(len(columns))}
        )

    def __call__(self, columns: Sides, limit: int | None = None) -> tuple[Any, ...]:
        """The columns, as lists of arrays of one shape each; `limit` replaces sizes that are open."""
        return tuple(
            self._padded(position, column, limit) if position in self.entries else column
            for position, column in enumerate(columns)
        )

    def _padded(self, position: int, column: Sequence[object], limit: int | None) -> list[Any]:
        if any(type(item) is dict for item in column):
            return list(column)
        shape, value = self.entries[position]
        arrays = [as_array(item) for item in column]
        ranks = {array.ndim for array in arrays}
        if len(ranks) > 1 or (shape is not None and {len(shape)} != ranks):
            raise GraphValueError(
                f"Column {self.columns[position]!r} has rows of {' and '.join(map(str, sorted(ranks)))} axes"
                + (f" where pad_info has {len(shape)}" if shape is not None else "")
            )
        sizes = _sizes(arrays, shape, limit)
        return [_padded_to(array, sizes, value, self.columns[position]) for array in arrays]


def _entry(name: str, entry: object) -> tuple[Shape | None, Any]:
    if entry is None:
        return None, None
    if not isinstance(entry, (tuple, list)) or len(entry) != 2:
        raise checks.type_error(f"pad_info[{name!r}]", entry, "(shape, value)")
    shape, value = entry
    if shape is None:
        return None, value
    if not isinstance(shape, (tuple, list)) or not all(size is None or isinstance(size, int) for size in shape):
        raise checks.type_error(f"pad_info[{name!r}][0]", shape, "a shape")
    return tuple(None if size == -1 else size for size in shape), value


def _sizes(arrays: Sequence[Array], shape: Shape | None, limit: int | None) -> tuple[int, ...]:
    largest = tuple(map(max, zip(*(array.shape for array in arrays), strict=True)))
    if shape is None:
        return largest
    sizes = zip(shape, largest, strict=True)
    return tuple((most if limit is None else limit) if size is None else size for size, most in sizes)


def _padded_to(array: Array, sizes: tuple[int, ...], value: object, name: str) -> Array:
    if array.shape == sizes:
        return array
    if any(size > target for size, target in zip(array.shape, sizes, strict=True)):
        raise GraphValueError(f"Column {name!r} has a row of shape {array.shape}, larger than {sizes} in pad_info")
    empty = "" if array.dtype.kind == "U" else b"" if array.dtype.kind == "S" else 0
    padded = np.full(sizes, empty if value is None else value, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded


@dataclass(frozen=True)
class BatchInfo:
    """The indices of a batch, for functions of batches; both start at 0.

    Examples:
        >>> from graphls import dataset as ds
        >>> rows = ds.NumpySlicesDataset([1, 2, 3, 4, 5, 6], "x", shuffle=False)
        >>> rows = rows.batch(lambda info: 1 + info.get_batch_num())  # a batch more each time
        >>> [len(x) for (x,) in rows]
        [1, 2, 3]
    """

    batch: int
    epoch: int

    def get_batch_num(self) -> int:
        """The index of the batch in its epoch."""
        return self.batch

    def get_epoch_num(self) -> int:
        """The index of the epoch."""
        return self.epoch


class Stacker:
    """Stacks many rows into one, through the user's function, with padding; the task of a worker of `batch`."""

    def __init__(
        self, columns: tuple[str, ...], function: Function | None, replacement: Replacement | None,
        padding: Padding | None,
    ) -> None:  # fmt: skip
        self.columns, self.function, self.replacement, self.padding = columns, function, replacement, padding
        self.only_stacks = function is None and padding is None

    def __call__(self, task: tuple[Sides, BatchInfo]) -> Row:
        columns, info = task
        if not self.only_stacks:
            columns = tuple([tuple(map(as_array, column)) for column in columns])
        if self.function is not None and self.replacement is not None:
            inputs = [list(column) for column in self.replacement.inputs_of(columns)]
            result = self.function(*inputs, info)
            columns = self.replacement.put(columns, result if isinstance(result, tuple) else (result,))
        if self.padding is not None:
            columns = self.padding(columns)
        return self.stack(columns)

    def stack(self, columns: Sides) -> Row:
        """Stack columns into arrays; columns that are arrays already stay as they are."""
        return tuple([self._stacked(position, column) for position, column in enumerate(columns)])

    def _stacked(self, position: int, column: object) -> Any:
        if not isinstance(column, (list, tuple)):
            return as_array(column)
        arrays = column if self.function is None else [as_array(item) for item in column]
        return stacked(arrays, position, self.columns[position])


@node_of("batch")
class BatchDataset(Dataset):
    """See `Dataset.batch`; indexed where its child is and the size of a batch is a number."""

    def __init__(
        self, child: Dataset, batch_size: int | Callable[..., int], drop_remainder: bool = False,
        num_parallel_workers: int | None = None, per_batch_map: Function | None = None, input_columns: Names = None,
        output_columns: Names = None, pad_info: PadInfo | None = None, python_multiprocessing: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(child)
        self.child = child
        self.batch_size = batch_size if callable(batch_size) else checks.integer("batch_size", batch_size, 1)
        self.joined = child.joined_shards()
        if isinstance(self.batch_size, int):
            self.batch_size *= self.joined
        self.drop_remainder = checks.boolean("drop_remainder", drop_remainder)
        self.workers = checks.workers(num_parallel_workers)
        self.processes = checks.boolean("python_multiprocessing", python_multiprocessing)
        replacement = _replacement(child, per_batch_map, input_columns, output_columns)
        self.columns = child.columns if replacement is None else replacement.columns
        padding = None if pad_info is None else Padding(self.columns, pad_info)
        self.stacker = Stacker(self.columns, per_batch_map, replacement, padding)

    def joined_shards(self) -> int:
        return 1

    @property
    def is_indexed(self) -> bool:
        return self.child.is_indexed and isinstance(self.batch_size, int)

    def length(self) -> float:
        return self._batches(self.child.length())

    def _batches(self, size: float) -> float:
        assert isinstance(self.batch_size, int)
        return size // self.batch_size if self.drop_remainder else -(-size // self.batch_size)

    def size(self) -> float:
        return self._batches(self.child.size()) if isinstance(self.batch_size, int) else super().size()

    def get_batch_size(self) -> int:
        return self.batch_size if isinstance(self.batch_size, int) else self._size_of(0, 0)

    def job(self) -> Job:
        by_user = self.stacker.function is not None
        workers = (self.workers or get_num_parallel_workers()) if by_user else 1
        return Job(self.stacker, workers, self.processes, "batch", self.location)

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        # The last batch ends where the rows do; with drop_remainder `length` does not count a smaller one.
        own, batches = tee(indices)
        length, size = self.child.length(), self.batch_size
        assert isinstance(size, int)
        members = (range(n * size, int(min(n * size + size, length))) for n in batches)
        columns = zip(self.child.sides(run, epoch, members, self.stacker.only_stacks), own, strict=False)
        return run.each(self, epoch, ((n, (sides, BatchInfo(n, epoch))) for sides, n in columns))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        before = sum(self._size_of(index, epoch) for index in range(start))
        sizes = ((index, self._size_of(index, epoch)) for index in count(start))
        return run.each(self, epoch, self._tasks(self.child.stream(run, epoch, before), epoch, sizes))

    def _tasks(
        self, rows: Iterator[Row], epoch: int, sizes: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, tuple[Sides, BatchInfo]]]:
        for index, size in sizes:
            sides = side_by_side(islice(rows, size), size, self.stacker.only_stacks)
            if not sides or (self.drop_remainder and len(sides[0]) < size):
                return
            yield index, (sides, BatchInfo(index, epoch))

    def _size_of(self, index: int, epoch: int) -> int:
        if isinstance(self.batch_size, int):
            return self.batch_size
        try:
            size = self.batch_size(BatchInfo(index, epoch))
            return self.joined * checks.integer("The result of batch_size", size, 1)
        except Exception as error:
            text = f"batch_size failed for batch {index}: {described(error)}."
            raise DatasetError(text, self.location, trace_of(error)) from error


def _replacement(
    child: Dataset, function: Function | None, input_columns: Names, output_columns: Names
) -> Replacement | None:
    if function is None:
        if output_columns is not None:
            raise GraphValueError("output_columns of batch goes with per_batch_map only.")
        return None
    checks.function("per_batch_map", function)
    return Replacement(child.columns, child.columns, input_columns, output_columns, "batch")


@node_of("bucket_batch_by_length")
class BucketBatchDataset(Dataset):
    """See `Dataset.bucket_batch_by_length`."""

    def __init__(
        self, child: Dataset, column_names: Sequence[str] | str, bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int], element_length_function: Callable[..., int] | None, pad_info: PadInfo | None,
        pad_to_bucket_boundary: bool, drop_remainder: bool,
    ) -> None:  # fmt: skip
        super().__init__(child)
        self.positions = self.need(checks.names("column_names", column_names), "bucket_batch_by_length")
        self.boundaries = _integers("bucket_boundaries", bucket_boundaries)
        self.batch_sizes = _integers("bucket_batch_sizes", bucket_batch_sizes)
        self.measure = _measure(element_length_function, self.positions)
        self.pad_to_boundary = checks.boolean("pad_to_bucket_boundary", pad_to_bucket_boundary)
        self.drop_remainder = checks.boolean("drop_remainder", drop_remainder)
        self.padding = Padding(self.columns, {} if pad_info is None else pad_info)
        self._check_buckets()

    def _check_buckets(self) -> None:
        if any(low >= high for low, high in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise GraphValueError(f"bucket_boundaries grow, not {self.boundaries}.")
        if len(self.batch_sizes) != len(self.boundaries) + 1:
            raise GraphValueError(
                f"bucket_batch_sizes has one number more than bucket_boundaries, not {len(self.batch_sizes)} for "
                f"{len(self.boundaries)}.",
            )

    def job(self) -> Job:
        return Job(self._stacked_bucket, 1, False, "bucket_batch_by_length", self.location)

    def _stacked_bucket(self, task: tuple[int, list[Row]]) -> Row:
        """The batch of the rows of a bucket."""
        bucket, rows = task
        limit = None
        if self.pad_to_boundary:
            if bucket == len(self.boundaries):
                raise GraphValueError("a row is longer than the last of bucket_boundaries, to which it would be padded")
            limit = self.boundaries[bucket] - 1
        columns = self.padding(tuple(zip(*rows, strict=True)), limit)
        return Stacker(self.columns, None, None, None).stack(columns)

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        return islice(run.each(self, epoch, enumerate(self._buckets(self.children[0].stream(run, epoch)))), start, None)

    def _buckets(self, rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
        """Full buckets, and at the end those with remaining rows."""
        buckets: list[list[Row]] = [[] for _ in self.batch_sizes]
        for index, row in enumerate(rows):
            # A row as long as a boundary is in the bucket above it, as boundary - 1 is the most that one is padded to.
            bucket = bisect_right(self.boundaries, self._length_of(index, row))
            buckets[bucket].append(row)
            if len(buckets[bucket]) == self.batch_sizes[bucket]:
                yield bucket, buckets[bucket]
                buckets[bucket] = []
        if not self.drop_remainder:
            yield from ((bucket, members) for bucket, members in enumerate(buckets) if members)

    def _length_of(self, index: int, row: Row) -> int:
        try:
            return checks.integer("The result of element_length_function", self.measure(row), 0)
        except Exception as error:
            raise self.job().failure(index, described(error), trace_of(error)) from error


def _integers(name: str, values: Sequence[int]) -> list[int]:
    if not isinstance(values, (list, tuple)):
        raise checks.type_error(name, values, "a list of integers")
    if not values:
        raise GraphValueError(f"{name} cannot be empty.")
    return [checks.integer(f"Each of {name}", value, 1) for value in values]


def _measure(function: Callable[..., int] | None, positions: tuple[int, ...]) -> Callable[[Row], int]:
    if function is not None:
        checks.function("element_length_function", function)
        return lambda row: int(function(*[row[position] for position in positions]))
    if len(positions) > 1:
        raise GraphValueError(
            "Rows of several columns have the length that element_length_function gives; it is missing.",
        )
    return lambda row: sum(getattr(row[positions[0]], "shape", ())[:1])  # 0 of a number, and of a dict
