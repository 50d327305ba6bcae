"""The node that stacks rows, and what it tells functions about a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice, tee
from typing import Any

from graphls.dataset import checks
from graphls.dataset.config import get_num_parallel_workers
from graphls.dataset.dataset import Dataset
from graphls.dataset.errors import DatasetError, described, trace_of
from graphls.dataset.jobs import Job
from graphls.dataset.map import Replacement
from graphls.dataset.padding import Padding
from graphls.dataset.run import Run
from graphls.dataset.values import Array, Row, as_array, stacked
from graphls.ir.errors import GraphValueError

Sides = tuple[Any, ...]
"""The columns of some rows: the items of each side by side."""


@dataclass(frozen=True)
class BatchInfo:
    """Which batch a function is asked about; both numbers start at 0."""

    batch: int
    epoch: int

    def get_batch_num(self) -> int:
        """The number of the batch in its epoch."""
        return self.batch

    def get_epoch_num(self) -> int:
        """The number of the epoch."""
        return self.epoch


class Stacker:
    """Makes one row of many: through the user's function, padded, stacked. What a worker of `batch` does."""

    def __init__(
        self, columns: tuple[str, ...], function: Callable[..., Any] | None, replacement: Replacement | None,
        padding: Padding | None,
    ) -> None:  # fmt: skip
        self.columns, self.function, self.replacement, self.padding = columns, function, replacement, padding

    def __call__(self, task: tuple[Sides, BatchInfo]) -> Row:
        columns, info = task
        if self.function is not None or self.padding is not None:
            columns = tuple([tuple(map(as_array, column)) for column in columns])
        if self.function is not None and self.replacement is not None:
            inputs = [list(column) for column in self.replacement.taken(columns)]
            result = self.function(*inputs, info)
            columns = self.replacement.put(columns, result if isinstance(result, tuple) else (result,))
        if self.padding is not None:
            columns = self.padding(columns)
        return self.stack(columns)

    def stack(self, columns: tuple[Any, ...]) -> Row:
        """Columns as arrays; those that are one already stay as they are."""
        return tuple([self._stacked(place, column) for place, column in enumerate(columns)])

    def _stacked(self, place: int, column: Any) -> Array:
        if not isinstance(column, (list, tuple)):
            return as_array(column)
        arrays = column if self.function is None else [as_array(item) for item in column]
        return stacked(arrays, place, self.columns[place])


class BatchDataset(Dataset):
    """See `Dataset.batch`; indexed where its child is and the size of a batch is a number."""

    def __init__(
        self,
        child: Dataset,
        batch_size: int | Callable[..., int],
        drop_remainder: bool = False,
        num_parallel_workers: int | None = None,
        per_batch_map: Callable[..., Any] | None = None,
        input_columns: Any = None,
        output_columns: Any = None,
        pad_info: dict[str, Any] | None = None,
        python_multiprocessing: bool = False,
    ) -> None:
        super().__init__(child)
        self.child = child
        self.batch_size = batch_size if callable(batch_size) else checks.integer("batch_size", batch_size, 1)
        self.drop_remainder = checks.flag("drop_remainder", drop_remainder)
        self.workers = checks.workers(num_parallel_workers)
        self.processes = checks.flag("python_multiprocessing", python_multiprocessing)
        replacement = _replacement(child, per_batch_map, input_columns, output_columns)
        self.columns = child.columns if replacement is None else replacement.columns
        padding = None if pad_info is None else Padding(self.columns, pad_info)
        self.stacker = Stacker(self.columns, per_batch_map, replacement, padding)

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

    def rows(self, run: Run, turn: int, indices: Iterable[int]) -> Iterator[Row]:
        numbers, wanted = tee(indices)
        length, size = self.child.length(), self.batch_size
        assert isinstance(size, int)
        members = (range(n * size, int(min(n * size + size, length))) for n in wanted)
        columns = zip(self.child.sides(run, turn, members), numbers, strict=False)
        return run.each(self, turn, ((n, (sides, BatchInfo(n, turn))) for sides, n in columns))

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        if self.is_indexed:
            return super().stream(run, turn, start)
        before = sum(self._size_of(number, turn) for number in range(start))
        sizes = ((number, self._size_of(number, turn)) for number in count(start))
        return run.each(self, turn, self._tasks(self.child.stream(run, turn, before), turn, sizes))

    def _tasks(
        self, rows: Iterator[Row], turn: int, sizes: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, tuple[Sides, BatchInfo]]]:
        for number, size in sizes:
            members = list(islice(rows, size))
            if not members or (self.drop_remainder and len(members) < size):
                return
            yield number, (tuple(zip(*members, strict=True)), BatchInfo(number, turn))

    def _size_of(self, number: int, turn: int) -> int:
        if isinstance(self.batch_size, int):
            return self.batch_size
        try:
            size = self.batch_size(BatchInfo(number, turn))
            return checks.integer("The result of batch_size", size, 1)
        except Exception as error:
            text = f"batch_size failed for batch {number}: {described(error)}."
            raise DatasetError(text, self.location, trace_of(error)) from error


def _replacement(
    child: Dataset, function: Callable[..., Any] | None, input_columns: Any, output_columns: Any
) -> Replacement | None:
    if function is None:
        if output_columns is not None:
            raise GraphValueError("output_columns of batch goes with per_batch_map only.")
        return None
    checks.function("per_batch_map", function)
    inputs = child.columns if input_columns is None else checks.names("input_columns", input_columns)
    outputs = inputs if output_columns is None else checks.names("output_columns", output_columns)
    return Replacement(child.columns, inputs, outputs, "batch")
