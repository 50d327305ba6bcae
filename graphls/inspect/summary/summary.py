"""The result of `step.summary()`, as an object, as text and as HTML."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphls.base.errors import GraphKeyError
from graphls.base.text.html import Page
from graphls.base.text.plain import short, shown, size
from graphls.base.text.tables import Table
from graphls.ir.registry import nearest
from graphls.ir.types import Type

WIDTH = 100
"""Columns of the text where there is no terminal."""

LEGEND = (
    "FLOPs: floating point operations of the forward, two for a product with a sum.",
    "made: memory of the values that the forward makes; kept: of those that the backward reads.",
)


@dataclass(frozen=True)
class CellSummary:
    """A cell that ran, with all cells inside of it.

    `path` are the names that lead to it, `name` the last of them and `kind` its class; `depth` counts cells around
    it. `outputs` are the types of the results of its first call, `varies` says whether a later call has others, and
    `calls` is the number of its runs in a step, in a scan one for each iteration. `parameters` is the number of
    elements of the parameters that it uses, each parameter once: those that its forward reads, and of those that only
    its backward reads the trainable ones. `trainable` are those that require a gradient. `flops` are the floating point
    operations of its forward, `made` the bytes of the values that this computes and `kept` those of them that the
    backward reads.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> first, *_ = graphls.compile(nn.Dense(3, 4), np.ones((2, 3), np.float32)).summary().cells
        >>> first.kind, first.parameters, [str(kind) for kind in first.outputs]
        ('', 16, ['f32[2,4]'])
    """

    path: str
    name: str
    kind: str
    depth: int
    outputs: tuple[Type, ...]
    varies: bool
    calls: int
    parameters: int
    trainable: int
    flops: int
    made: int
    kept: int

    @property
    def label(self) -> str:
        """The name and the class in one text, without characters that would move its neighbours."""
        return " ".join(filter(None, (shown(self.name), shown(self.kind))))

    @property
    def row(self) -> tuple[str, ...]:
        """The columns of the table behind the label."""
        outputs = ", ".join(map(str, self.outputs)) + (" …" if self.varies else "") or "-"
        calls = f"x{self.calls}" if self.calls > 1 else ""
        parameters = f"{self.parameters:,}" if self.parameters else "-"
        flops = short(self.flops) if self.flops else "-"
        return shown(outputs), calls, parameters, flops, *(size(n) if n else "-" for n in (self.made, self.kept))


@dataclass(frozen=True)
class PhaseSummary:
    """The nodes of one phase: their number, their operations, and the bytes of the values that they compute.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> (forward,) = graphls.compile(nn.Dense(3, 4), np.ones((2, 3), np.float32)).summary().phases
        >>> forward.phase, forward.flops
        ('forward', 56)
    """

    phase: str
    nodes: int
    flops: int
    made: int


@dataclass(frozen=True)
class Summary(Sequence[CellSummary]):
    """The cells of a compiled step, each before those inside of it, and the phases of the step.

    All numbers but `calls` and `outputs` are those of the final graph, after all passes. Operations are those that
    primitives declare (`Primitive.flops`). A scan counts each iteration, a `while_loop` one, and a condition its dearer
    branch. Memory counts every value in its dtype, not those that are alive at once; a reshaped value shares the memory
    of the value itself, and constants take none. `other_states` are the elements of states that are none of these
    parameters, such as moments and counters. `notes` are sentences on the choice of the engine, and
    on operators that do not run on the device.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> net = nn.SequentialCell(nn.Dense(3, 4), nn.ReLU())
        >>> summary = graphls.compile(net, np.ones((2, 3), np.float32)).summary()
        >>> summary.parameter_bytes, [cell.kind for cell in summary.cells]
        (64, ['', 'Dense', 'ReLU'])
    """

    name: str
    cells: tuple[CellSummary, ...]
    phases: tuple[PhaseSummary, ...]
    parameter_bytes: int
    other_states: int
    other_bytes: int
    notes: tuple[str, ...] = ()

    def __getitem__(self, index: int | slice | str) -> Any:
        """A cell by its position, or by its path; raises GraphKeyError for a path that no cell has."""
        if not isinstance(index, str):
            return self.cells[index]
        cell = next((cell for cell in self.cells if cell.path == index), None)
        if cell is None:
            near = nearest(index, (cell.path for cell in self.cells))
            raise GraphKeyError(f"No cell {index!r} has run{near}.")
        return cell

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def flops(self) -> int:
        """The floating point operations of the step."""
        return sum(phase.flops for phase in self.phases)

    @property
    def totals(self) -> tuple[str, ...]:
        """Sentences on the states of the step."""
        root = self.cells[0]
        trainable = "all" if root.trainable == root.parameters else f"{root.trainable:,}"
        parameters = f"Parameters: {root.parameters:,} in {size(self.parameter_bytes)}, {trainable} of them trainable."
        others = f"Other states of the step: {self.other_states:,} in {size(self.other_bytes)}."
        return (parameters, *((others,) if self.other_states else ()), *self.notes)

    def text(self, width: int = WIDTH) -> str:
        """The tables in so many columns of a terminal; names and types that are too long are cut."""
        cells, phases = self._tables(most_indentation=width // 5)
        return "\n".join([*cells.lines(width), "", *phases.lines(width), "", *self.totals, *LEGEND])

    def __str__(self) -> str:
        return self.text(shutil.get_terminal_size((WIDTH, 24)).columns)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = Page("Summary", f"{shown(self.name)}: {short(self.flops)} floating point operations in a step")
        self.add_to(page)
        return page.text()

    def add_to(self, page: Page) -> None:
        """Show the tables on a page of HTML."""
        for table in self._tables():
            table.add_to(page)
        page.notes((*self.totals, *LEGEND))

    def _tables(self, most_indentation: int = 1000) -> tuple[Table, Table]:
        """The tables of cells and of phases; a label is two columns further right for each cell around it."""
        rows = [(" " * min(2 * cell.depth, most_indentation) + cell.label, *cell.row) for cell in self.cells]
        header, *rest = _without_calls(self, [_HEADER, *rows])
        return Table(header, rest, texts=2), Table(_PHASE_HEADER, phase_rows(self))


_PHASE_HEADER = ("phase", "nodes", "FLOPs", "share", "made")
_HEADER = ("cell", "output", "calls", "parameters", "FLOPs", "made", "kept")
_CALLS = _HEADER.index("calls")


def _without_calls(of: Summary, rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows without the column of calls where every cell runs once."""
    if any(cell.calls > 1 for cell in of.cells):
        return list(rows)
    return [[*row[:_CALLS], *row[_CALLS + 1 :]] for row in rows]


def phase_rows(of: Summary) -> list[tuple[str, ...]]:
    """The rows of the phases, and of the step."""
    total = PhaseSummary("step", *(sum(getattr(p, name) for p in of.phases) for name in ("nodes", "flops", "made")))
    return [
        (p.phase, f"{p.nodes:,}", short(p.flops), f"{p.flops / max(total.flops, 1):.1%}", size(p.made))
        for p in (*of.phases, total)
    ]
