"""Pipeline nodes that run user code on every row: `map` and `filter`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice, tee
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.dataset import checks
from graphls.dataset.checks import Function
from graphls.dataset.columns import Row, as_array
from graphls.dataset.config import get_num_parallel_workers
from graphls.dataset.pipeline.dataset import Dataset, Names, node_of
from graphls.dataset.pipeline.node import Run
from graphls.dataset.pipeline.selection import SameRows
from graphls.dataset.pipeline.workers import Job
from graphls.dataset.text.pretrained import is_pretrained


class Replacement:
    """The columns that a function takes, and the positions of its results.

    As many results as inputs replace these; any other number comes first, followed by the other columns. Without
    `input_columns`, those of `default` are the inputs.
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
            renamed = dict(zip(self.inputs, outputs, strict=True))
            after = tuple(renamed.get(position, name) for position, name in enumerate(columns))
        else:
            after = (*outputs, *(columns[position] for position in self.others))
        self.columns = checks.names(f"The columns after {what}", after)

    def inputs_of(self, row: Row) -> tuple[Any, ...]:
        """The input columns of a row."""
        return tuple([row[position] for position in self.inputs])

    def put(self, row: Row, values: tuple[Any, ...]) -> Row:
        """The row with the results; raises GraphValueError for another number of columns than named."""
        if len(values) != len(self.outputs):
            raise GraphValueError(f"it gave {len(values)} columns where output_columns has {len(self.outputs)}")
        if not self.in_place:
            return (*values, *(row[position] for position in self.others))
        after = list(row)
        for position, value in zip(self.inputs, values, strict=True):
            after[position] = value
        return tuple(after)


class Mapper:
    """Functions in sequence on some columns of a row; the task of a worker of `map`."""

    def __init__(self, operations: Sequence[Function], replacement: Replacement) -> None:
        self.operations, self.replacement = operations, replacement

    def __call__(self, row: Row) -> Row:
        values = self.replacement.inputs_of(row)
        for operation in self.operations:
            result = operation(*values)
            values = result if isinstance(result, tuple) else (result,)
        return self.replacement.put(row, tuple([as_array(value) for value in values]))


@node_of("map")
class MapDataset(SameRows):
    """See `Dataset.map`."""

    def __init__(
        self, child: Dataset, operations: Function | Sequence[Function], input_columns: Names = None,
        output_columns: Names = None, num_parallel_workers: int | None = None, python_multiprocessing: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(child)
        replacement = Replacement(child.columns, child.columns[:1], input_columns, output_columns, "map")
        listed = operations if isinstance(operations, (list, tuple)) else [operations]
        for operation in listed:
            if is_pretrained(operation):
                text = "map takes functions of columns; give text.PretrainedTokenizer(tokenizer, max_length=...)"
                raise GraphTypeError(f"{text} for this {type(operation).__name__}.")
        self.mapper = Mapper(checks.functions("operations", listed), replacement)
        self.columns = replacement.columns
        self.workers = checks.workers(num_parallel_workers)
        self.processes = checks.boolean("python_multiprocessing", python_multiprocessing)

    def job(self) -> Job:
        return Job(self.mapper, self.workers or get_num_parallel_workers(), self.processes, "map", self.location)

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        own_indices, child_indices = tee(indices)
        return run.each(self, epoch, zip(own_indices, self.child.rows(run, epoch, child_indices), strict=False))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        return run.each(self, epoch, zip(count(start), self.child.stream(run, epoch, start), strict=False))


class Predicate:
    """The test of a row: returns the row if it stays, else None."""

    def __init__(self, predicate: Function, positions: tuple[int, ...]) -> None:
        self.predicate, self.positions = predicate, positions

    def __call__(self, row: Row) -> Row | None:
        return row if bool(self.predicate(*[row[position] for position in self.positions])) else None


@node_of("filter")
class FilterDataset(Dataset):
    """See `Dataset.filter`; the rows that stay are known only after testing all before them."""

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
