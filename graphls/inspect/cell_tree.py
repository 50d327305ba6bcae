"""The tree of the cells of a graph, which summaries and profiles share: a row for each cell by its path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

Row = TypeVar("Row")

DEEPEST = 32
"""The most names of a path; cells further inside are counted as one, named by the rest of the path."""


@dataclass(frozen=True)
class CellEntry(Generic[Row]):
    """A cell of the tree: its path, its name inside of the cell around it, its depth, and its row."""

    path: str
    name: str
    depth: int
    row: Row


class CellTree(Generic[Row]):
    """Rows of cells by their paths; a cell is inside of the cell with the longest path that its own begins with."""

    def __init__(self, root: Row) -> None:
        self.rows = {"": root}

    def owner(self, path: str) -> str:
        """The path of the innermost cell of the tree that a path names or lies in."""
        while path not in self.rows:
            path = path.rpartition(".")[0]
        return path

    def around(self, path: str) -> Iterator[Row]:
        """The rows of the innermost cell of a path, and of all cells around that."""
        path = self.owner(path)
        yield self.rows[path]
        while path:
            path = self.owner(path.rpartition(".")[0])
            yield self.rows[path]

    def walk(self) -> Iterator[CellEntry[Row]]:
        """All cells, each before those inside of it, which keep the order in which they were added."""
        inner: dict[str, list[CellEntry[Row]]] = {path: [] for path in self.rows}
        for path, row in self.rows.items():
            if path:
                parent = self.owner(path.rpartition(".")[0])
                inner[parent].append(CellEntry(path, path[len(parent) + 1 :] if parent else path, 0, row))
        waiting = [CellEntry("", "", 0, self.rows[""])]
        while waiting:
            entry = waiting.pop()
            yield entry
            waiting.extend(replace(each, depth=entry.depth + 1) for each in reversed(inner[entry.path]))


def cell_names(scope: str) -> list[str]:
    """The names of the cells along a path."""
    return scope.split(".", DEEPEST - 1) if scope else []
