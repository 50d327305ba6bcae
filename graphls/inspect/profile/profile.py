"""The result of `step.profile`, as an object, as text, as HTML and as a trace, with the largest rows first."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from pathlib import Path

from graphls.base.files.files import write_parts
from graphls.base.text.charts import bars
from graphls.base.text.colours import both
from graphls.base.text.html import Page
from graphls.base.text.plain import size
from graphls.base.text.tables import Table
from graphls.inspect.profile.memory import Held, Memory
from graphls.inspect.profile.shares import (
    CellTime,
    CollectiveTime,
    Cost,
    Costs,
    NodeTime,
    PhaseTime,
    PrimitiveTime,
    SegmentTime,
    by_segment,
)
from graphls.inspect.profile.texts import count, line_of, milliseconds, name_of, name_text, percent
from graphls.inspect.profile.trace import trace_parts
from graphls.inspect.summary.plan import StepPlan
from graphls.ir.graph import Graph, Node, walk
from graphls.ir.text import reference
from graphls.runtime.kernels import Kernel, Run


@dataclass(frozen=True, repr=False)
class Profile:
    """The time of the nodes of a step, and its memory.

    Times are in seconds, means over the steps that were recorded. `step_seconds` is the time of a step from the call to
    its outputs, under the profiler, and `unprofiled_seconds` without it. `backend` names the engines that ran,
    `requested` is the number of steps to record, `skipped` that of recorded steps that overflowed. `runs` has the
    kernels of each, and `memory` the bytes in use while each node runs. `plan` is `step.plan`, whose segments ran.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> step = graphls.compile(lambda x: x @ x, np.ones((8, 8), np.float32))
        >>> profile = step.profile(np.ones((8, 8), np.float32), steps=2)
        >>> profile.step_seconds > 0, [each.primitive for each in profile.by_primitive]
        (True, ['matmul'])
    """

    graph: Graph
    backend: str
    step_seconds: float
    unprofiled_seconds: float
    requested: int
    skipped: int
    runs: tuple[Run, ...]
    memory: Memory
    plan: StepPlan | None = None

    @property
    def steps(self) -> int:
        """The number of recorded steps: fewer than requested where the profile of ONNX Runtime was full."""
        return len(self.runs)

    @cached_property
    def node_seconds(self) -> dict[Node, float]:
        """The time of each node per step, of those in regions too; a node with regions has its own, without theirs."""
        times: dict[Node, list[float]] = {node: [] for node in walk(self.graph)}
        for kernel in self._kernels():
            if kernel.node is not None:
                times[kernel.node].append(kernel.own_seconds)
        return {node: fsum(seconds) / self.steps for node, seconds in times.items()}

    @property
    def other_seconds(self) -> float:
        """The time of a step outside of nodes: the call, and binding of inputs and outputs, without the profiler."""
        return self._in_no_node - self.profiler_seconds

    @property
    def profiler_seconds(self) -> float:
        """The time of the profiler itself in a step: the time that it adds, as far as that is outside of nodes."""
        return min(max(self.step_seconds - self.unprofiled_seconds, 0.0), max(self._in_no_node, 0.0))

    @property
    def counted_seconds(self) -> float:
        """The time of a step that the shares of nodes refer to: that under the profiler less the profiler's own."""
        return self.step_seconds - self.profiler_seconds

    @property
    def _in_no_node(self) -> float:
        return self.step_seconds + self.hidden_seconds - fsum(self.node_seconds.values())

    @property
    def hidden_seconds(self) -> float:
        """The time in which a step communicates and computes at once."""
        return fsum(row.hidden for row in self.by_segment)

    @property
    def peak(self) -> int:
        """The largest memory of a step in bytes, states included."""
        return self.memory.peak

    @property
    def live(self) -> tuple[Held, ...]:
        """The values that are alive where memory is largest, the largest first."""
        return self.memory.live

    @property
    def by_primitive(self) -> tuple[PrimitiveTime, ...]:
        """The time of each primitive, the longest first."""
        return self._costs.by_primitive()

    @property
    def by_cell(self) -> tuple[CellTime, ...]:
        """The time of each cell with those inside it: the tree of cells, from the step down."""
        return self._costs.by_cell()

    @property
    def by_phase(self) -> tuple[PhaseTime, ...]:
        """The time of forward, backward, check and update."""
        return self._costs.by_phase()

    @property
    def by_node(self) -> tuple[NodeTime, ...]:
        """The time of each node, the longest first."""
        return self._costs.by_node()

    @property
    def by_collective(self) -> tuple[CollectiveTime, ...]:
        """The time of each collective, its bytes, and how long the step waits for it, in program order."""
        rows = {row.segment.number: row for row in self.by_segment}
        segments = {kernel.node: rows[kernel.segment] for kernel in self._kernels() if kernel.segment in rows}
        return self._costs.by_collective({node: row for node, row in segments.items() if node is not None})

    @property
    def by_segment(self) -> tuple[SegmentTime, ...]:
        """The time of each segment of a plan of several, in their order; none for a step in one piece."""
        return by_segment(self._segmented_plan.segments, self.runs, self.step_seconds) if self._segmented_plan else ()

    @property
    def between_seconds(self) -> float:
        """The time of a step outside of the segments of a plan of several; 0 for a step in one piece."""
        rows = self.by_segment
        return self.step_seconds - fsum(row.seconds - row.hidden for row in rows) if rows else 0.0

    def engine_of(self, kernel: Kernel) -> str:
        """The name of the engine that a kernel ran on."""
        return self.plan.segments[kernel.segment].engine if self.plan else ""

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the steps as a file of Chrome's trace format, which chrome://tracing and Perfetto open.

        It has tracks for steps, phases, cells and kernels, for a plan of several segments also one for these, with
        arrows for values that cross between them, and as many complete steps as have 100,000 kernels, at least one.
        Raises GraphFileError where the file cannot be written.
        """
        write_parts(Path(path), trace_parts(self.graph.name, self.runs, self._segmented_plan))

    @property
    def _segmented_plan(self) -> StepPlan | None:
        """The plan, where it has more than one segment."""
        return self.plan if self.plan and len(self.plan.segments) > 1 else None

    @cached_property
    def _costs(self) -> Costs:
        calls = Counter(kernel.node for kernel in self._kernels())
        kernels = {node: calls[node] / self.steps for node in self.node_seconds}
        return Costs(kernels, self.node_seconds, self.counted_seconds)

    def _kernels(self) -> list[Kernel]:
        return [kernel for run in self.runs for kernel in run.kernels]

    def __str__(self) -> str:
        return "\n\n".join([headline(self), *("\n".join(table.lines()) for table in tables(self))])

    def __repr__(self) -> str:
        return f"<Profile of @{self.graph.name}: {1000 * self.step_seconds:.3f} ms per step>"

    def plot(self) -> str:
        """A picture of the time of each phase, as the text of an SVG element."""
        rows = [(r.phase, r.seconds, f"{milliseconds(r.seconds)} ms", both(r.phase)) for r in self.by_phase]
        return bars("Milliseconds per step by phase", rows)

    def _repr_html_(self) -> str:
        page = Page("Profile", headline(self))
        for table in tables(self):
            table.add_to(page)
        return page.text()


MOST_ROWS = 12
SHORT = 1e-3
"""Seconds of a step below which the time of the profiler dominates that of kernels."""
MOST_CELLS = 30
COST = ("kernels", "ms per step", "share")


def headline(of: Profile) -> str:
    """The profile in a few sentences."""
    return " ".join(_sentences(of))


def _sentences(of: Profile) -> Iterator[str]:
    nodes = fsum(of.node_seconds.values())
    yield (
        f"A step takes {milliseconds(of.unprofiled_seconds)} ms, and {milliseconds(of.step_seconds)} ms under the "
        f"profiler ({of.backend}, mean of {of.steps} steps)."
    )
    yield (
        f"{milliseconds(nodes)} ms are in nodes; {milliseconds(of.other_seconds)} ms are not: the call, and "
        f"binding of inputs and outputs. The profiler itself takes {milliseconds(of.profiler_seconds)} ms, in no share."
    )
    if of.unprofiled_seconds < SHORT:
        yield (
            "In a step of less than 1 ms the profiler's own time for every kernel dominates: "
            "shares are the profiler's."
        )
    if of.by_segment:
        yield f"{milliseconds(of.between_seconds)} ms under the profiler are between the segments of the plan."
    if of.by_collective:
        total, waited = (fsum(getattr(row, name) for row in of.by_collective) for name in ("seconds", "waited"))
        share = percent(1 - waited / total if total else 0.0)
        yield f"Ranks communicate for {milliseconds(total)} ms, {share} of it while they compute."
    if of.skipped:
        yield f"{of.skipped} of {of.steps} steps overflowed and were skipped."
    if of.steps < of.requested:
        yield f"The profile of ONNX Runtime was full after {of.steps} of {of.requested} steps."
    if "cuda" in of.backend:
        yield "Kernels run on the device while the host goes on: their times are those of starting them."


def tables(of: Profile) -> list[Table]:
    """The tables, in the order in which they are shown."""
    segments = [_segments(of)] if of.by_segment else []
    together = [_collectives(of)] if of.by_collective else []
    return [*segments, *together, _phases(of), _cells(of), _primitives(of), _nodes(of), _memory(of)]


def _cost(cost: Cost) -> tuple[str, ...]:
    return count(cost.kernels), milliseconds(cost.seconds), percent(cost.share)


def _segments(of: Profile) -> Table:
    header = ("segment", "engine", "phases", "ran", "reads", "gives", "in nodes ms", *COST)
    rows = [_segment(row, of.steps) for row in of.by_segment]
    between = of.between_seconds
    rest = ("(between them)", *[""] * 5, "-", "-", milliseconds(between), percent(between / of.step_seconds))
    return Table(header, (*rows, rest), texts=3)


def _segment(row: SegmentTime, steps: int) -> tuple[str, ...]:
    name, engine, phases, _, reads, gives, _ = row.segment.cells
    return (name, engine, phases, f"{row.ran} of {steps}", reads, gives, milliseconds(row.in_nodes), *_cost(row))


def _collectives(of: Profile) -> Table:
    rows = of.by_collective
    texts = [
        (name_of(row.node), row.node.primitive.name, line_of(row.node), size(row.bytes), *_cost(row))
        for row in rows[:MOST_ROWS]
    ]
    texts = [(*text, milliseconds(row.waited)) for text, row in zip(texts, rows, strict=False)]
    waited = milliseconds(sum(row.waited for row in rows[MOST_ROWS:]))
    rest = [(*row, waited) for row in _remaining_row(rows[MOST_ROWS:], 3)]
    return Table(("collective", "primitive", "line", "size", *COST, "waited ms"), (*texts, *rest), texts=3)


def _phases(of: Profile) -> Table:
    rows = [(row.phase, *_cost(row)) for row in of.by_phase]
    share = of.other_seconds / of.counted_seconds if of.counted_seconds else 0.0
    other = ("(in no node)", "-", milliseconds(of.other_seconds), percent(share))
    return Table(("phase", *COST), (*rows, other))


def _primitives(of: Profile) -> Table:
    rows = of.by_primitive
    top = tuple((row.primitive, str(row.nodes), *_cost(row)) for row in rows[:MOST_ROWS])
    return Table(("primitive", "nodes", *COST), top + _remaining_row(rows[MOST_ROWS:], 1))


def _remaining_row(rows: Sequence[Cost], blanks: int) -> tuple[tuple[str, ...], ...]:
    """One row for the rows that are not shown, with as many empty texts behind their number."""
    if not rows:
        return ()
    total = Cost(sum(r.kernels for r in rows), sum(r.seconds for r in rows), sum(r.share for r in rows))
    return ((f"({len(rows)} more)", *[""] * blanks, *_cost(total)),)


def _cells(of: Profile) -> Table:
    rows = _main_cells(of.by_cell)
    header = ("cell, with those inside", "forward ms", "backward ms", *COST)
    sentences = () if len(rows) == len(of.by_cell) else (f"The {len(rows)} longest of {len(of.by_cell)} cells:",)
    return Table(header, tuple(map(_cell, rows)), sentences=sentences)


def _main_cells(rows: tuple[CellTime, ...]) -> list[CellTime]:
    """The longest cells, in the order of the tree; a cell is never longer than the one around it."""
    chosen = sorted(range(len(rows)), key=lambda i: (-rows[i].seconds, i))[:MOST_CELLS]
    return [rows[i] for i in sorted(chosen)]


def _cell(row: CellTime) -> tuple[str, ...]:
    name = "  " * (row.depth - 1) + name_text(row.name) if row.depth else "(step)"
    phases = (milliseconds(row.phases.get(phase, 0.0)) for phase in ("forward", "backward"))
    return (name, *phases, *_cost(row))


def _nodes(of: Profile) -> Table:
    rows = of.by_node
    texts = (
        (name_of(row.node), row.node.primitive.name, name_text(row.node.scope), line_of(row.node), *_cost(row))
        for row in rows[:MOST_ROWS]
    )
    header = ("node", "primitive", "cell", "line", *COST)
    return Table(header, (*texts, *_remaining_row(rows[MOST_ROWS:], 3)), texts=4)


def _live_row(held: Held) -> tuple[str, ...]:
    value, node = held.value, held.node
    texts = str(value.type), node.primitive.name, node.phase, line_of(node)
    return (name_text(reference(value)), *texts, size(held.bytes))


def _memory(of: Profile) -> Table:
    memory = of.memory
    alive = sum(held.bytes for held in memory.live)
    crossing = f"crossing values {size(memory.crossing)}, " if memory.crossing else ""
    by = "By liveness" if of.graph.mesh is None else "By liveness, all as on one device,"
    sentences = [
        f"{by} a step holds at most {size(memory.peak)}: states {size(memory.states)}, inputs "
        f"{size(memory.inputs)}, constants {size(memory.constants)}, {crossing}values {size(alive)}.",
        memory.held,
    ]
    if memory.at is not None:
        where = f"{name_of(memory.at)} = {memory.at.primitive.name}"
        sentences.append(f"That is while {where} runs ({line_of(memory.at)}), when these values are alive:")
    rows = list(map(_live_row, memory.live[:MOST_ROWS]))
    rest = memory.live[MOST_ROWS:]
    if rest:
        rows.append((f"({len(rest)} more)", "", "", "", "", size(sum(held.bytes for held in rest))))
    return Table(("value", "type", "made by", "phase", "line", "size"), rows, texts=5, sentences=sentences)
