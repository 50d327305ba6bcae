"""Cells as a tree, in text and in HTML: what each is, with the shapes and numbers of its parameters.

The text is that of MindSpore with remarks behind `#`; only cells that hold others and were shown before are not again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphls.nn.cell_settings import Settings
from graphls.tensors.parameter import Parameter, ParameterTuple
from graphls.text.html import Page
from graphls.text.plain import shown

MOST_LISTED = 4
"""Parameters of a tuple whose types are shown one by one."""


@dataclass
class Branch:
    """A cell in a tree: its name, its class and settings, and the cells directly inside.

    `own` says what parameters it has itself. `count` is how many elements its parameters and those of all inside have,
    as far as no branch before has them, and `trainable` how many of them require a gradient. `first` is the path of the
    same cell where it stood before, None where it stands first.
    """

    name: str
    text: str
    own: list[str] = field(default_factory=list)
    count: int = 0
    trainable: int = 0
    first: str | None = None
    inner: list[Branch] = field(default_factory=list)

    def remark(self, is_root: bool = False) -> str:
        """What is to be said of its parameters, empty if there is nothing."""
        if self.first is not None:
            return f"the same cell as {self.first or 'the whole'}"
        trainable = "all" if self.trainable == self.count else f"{self.trainable:,}"
        noun = "parameter" if self.count == 1 else "parameters"
        count = f"{self.count:,} {noun}{f', {trainable} trainable' if is_root else ''}" if self.count else ""
        return ": ".join(filter(None, (count, ", ".join(self.own))))


class Shown(Settings):
    """What a cell shows of itself, as text and in a notebook."""

    _cells: dict[str, Any]
    _params: dict[str, Parameter | ParameterTuple]

    def __repr__(self) -> str:
        return tree_text(self)

    def _repr_html_(self) -> str:
        return tree_html(self)

    def extend_repr(self) -> str:
        """What `repr` shows of the cell itself."""
        return ""


class Tree:
    """Makes branches of cells, each parameter counted once.

    It counts in the first cell that has it as an attribute, or else in the first one that has it in a tuple.
    """

    def __init__(self, root: Shown) -> None:
        parts = (part for _, cell in root.cells_and_names() for part in cell._params.values())
        self.attributes = {id(part) for part in parts if isinstance(part, Parameter)}
        self.cells: dict[int, str] = {}
        self.parameters: dict[int, str] = {}

    def branch(self, cell: Shown, name: str = "", path: str = "", is_root: bool = False) -> Branch:
        """The branch of a cell with a name, at a path; a class other than that of the root may say its own text."""
        branch = Branch(shown(name), "", first=self.cells.get(id(cell)))
        self.cells.setdefault(id(cell), path)
        if not is_root and type(cell).__repr__ is not Shown.__repr__:
            branch.text = repr(cell)
            for at, parameter in cell.parameters_and_names():
                self._count(branch, parameter, _joined(path, at))
            return branch
        dots = "..." if cell._cells and branch.first is not None else ""
        branch.text = f"{shown(type(cell).__name__)}({', '.join(filter(None, (cell.extend_repr(), dots)))})"
        if branch.first is None:
            branch.own = list(self._own(cell, branch, path))
            branch.inner = [self.branch(child, key, _joined(path, key)) for key, child in cell._cells.items()]
            branch.count += sum(inner.count for inner in branch.inner)
            branch.trainable += sum(inner.trainable for inner in branch.inner)
        return branch

    def _own(self, cell: Shown, branch: Branch, path: str) -> Iterator[str]:
        """Count the parameters of a cell itself, and say what they are: one by one, or how many are in a tuple."""
        for name, part in cell._params.items():
            if isinstance(part, ParameterTuple):
                others = [p for p in part if id(p) in self.attributes or self._count(branch, p, _joined(path, p.name))]
                yield f"{shown(name)} {_listed(part)}{_elsewhere(len(others), len(part))}"
            elif isinstance(part, Parameter):
                before = self._count(branch, part, _joined(path, name))
                yield f"{shown(name)} {part.type}" + (f" (counted at {before})" if before is not None else "")

    def _count(self, branch: Branch, parameter: Parameter, path: str) -> str | None:
        """Count a parameter for a branch; where it has been counted before, the path that it has there."""
        before = self.parameters.get(id(parameter))
        if before is None:
            self.parameters[id(parameter)] = path
            branch.count += parameter.size
            branch.trainable += parameter.size if parameter.requires_grad else 0
        return before


def _listed(parameters: ParameterTuple) -> str:
    """The types of a few parameters, or how many they are."""
    if len(parameters) <= MOST_LISTED:
        return f"({', '.join(str(p.type) for p in parameters)})"
    return f"of {len(parameters)} tensors"


def _elsewhere(others: int, count: int) -> str:
    if not others:
        return ""
    return f" ({'' if others == count else f'{others} of them '}counted elsewhere)"


def _joined(path: str, name: str) -> str:
    return f"{path}.{shown(name)}" if path else shown(name)


def tree_text(cell: Shown) -> str:
    """The tree of a cell: a line for each, and one that closes those with others inside."""
    return "\n".join(_lines(Tree(cell).branch(cell, is_root=True), is_root=True))


def _lines(branch: Branch, is_root: bool = False) -> Iterator[str]:
    remark = branch.remark(is_root)
    remark = f"  # {remark}" if remark else ""
    named = branch.text if is_root else f"({branch.name}): {branch.text}"
    if not branch.inner:
        yield from f"{named}{remark}".split("\n")
        return
    yield from f"{named[:-1]}{remark}".split("\n")
    for inner in branch.inner:
        yield from (f"  {line}" for line in _lines(inner))
    yield ")"


def tree_html(cell: Shown) -> str:
    """The tree of a cell as a table."""
    root = Tree(cell).branch(cell, is_root=True)
    page = Page("Cell", f"{shown(type(cell).__name__)}: {root.remark(is_root=True) or 'no parameters'}")
    page.table(("cell", "tensors", "parameters"), _rows(root, 0), left=2)
    return page.text()


def _rows(branch: Branch, depth: int) -> Iterator[tuple[str, str, str]]:
    name = f"({branch.name}): " if depth else ""
    tensors = ", ".join(branch.own) if branch.first is None else branch.remark()
    label = f"{name}{shown(branch.text)}"
    yield f"{'  ' * depth}{label}", tensors, f"{branch.count:,}" if branch.count else "-"
    for inner in branch.inner:
        yield from _rows(inner, depth + 1)
