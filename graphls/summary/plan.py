"""A plan as a table: its segments, what runs them, and what crosses between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphls.ir.graph import Graph, Value, walk
from graphls.ir.plan import Plan, Segment
from graphls.text.plain import fitted, size

HEADER = ("segment", "engine", "nodes", "phases", "reads", "gives", "states")


@dataclass(frozen=True)
class SegmentRow:
    """One segment as numbers.

    `nodes` counts those inside of it, constants left out. `reads` and `gives` are bytes of what crosses to it from
    other segments, and from it to others. `in_place` and `swapped` are the bytes of states that it writes where they
    lie, and to a second buffer that becomes the state when the step is complete. `runs` says when it runs, empty for
    always.
    """

    number: int
    engine: str
    nodes: int
    phases: tuple[str, ...]
    reads: int
    gives: int
    in_place: int
    swapped: int
    runs: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as texts, one for each column of the table."""
        states = [f"{size(self.in_place)} in place"] * bool(self.in_place)
        states += [f"{size(self.swapped)} swapped"] * bool(self.swapped)
        name = f"{self.number} {self.runs}".rstrip()
        crossing = (size(self.reads) if self.reads else "", size(self.gives) if self.gives else "")
        return name, self.engine, str(self.nodes), ", ".join(self.phases), *crossing, ", ".join(states)


class StepPlan:
    """What a step runs: `segments` in the order in which they run, with the numbers of each; a table when printed.

    `graph` is the graph of segments, the step's own where there is one segment only.
    """

    def __init__(self, plan: Plan) -> None:
        self.graph: Graph = plan.graph
        self.segments: tuple[SegmentRow, ...] = tuple(_rows(plan))
        self.crossing: tuple[Value, ...] = plan.crossing
        self._flag = plan.flag
        self._drawn = len(plan.drawn)

    def __str__(self) -> str:
        count = len(self.segments)
        title = f"@{self.graph.name}: {count} segment{'s' * (count != 1)}"
        return "\n".join([title, "", *_table([HEADER, *(row.cells for row in self.segments)]), *self._notes()])

    __repr__ = __str__

    def _notes(self) -> Iterator[str]:
        """Sentences under the table."""
        if self.crossing:
            total = sum(v.type.nbytes for v in self.crossing)
            yield ""
            yield f"{len(self.crossing)} values cross between segments, {size(total)}, in buffers that both share."
        if self._flag is not None:
            yield f"The host reads %{self._flag.name} and runs one of the two branches."
        if self._drawn:
            yield "Random arrays for the next step are drawn while this one runs."


def _rows(plan: Plan) -> Iterator[SegmentRow]:
    crossing = set(plan.crossing)
    when = [("", plan.before), *zip(("if true", "if false"), plan.branches, strict=False), ("", plan.after)]
    number = 0
    for runs, segments in when:
        for segment in segments:
            yield _row(number, segment, crossing, runs)
            number += 1


def _row(number: int, segment: Segment, crossing: set[Value], runs: str) -> SegmentRow:
    graph = segment.graph
    nodes = [node for node in walk(graph) if not node.primitive.is_constant]
    return SegmentRow(
        number,
        segment.engine,
        len(nodes),
        tuple(dict.fromkeys(node.phase for node in nodes)),
        _bytes(v for v in graph.inputs if v in crossing),
        _bytes(v for v in segment.gives if v in crossing),
        _bytes(w.state for w in graph.writes if w.in_place),
        _bytes(w.state for w in graph.writes if not w.in_place),
        runs,
    )


def _bytes(values: Iterable[Value]) -> int:
    return sum(v.type.nbytes for v in dict.fromkeys(values))


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(fitted, row, widths)).rstrip()
