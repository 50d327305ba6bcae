"""Datasets taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import isclose
from typing import Any

from graphls.dataset import checks
from graphls.dataset.checks import wrong_type
from graphls.dataset.columns import SameRows
from graphls.dataset.dataset import Dataset
from graphls.dataset.randomness import Key
from graphls.dataset.run import Run
from graphls.dataset.values import Row
from graphls.ir.errors import GraphRuntimeError, GraphValueError

DEAL = 2**32 - 1
"""The number of the node that deals rows out: the same for every pipeline that reads a part."""


class PartDataset(SameRows):
    """The rows of a dataset from `first` on, `count` of them, dealt out at random or not.

    Every pass has the same rows in the order of the first pass over the dataset, so that parts never share a row.
    """

    def __init__(self, child: Dataset, first: int, count: int, total: int, randomize: bool) -> None:
        super().__init__(child)
        self.first, self.count, self.total, self.randomize = first, count, total, randomize

    @property
    def is_indexed(self) -> bool:
        return self.child.is_indexed

    def length(self) -> float:
        return self.count

    def size(self) -> float:
        return self.count

    def _places(self, run: Run) -> list[int]:
        """The numbers of the rows of this part."""
        places: Any = range(self.total)
        if self.randomize:
            places = Key(run.seed, DEAL, 0).generator().permutation(self.total).tolist()
        return list(places[self.first : self.first + self.count])

    def rows(self, run: Run, turn: int, indices: Iterable[int]) -> Iterator[Row]:
        return self.child.rows(run, 0, map(self._places(run).__getitem__, indices))

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        if self.is_indexed:
            return Dataset.stream(self, run, turn, start)
        members = set(self._places(run))
        chosen = (row for place, row in enumerate(self.child.stream(run, 0)) if place in members)
        return islice(chosen, start, None)


def split(dataset: Dataset, sizes: Sequence[Any], randomize: bool) -> list[Dataset]:
    """The parts of a dataset; see `Dataset.split`."""
    checks.flag("randomize", randomize)
    if not isinstance(sizes, (list, tuple)) or not sizes:
        raise wrong_type("sizes", sizes, "<class 'list'>")
    total = dataset.get_dataset_size()
    counts = _counts(sizes, total)
    firsts = [sum(counts[:place]) for place in range(len(counts))]
    return [PartDataset(dataset, first, n, total, randomize) for first, n in zip(firsts, counts, strict=True)]


def _counts(sizes: Sequence[Any], total: int) -> list[int]:
    if all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        counts = [checks.integer("Each of sizes", size, 1) for size in sizes]
        if sum(counts) != total:
            raise GraphRuntimeError(f"Sum of split sizes {sum(counts)} is not equal to dataset size {total}.")
        return counts
    if not all(isinstance(size, float) and 0 < size < 1 for size in sizes):
        raise GraphValueError(f"sizes are row counts, or fractions between 0 and 1, not {sizes!r}.")
    if not isclose(sum(sizes), 1):
        message = f"sizes is a list of float, but the percentages do not sum up to 1: {sizes}."
        raise GraphValueError(message)
    return _rounded(sizes, total)


def _rounded(fractions: Sequence[float], total: int) -> list[int]:
    """Row counts of fractions; what rounding leaves over or lacks goes to the first parts that can take it."""
    counts = [round(fraction * total) for fraction in fractions]
    rest = total - sum(counts)
    for place in range(len(counts)):
        if rest > 0 or (rest < 0 and counts[place] > -rest):
            counts[place] += rest
            rest = 0
    if rest or 0 in counts:
        raise GraphValueError(f"A split of {total} rows into {list(fractions)} has a part without rows.")
    return counts
