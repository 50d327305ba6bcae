"""The node that leaves rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from graphls.dataset import checks
from graphls.dataset.config import get_num_parallel_workers
from graphls.dataset.dataset import Dataset
from graphls.dataset.jobs import Job
from graphls.dataset.run import Run
from graphls.dataset.values import Row


class Predicate:
    """Whether a row stays: the row, or None."""

    def __init__(self, predicate: Callable[..., Any], places: tuple[int, ...]) -> None:
        self.predicate, self.places = predicate, places

    def __call__(self, row: Row) -> Row | None:
        return row if bool(self.predicate(*[row[place] for place in self.places])) else None


class FilterDataset(Dataset):
    """See `Dataset.filter`; which rows stay is known once all before them have been looked at."""

    def __init__(
        self, child: Dataset, predicate: Callable[..., Any], input_columns: Any, num_parallel_workers: int | None
    ) -> None:
        super().__init__(child)
        names = child.columns if input_columns is None else checks.names("input_columns", input_columns)
        self.test = Predicate(checks.function("predicate", predicate), self.need(names, "filter"))
        self.workers = checks.workers(num_parallel_workers)

    def job(self) -> Job:
        return Job(self.test, self.workers or get_num_parallel_workers(), False, "filter", self.location)

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        rows = run.each(self, turn, enumerate(self.children[0].stream(run, turn)))
        return islice((row for row in rows if row is not None), start, None)
