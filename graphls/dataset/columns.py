"""Nodes that rename columns and pick some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from graphls.dataset import checks
from graphls.dataset.dataset import Dataset
from graphls.dataset.run import Run
from graphls.dataset.values import Row
from graphls.ir.errors import GraphValueError


class SameRows(Dataset):
    """A node with as many rows as its child; which `finish` makes of those."""

    def __init__(self, child: Dataset) -> None:
        super().__init__(child)
        self.child = child

    def finish(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows of this node."""
        return rows

    @property
    def is_indexed(self) -> bool:
        return self.child.is_indexed

    def length(self) -> float:
        return self.child.length()

    def size(self) -> float:
        return self.child.size()

    def rows(self, run: Run, turn: int, indices: Iterable[int]) -> Iterator[Row]:
        return self.finish(self.child.rows(run, turn, indices))

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        return self.finish(self.child.stream(run, turn, start))


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
        given = dict(zip(old, new, strict=True))
        self.columns = checks.names("The columns after rename", tuple(given.get(name, name) for name in self.columns))


class ProjectDataset(SameRows):
    """See `Dataset.project`."""

    def __init__(self, child: Dataset, columns: Sequence[str] | str) -> None:
        super().__init__(child)
        wanted = checks.names("columns", columns)
        self.places = self.need(wanted, "project")
        self.columns = wanted

    def finish(self, rows: Iterator[Row]) -> Iterator[Row]:
        places = self.places
        return (tuple([row[place] for place in places]) for row in rows)
