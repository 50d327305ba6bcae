"""Pipeline nodes that select, reorder, repeat, split or join rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, count, groupby, islice, tee
from math import inf, isclose
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.dataset import checks
from graphls.dataset.columns import Row
from graphls.dataset.pipeline.dataset import Dataset, node_of
from graphls.dataset.pipeline.node import Run
from graphls.dataset.randomness import Key


class SameRows(Dataset):
    """A node that `finish` computes from its child, row by row, with as many rows unless `counted` changes that."""

    def __init__(self, child: Dataset) -> None:
        super().__init__(child)
        self.child = child

    def finish(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows of this node."""
        return rows

    @property
    def is_indexed(self) -> bool:
        return self.child.is_indexed

    def counted(self, count: float) -> float:
        """The number of rows of this node, for that of its child."""
        return count

    def length(self) -> float:
        return self.counted(self.child.length())

    def size(self) -> float:
        return self.counted(self.child.size())

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        return self.finish(self.child.rows(run, epoch, indices))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        return self.finish(self.child.stream(run, epoch, start))


@node_of("rename")
class RenameDataset(SameRows):
    """See `Dataset.rename`."""

    def __init__(self, child: Dataset, input_columns: Sequence[str] | str, output_columns: Sequence[str] | str) -> None:
        super().__init__(child)
        old, new = checks.names("input_columns", input_columns), checks.names("output_columns", output_columns)
        if len(old) != len(new):
            raise GraphValueError(
                f"rename takes as many output_columns as input_columns, not {len(new)} for {len(old)}."
            )
        self.need(old, "rename")
        renamed = dict(zip(old, new, strict=True))
        self.columns = checks.names("The columns after rename", tuple(renamed.get(name, name) for name in self.columns))


@node_of("project")
class ProjectDataset(SameRows):
    """See `Dataset.project`."""

    def __init__(self, child: Dataset, columns: Sequence[str] | str) -> None:
        super().__init__(child)
        names = checks.names("columns", columns)
        self.positions = self.need(names, "project")
        self.columns = names

    def finish(self, rows: Iterator[Row]) -> Iterator[Row]:
        positions = self.positions
        return (tuple([row[i] for i in positions]) for row in rows)


ROUNDS = 2**32
"""The number of repetitions of an endless dataset with epochs of their own before the next pass over it."""


@node_of("shuffle")
class ShuffleDataset(SameRows):
    """See `Dataset.shuffle`; indexed rows are read in the new order directly, without waiting in the buffer."""

    def __init__(self, child: Dataset, buffer_size: int) -> None:
        super().__init__(child)
        self.buffer_size = checks.integer("buffer_size", buffer_size, 2)

    @property
    def is_indexed(self) -> bool:
        return self.child.is_indexed and self.child.length() < inf

    def order(self, draws: np.random.Generator) -> list[int]:
        return list(_shuffled(range(int(self.length())), self.buffer_size, draws))

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        return self.child.rows(run, epoch, map(run.order(self, epoch).__getitem__, indices))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        shuffled = _shuffled(self.child.stream(run, epoch), self.buffer_size, run.draws(self, epoch))
        return islice(shuffled, start, None)


def _shuffled(items: Iterable[Any], size: int, draws: np.random.Generator) -> Iterator[Any]:
    source = iter(items)
    buffer = list(islice(source, size))
    slots = _random_positions(size, draws)
    for item in source:
        slot = next(slots)
        yield buffer[slot]
        buffer[slot] = item
    for i in draws.permutation(len(buffer)).tolist():
        yield buffer[i]


def _random_positions(size: int, draws: np.random.Generator, block: int = 256) -> Iterator[int]:
    while True:
        yield from draws.integers(size, size=block).tolist()


@node_of("repeat")
class RepeatDataset(SameRows):
    """See `Dataset.repeat`."""

    def __init__(self, child: Dataset, count: int | None = None) -> None:
        super().__init__(child)
        endless = count is None or checks.integer("count", count) == -1
        self.count: float = inf if endless else checks.integer("count", count, 1)

    def counted(self, count: float) -> float:
        return count * self.count if count else 0

    def get_repeat_count(self) -> int:
        return self.child.get_repeat_count() * (1 if self.count == inf else int(self.count))

    def _epoch(self, epoch: int, round: int) -> int:
        """The epoch of the child in a repetition within a pass over this node."""
        return epoch * (ROUNDS if self.count == inf else int(self.count)) + round

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        length = int(self.child.length())
        for round, members in groupby(indices, lambda index: index // length):
            yield from self.child.rows(run, self._epoch(epoch, round), (index % length for index in members))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        return islice(self._rounds(run, epoch), start, None)

    def _rounds(self, run: Run, epoch: int) -> Iterator[Row]:
        for round in count() if self.count == inf else range(int(self.count)):
            is_empty = True
            for row in self.child.stream(run, self._epoch(epoch, round)):
                is_empty = False
                yield row
            if is_empty and self.count == inf:
                return


@node_of("skip")
class SkipDataset(SameRows):
    """See `Dataset.skip`."""

    def __init__(self, child: Dataset, count: int) -> None:
        super().__init__(child)
        self.count = checks.integer("count", count, 0)

    def counted(self, count: float) -> float:
        return max(count - self.count, 0)

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        return self.child.rows(run, epoch, (index + self.count for index in indices))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        return self.child.stream(run, epoch, start + self.count)


@node_of("take")
class TakeDataset(SameRows):
    """See `Dataset.take`."""

    def __init__(self, child: Dataset, count: int = -1) -> None:
        super().__init__(child)
        self.count: float = inf if checks.integer("count", count) == -1 else checks.integer("count", count, 1)

    def counted(self, count: float) -> float:
        return min(count, self.count)

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        rows = self.child.stream(run, epoch, start)
        return rows if self.count == inf else islice(rows, max(int(self.count) - start, 0))


DEAL = 2**32 - 1
"""The index of the node that distributes rows: the same for every pipeline that reads a part."""


class PartDataset(SameRows):
    """The rows of a dataset from `first` on, `count` of them, in random order or not.

    Every pass has the same rows in the order of the first pass over the dataset, so that parts never share a row.
    """

    def __init__(self, child: Dataset, first: int, count: int, total: int, randomize: bool) -> None:
        super().__init__(child)
        self.first, self.count, self.total, self.randomize = first, count, total, randomize

    def length(self) -> float:
        return self.count

    def size(self) -> float:
        return self.count

    def _indices(self, run: Run) -> list[int]:
        """The indices of the rows of this part."""
        indices: Any = range(self.total)
        if self.randomize:
            indices = Key(run.seed, DEAL, 0).generator().permutation(self.total).tolist()
        return list(indices[self.first : self.first + self.count])

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        return self.child.rows(run, 0, map(self._indices(run).__getitem__, indices))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        members = set(self._indices(run))
        chosen = (row for i, row in enumerate(self.child.stream(run, 0)) if i in members)
        return islice(chosen, start, None)


@node_of("split")
def split(dataset: Dataset, sizes: Sequence[float], randomize: bool) -> list[Dataset]:
    """The parts of a dataset; see `Dataset.split`."""
    checks.boolean("randomize", randomize)
    if not isinstance(sizes, (list, tuple)):
        raise checks.type_error("sizes", sizes, [list])
    if not sizes:
        raise GraphValueError("sizes cannot be empty.")
    total = dataset.get_dataset_size()
    counts = _counts(sizes, total)
    firsts = [sum(counts[:i]) for i in range(len(counts))]
    return [PartDataset(dataset, first, n, total, randomize) for first, n in zip(firsts, counts, strict=True)]


def _counts(sizes: Sequence[float], total: int) -> list[int]:
    if all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        counts = [checks.integer("Each of sizes", size, 1) for size in sizes]
        if sum(counts) != total:
            raise GraphRuntimeError(f"Sum of split sizes {sum(counts)} is not equal to dataset size {total}.")
        return counts
    if not all(isinstance(size, float) and 0 < size < 1 for size in sizes):
        raise GraphValueError(f"sizes are row counts, or fractions between 0 and 1, not {sizes!r}.")
    if not isclose(sum(sizes), 1):
        raise GraphValueError(f"sizes is a list of float, but the percentages do not sum up to 1: {sizes}.")
    return _rounded(sizes, total)


def _rounded(fractions: Sequence[float], total: int) -> list[int]:
    """Row counts of fractions; the rounding error goes to the first parts that can take it."""
    counts = [round(fraction * total) for fraction in fractions]
    rest = total - sum(counts)
    for i in range(len(counts)):
        if rest > 0 or (rest < 0 and counts[i] > -rest):
            counts[i] += rest
            rest = 0
    if rest or 0 in counts:
        raise GraphRuntimeError(f"A split of {total} rows into {list(fractions)} has a part without rows.")
    return counts


class Joined(Dataset):
    """A node of several children; `what` is its name in errors."""

    what: ClassVar[str]

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        for dataset in datasets:
            checks.instance(f"datasets of {self.what}", dataset, Dataset, "a dataset")
        super().__init__(*datasets)

    @property
    def is_indexed(self) -> bool:
        return all(child.is_indexed for child in self.children)


@node_of("zip")
class ZipDataset(Joined):
    """See `Dataset.zip`."""

    what = "zip"

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        super().__init__(datasets)
        self.columns = checks.names("The columns of zip", tuple(chain(*(child.columns for child in datasets))))

    def length(self) -> float:
        return min(child.length() for child in self.children)

    def size(self) -> float:
        return min(child.size() for child in self.children)

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        copies = tee(indices, len(self.children))
        pairs = zip(self.children, copies, strict=True)
        return _side_by_side(child.rows(run, epoch, copy) for child, copy in pairs)

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        return _side_by_side(child.stream(run, epoch, start) for child in self.children)


def _side_by_side(streams: Iterable[Iterator[Row]]) -> Iterator[Row]:
    return (tuple(chain(*rows)) for rows in zip(*streams, strict=False))


@node_of("concat")
class ConcatDataset(Joined):
    """See `Dataset.concat`."""

    what = "concat"

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        super().__init__(datasets)
        for child in self.children:
            if child.columns != self.columns:
                raise GraphValueError(
                    f"concat takes datasets of the same columns, not {list(self.columns)} and {list(child.columns)}.",
                )

    def length(self) -> float:
        return sum(child.length() for child in self.children)

    def size(self) -> float:
        return sum(child.size() for child in self.children)

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        ends = list(accumulate(child.length() for child in self.children))
        for part, members in groupby(indices, lambda index: sum(index >= end for end in ends)):
            offset = int(ends[part - 1]) if part else 0
            yield from self.children[part].rows(run, epoch, (index - offset for index in members))

    def stream(self, run: Run, epoch: int, start: int = 0) -> Iterator[Row]:
        for child in self.children:
            if child.is_indexed:
                if start < child.length():
                    yield from child.stream(run, epoch, start)
                start = int(max(start - child.length(), 0))
            else:
                for row in child.stream(run, epoch):
                    if start == 0:
                        yield row
                    start = max(start - 1, 0)
