"""Nodes of several children: side by side, and one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby, tee
from typing import ClassVar

from graphls.dataset import checks
from graphls.dataset.columns import Row
from graphls.dataset.pipeline.dataset import Dataset
from graphls.dataset.pipeline.operations import made_by
from graphls.dataset.pipeline.run import Run
from graphls.ir.errors import GraphTypeError, GraphValueError


class Joined(Dataset):
    """A node of several children; `what` names it in errors."""

    what: ClassVar[str]

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        for dataset in datasets:
            if not isinstance(dataset, Dataset):
                raise GraphTypeError(f"{self.what} takes datasets, not {type(dataset).__name__}.")
        super().__init__(*datasets)

    @property
    def is_indexed(self) -> bool:
        return all(child.is_indexed for child in self.children)


@made_by("zip")
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

    def stream(self, run: Run, epoch: int, start: int = 0) -> Iterator[Row]:
        if self.is_indexed:
            return super().stream(run, epoch, start)
        return _side_by_side(child.stream(run, epoch, start) for child in self.children)


def _side_by_side(streams: Iterable[Iterator[Row]]) -> Iterator[Row]:
    return (tuple(chain(*rows)) for rows in zip(*streams, strict=False))


@made_by("concat")
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
        for place, members in groupby(indices, lambda index: sum(index >= end for end in ends)):
            offset = int(ends[place - 1]) if place else 0
            yield from self.children[place].rows(run, epoch, (index - offset for index in members))

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
