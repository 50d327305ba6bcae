"""Nodes that give the rows below them in another order, more often, or fewer of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, groupby, islice
from math import inf
from typing import Any

import numpy as np

from graphls.dataset import checks
from graphls.dataset.columns import SameRows
from graphls.dataset.dataset import Dataset
from graphls.dataset.run import Run
from graphls.dataset.values import Row

ROUNDS = 2**32
"""How many rounds of a dataset that repeats for ever have turns of their own before the next pass over it."""


class ShuffleDataset(SameRows):
    """See `Dataset.shuffle`; rows below it that are indexed are made in the new order, and none waits in the buffer."""

    def __init__(self, child: Dataset, buffer_size: int) -> None:
        super().__init__(child)
        self.buffer_size = checks.integer("buffer_size", buffer_size, 2)

    @property
    def is_indexed(self) -> bool:
        return self.child.is_indexed and self.child.length() < inf

    def order(self, draws: np.random.Generator) -> list[int]:
        return list(_shuffled(range(int(self.length())), self.buffer_size, draws))

    def rows(self, run: Run, turn: int, indices: Iterable[int]) -> Iterator[Row]:
        return self.child.rows(run, turn, map(run.order(self, turn).__getitem__, indices))

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        if self.is_indexed:
            return Dataset.stream(self, run, turn, start)
        shuffled = _shuffled(self.child.stream(run, turn), self.buffer_size, run.draws(self, turn))
        return islice(shuffled, start, None)


def _shuffled(items: Iterable[Any], size: int, draws: np.random.Generator) -> Iterator[Any]:
    source = iter(items)
    buffer = list(islice(source, size))
    slots = _slots(size, draws)
    for item in source:
        slot = next(slots)
        yield buffer[slot]
        buffer[slot] = item
    for place in draws.permutation(len(buffer)).tolist():
        yield buffer[place]


def _slots(size: int, draws: np.random.Generator, block: int = 256) -> Iterator[int]:
    while True:
        yield from draws.integers(size, size=block).tolist()


class RepeatDataset(Dataset):
    """See `Dataset.repeat`."""

    def __init__(self, child: Dataset, count: int | None = None) -> None:
        super().__init__(child)
        self.child = child
        endless = count is None or count == -1
        self.count: float = inf if endless else checks.integer("count", count, 1)

    @property
    def is_indexed(self) -> bool:
        return self.child.is_indexed

    def length(self) -> float:
        length = self.child.length()
        return length * self.count if length else 0

    def size(self) -> float:
        size = self.child.size()
        return size * self.count if size else 0

    def get_repeat_count(self) -> int:
        return self.child.get_repeat_count() * (1 if self.count == inf else int(self.count))

    def _turn(self, turn: int, round: int) -> int:
        """The turn of the child in a round of a pass over this node."""
        return turn * (ROUNDS if self.count == inf else int(self.count)) + round

    def rows(self, run: Run, turn: int, indices: Iterable[int]) -> Iterator[Row]:
        length = int(self.child.length())
        for round, members in groupby(indices, lambda index: index // length):
            yield from self.child.rows(run, self._turn(turn, round), (index % length for index in members))

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        return super().stream(run, turn, start) if self.is_indexed else islice(self._rounds(run, turn), start, None)

    def _rounds(self, run: Run, turn: int) -> Iterator[Row]:
        for round in count() if self.count == inf else range(int(self.count)):
            is_empty = True
            for row in self.child.stream(run, self._turn(turn, round)):
                is_empty = False
                yield row
            if is_empty and self.count == inf:
                return


class SkipDataset(SameRows):
    """See `Dataset.skip`."""

    def __init__(self, child: Dataset, count: int) -> None:
        super().__init__(child)
        self.count = checks.integer("count", count, 0)

    def length(self) -> float:
        return max(super().length() - self.count, 0)

    def size(self) -> float:
        return max(super().size() - self.count, 0)

    def rows(self, run: Run, turn: int, indices: Iterable[int]) -> Iterator[Row]:
        return self.child.rows(run, turn, (index + self.count for index in indices))

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        return self.child.stream(run, turn, start + self.count)


class TakeDataset(SameRows):
    """See `Dataset.take`."""

    def __init__(self, child: Dataset, count: int = -1) -> None:
        super().__init__(child)
        self.count: float = inf if count == -1 else checks.integer("count", count, 1)

    def length(self) -> float:
        return min(super().length(), self.count)

    def size(self) -> float:
        return min(super().size(), self.count)

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        if self.is_indexed:
            return Dataset.stream(self, run, turn, start)  # which asks for no row that it does not give
        rows = self.child.stream(run, turn, start)
        return rows if self.count == inf else islice(rows, max(int(self.count) - start, 0))
