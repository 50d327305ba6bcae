"""Nodes that run user code on every row: `map`, and `filter`, which leaves rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice, tee
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.dataset import checks
from graphls.dataset.checks import Function
from graphls.dataset.columns import Row, as_array
from graphls.dataset.config import get_num_parallel_workers
from graphls.dataset.pipeline.dataset import Dataset, Names, made_by
from graphls.dataset.pipeline.node import Run
from graphls.dataset.pipeline.selection import SameRows
from graphls.dataset.pipeline.workers import Job


class Replacement:
    """Which columns go into a function, and where those that come out stand.

    As many as went in take their places; any other number comes first, followed by the columns that did not go in.
    Where `input_columns` are not named, those of `default` go in.
    """

    def __init__(
        self, columns: tuple[str, ...], default: tuple[str, ...], input_columns: Names, output_columns: Names, what: str
    ) -> None:
        inputs = default if input_columns is None else checks.names("input_columns", input_columns)
        outputs = inputs if output_columns is None else checks.names("output_columns", output_columns)
        self.inputs = checks.names_among(inputs, columns, what)
        self.outputs = outputs
        self.in_place = len(inputs) == len(outputs)
        self.others = tuple(position for position in range(len(columns)) if position not in self.inputs)
        if self.in_place:
            given = dict(zip(self.inputs, outputs, strict=True))
            after = tuple(given.get(position, name) for position, name in enumerate(columns))
        else:
            after = (*outputs, *(columns[position] for position in self.others))
        self.columns = checks.names(f"The columns after {what}", after)

    def taken(self, row: Row) -> tuple[Any, ...]:
        """The columns that go in."""
        return tuple([row[position] for position in self.inputs])

    def put(self, row: Row, values: tuple[Any, ...]) -> Row:
        """The row with what came out; raises GraphValueError for another number of columns than named."""
        if len(values) != len(self.outputs):
            raise GraphValueError(f"it gave {len(values)} columns where output_columns has {len(self.outputs)}")
        if not self.in_place:
            return (*values, *(row[position] for position in self.others))
        after = list(row)
        for position, value in zip(self.inputs, values, strict=True):
            after[position] = value
        return tuple(after)


class Mapper:
    """One function after another on some columns of a row; what a worker of `map` does."""

    def __init__(self, operations: Sequence[Function], replacement: Replacement) -> None:
        self.operations, self.replacement = operations, replacement

    def __call__(self, row: Row) -> Row:
        values = self.replacement.taken(row)
        for operation in self.operations:
            result = operation(*values)
            values = result if isinstance(result, tuple) else (result,)
        return self.replacement.put(row, tuple([as_array(value) for value in values]))


@made_by("map")
class MapDataset(SameRows):
    """See `Dataset.map`."""

    def __init__(
        self, child: Dataset, operations: Function | Sequence[Function], input_columns: Names = None,
        output_columns: Names = None, num_parallel_workers: int | None = None, python_multiprocessing: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(child)
        replacement = Replacement(child.columns, child.columns[:1], input_columns, output_columns, "map")
        listed = operations if isinstance(operations, (list, tuple)) else [operations]
        self.mapper = Mapper(checks.functions("operations", listed), replacement)
        self.columns = replacement.columns
        self.workers = checks.workers(num_parallel_workers)
        self.processes = checks.boolean("python_multiprocessing", python_multiprocessing)

    def job(self) -> Job:
        return Job(self.mapper, self.workers or get_num_parallel_workers(), self.processes, "map", self.location)

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        own, wanted = tee(indices)
        return run.each(self, epoch, zip(own, self.child.rows(run, epoch, wanted), strict=False))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        return run.each(self, epoch, zip(count(start), self.child.stream(run, epoch, start), strict=False))


class Predicate:
    """Whether a row stays: the row, or None."""

    def __init__(self, predicate: Function, positions: tuple[int, ...]) -> None:
        self.predicate, self.positions = predicate, positions

    def __call__(self, row: Row) -> Row | None:
        return row if bool(self.predicate(*[row[position] for position in self.positions])) else None


@made_by("filter")
class FilterDataset(Dataset):
    """See `Dataset.filter`; which rows stay is known once all before them have been looked at."""

    def __init__(
        self, child: Dataset, predicate: Function, input_columns: Names, num_parallel_workers: int | None
    ) -> None:
        super().__init__(child)
        names = child.columns if input_columns is None else checks.names("input_columns", input_columns)
        self.test = Predicate(checks.function("predicate", predicate), self.need(names, "filter"))
        self.workers = checks.workers(num_parallel_workers)

    def job(self) -> Job:
        return Job(self.test, self.workers or get_num_parallel_workers(), False, "filter", self.location)

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        rows = run.each(self, epoch, enumerate(self.children[0].stream(run, epoch)))
        return islice((row for row in rows if row is not None), start, None)
