"""A plan as tables and as data: its segments with their engines, and the values that cross between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from graphls.base.text.html import Page
from graphls.base.text.plain import shortened, shown, size
from graphls.base.text.tables import Table
from graphls.ir.graph import PHASES, Graph, Value, walk
from graphls.ir.plan import Plan, Segment, background_segments
from graphls.ir.sharding import Mesh, local_type
from graphls.runtime.kernels import FusedKernel

HEADER = ("segment", "engine", "phases", "nodes", "reads", "gives", "states")
CROSSING = ("value", "type", "from", "to", "size")
KERNELS = ("kernel", "computes", "lines", "segment", "nodes")
MOST_ROWS = 12
LONGEST, WIDEST = 48, 60

Kernels = Callable[[], Mapping[int, Sequence[FusedKernel]]]


@dataclass(frozen=True)
class SegmentRow:
    """One segment as numbers.

    `nodes` counts those inside of it, constants left out. `reads` and `gives` are the bytes of values that cross to it
    from other segments, and from it to others. `in_place` and `swapped` are the bytes of states that it writes in
    place, and to a second buffer that becomes the state when the step is complete. `runs` says when it runs, empty for
    always. Of a pipeline, `stage` is the stage that runs it, and `micro` the part of the batch that it is for.
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
    stage: int | None = None
    micro: int | None = None

    @property
    def name(self) -> str:
        """Its number, and when it runs."""
        return f"{self.number} {self.runs}".rstrip()

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as texts, one for each column of the table."""
        states = [f"{size(self.in_place)} in place"] * bool(self.in_place)
        states += [f"{size(self.swapped)} swapped"] * bool(self.swapped)
        crossing = (size(self.reads) if self.reads else "", size(self.gives) if self.gives else "")
        stage = "" if self.stage is None else f" stage {self.stage}"
        part = "" if self.micro is None else f" micro {self.micro}"
        engine = f"{self.engine}{stage}{part}"
        return self.name, engine, ", ".join(self.phases), str(self.nodes), *crossing, ", ".join(states)


@dataclass(frozen=True)
class CrossingRow:
    """One value that crosses between segments: its name and type, its bytes, and the numbers of the segments.

    `made` are those that compute it, of which one runs in a step, `read` those that read it. `by_host` says whether the
    host reads it, too, to choose a branch.
    """

    value: str
    type: str
    bytes: int
    made: tuple[int, ...]
    read: tuple[int, ...]
    by_host: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as texts, one for each column of the table."""
        read = [*map(str, self.read), *["the host"] * self.by_host]
        name = shown(shortened(f"%{self.value}", LONGEST))
        return name, self.type, " or ".join(map(str, self.made)), ", ".join(read), size(self.bytes)


@dataclass(frozen=True)
class KernelRow:
    """A kernel into which an engine compiled nodes: its segment, name and operation, the nodes, and their lines.

    `nodes` are called as their first results; the first is the one whose result the kernel computes. The engine's own
    kernels, such as copies, may have none. `lines` are the distinct lines of the user.
    """

    segment: int
    name: str
    operation: str
    nodes: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as texts, one for each column of the table."""
        more = f" and {len(self.lines) - 1} more" if len(self.lines) > 1 else ""
        nodes = shown(shortened(", ".join(f"%{name}" for name in self.nodes), WIDEST))
        lines = shown("".join(self.lines[:1])) + more
        return shown(self.name), nodes, lines, str(self.segment), str(len(self.nodes))


class StepPlan:
    """The plan of a step: `segments` in the order in which they run, and the values `crossing` between them, as rows.

    `kernels` are those of segments whose engine fuses nodes, which XLA does, with the nodes of each.

    It is a table when printed and in a notebook, and `dataclasses.asdict` turns a row into data. `overlaps` are
    sentences on segments that run at the same time. `graph` is the graph of segments, the step's own where there is one
    segment only.

        >>> step.plan.segments[0].engine
        'onnxruntime'
    """

    def __init__(self, plan: Plan, kernels: Kernels | None = None) -> None:
        self._compiled = kernels
        self.graph: Graph = plan.graph
        self.segments: tuple[SegmentRow, ...] = tuple(_rows(plan))
        self.crossing: tuple[CrossingRow, ...] = tuple(_crossing(plan))
        self.overlaps: tuple[str, ...] = tuple(_overlaps(plan))
        self._flag = plan.flag
        self._states_of_stages = _states_of_stages(plan)
        self._deferred = _bytes(state for state in plan.graph.states if state.name in plan.deferred)

    @cached_property
    def kernels(self) -> tuple[KernelRow, ...]:
        """The kernels of all segments whose engine knows them."""
        compiled = self._compiled() if self._compiled is not None else {}
        return tuple(_kernel(number, kernel) for number, kernels in compiled.items() for kernel in kernels)

    def __str__(self) -> str:
        tables = ("\n".join(table.lines()) for table in self._tables())
        return "\n\n".join([self._headline, *tables, *filter(None, ["\n".join(self._notes())])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = Page("Plan", self._headline)
        for table in self._tables():
            table.add_to(page)
        page.notes(self._notes())
        return page.text()

    @property
    def _headline(self) -> str:
        count = len(self.segments)
        return f"@{shown(shortened(self.graph.name, LONGEST))}: {count} segment{'s' * (count != 1)}"

    def _tables(self) -> Iterator[Table]:
        yield Table(HEADER, [row.cells for row in self.segments], texts=3)
        if self.crossing:
            rows = sorted(self.crossing, key=lambda row: -row.bytes)
            texts, rest = [row.cells for row in rows[:MOST_ROWS]], rows[MOST_ROWS:]
            if rest:
                texts.append((f"({len(rest)} more)", "", "", "", size(sum(row.bytes for row in rest))))
            yield Table(CROSSING, texts, texts=4)
        if fused := sorted(filter(_is_fused, self.kernels), key=lambda row: -len(row.nodes)):
            texts, left = [row.cells for row in fused[:MOST_ROWS]], len(fused) - MOST_ROWS
            yield Table(KERNELS, [*texts, *[(f"({left} more)", "", "", "", "")] * (left > 0)], texts=3)

    def _notes(self) -> Iterator[str]:
        """Sentences under the tables."""
        computed, count = sum(row.nodes for row in self.segments), self.graph.node_count
        if computed != count:
            yield f"Segments compute {computed} nodes, constants left out; their graph has {count}."
        if self.crossing:
            total, count = sum(row.bytes for row in self.crossing), len(self.crossing)
            values = "1 value crosses" if count == 1 else f"{count} values cross"
            yield f"{values} between segments, {size(total)}, in buffers that both share."
        if self._flag is not None:
            chosen = "and runs one of the two branches"
            if self._deferred:
                chosen = f"and where it is true, {size(self._deferred)} of states stay as they are"
            yield f"The host reads %{shown(shortened(self._flag.name, LONGEST))} {chosen}."
        if self.kernels:
            fused, own = (sum(test(row) for row in self.kernels) for test in (_is_fused, _is_own))
            kernels = f"{len(self.kernels)} kernel{'s' * (len(self.kernels) != 1)}"
            yield f"XLA compiles them into {kernels}: {fused} of several nodes, {own} of its own, such as copies."
        if (mesh := self.graph.mesh) is not None and mesh.size > 1:
            sizes = [sum(_bytes_of_part(state, mesh) for state in several) for several in self._states_of_stages]
            at_most = " at most" if len(sizes) > 1 else ""
            states = size(_bytes(self.graph.states))
            yield f"Of {states} of states, each of the {mesh.size} devices has {size(max(sizes))}{at_most}."
        yield from self.overlaps


def _states_of_stages(plan: Plan) -> list[Collection[Value]]:
    """The states that the devices of each stage have, of a plan without stages all of them."""
    stages: dict[int, dict[Value, None]] = {}
    for segment in plan.segments:
        if segment.stage is not None:
            stages.setdefault(segment.stage, {}).update(dict.fromkeys(segment.graph.states))
    own: list[Collection[Value]] = [*map(tuple, stages.values())]
    return own or [plan.graph.states]


def _is_fused(row: KernelRow) -> bool:
    return len(row.nodes) > 1


def _is_own(row: KernelRow) -> bool:
    return not row.nodes


def _kernel(segment: int, kernel: FusedKernel) -> KernelRow:
    lines = dict.fromkeys(str(node.loc) for node in kernel.nodes if node.loc)
    return KernelRow(segment, kernel.name, kernel.operation, tuple(n.outputs[0].name for n in kernel.nodes), (*lines,))


def _rows(plan: Plan) -> Iterator[SegmentRow]:
    crossing = set(plan.boundary_values)
    when = [("", plan.before), *zip(("if true", "if false"), plan.branches, strict=False), ("", plan.after)]
    pairs = ((runs, segment) for runs, segments in when for segment in segments)
    return (_row(number, segment, crossing, runs) for number, (runs, segment) in enumerate(pairs))


def _row(number: int, segment: Segment, crossing: set[Value], runs: str) -> SegmentRow:
    graph = segment.graph
    nodes = [node for node in walk(graph) if not node.primitive.is_constant]
    phases, parts = {node.phase for node in nodes}, {node.micro for node in nodes if segment.stage is not None}
    return SegmentRow(
        number,
        segment.engine,
        len(nodes),
        tuple(phase for phase in PHASES if phase in phases),
        _bytes(v for v in graph.inputs if v in crossing),
        _bytes(v for v in segment.gives if v in crossing),
        _bytes(w.state for w in graph.writes if w.in_place),
        _bytes(w.state for w in graph.writes if not w.in_place),
        runs,
        segment.stage,
        next(iter(parts)) if len(parts) == 1 else None,
    )


def _crossing(plan: Plan) -> Iterator[CrossingRow]:
    makers: dict[Value, list[int]] = {}
    readers: dict[Value, list[int]] = {}
    for number, segment in enumerate(plan.segments):
        for value in segment.gives:
            makers.setdefault(value, []).append(number)
        for value in segment.graph.inputs:
            readers.setdefault(value, []).append(number)
    for v in plan.boundary_values:
        segments = tuple(makers[v]), tuple(readers.get(v, ()))
        yield CrossingRow(v.name, str(v.type), v.type.nbytes, *segments, v is plan.flag)


def _overlaps(plan: Plan) -> Iterator[str]:
    if plan.host_random:
        total = _bytes(v for node in plan.host_random for v in node.outputs)
        yield f"Random arrays for the next step ({size(total)}) are drawn while this one runs."
    for number, end in background_segments(plan).items():
        sent = size(_bytes(v for v in plan.before[number].graph.inputs))
        waiting = f"{end} waits for it" if end < len(plan.segments) else "the step ends behind it"
        yield f"Segment {number} communicates ({sent}) while {_range(number + 1, end - 1)}; {waiting}."


def _range(first: int, last: int) -> str:
    return f"{first} runs" if first == last else f"{first} to {last} run"


def _bytes_of_part(value: Value, mesh: Mesh) -> int:
    """The bytes of a value on each device."""
    return local_type(value.type, value.sharding, mesh).nbytes


def _bytes(values: Iterable[Value]) -> int:
    return sum(v.type.nbytes for v in dict.fromkeys(values))
