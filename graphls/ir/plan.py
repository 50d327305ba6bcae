"""The execution plan of a partitioned graph: its segments, their engines, and the boundary values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from graphls.ir.build import substitute
from graphls.ir.graph import Graph, Node, Value, Write, captures, uses, with_regions

DEFAULT = "onnxruntime"
"""The engine that takes every node but calls of Python, also those that other engines do not take."""


@dataclass(frozen=True, eq=False)
class Segment:
    """A piece of a step that one engine runs.

    `graph` is self-contained: its inputs are inputs of the step and values of earlier segments; its states are those
    that it reads or writes. `gives` are the values of the plan for its outputs, in their order. `stage` is the stage of
    a pipeline whose devices run it.
    """

    engine: str
    graph: Graph
    gives: tuple[Value, ...]
    stage: int | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """The segments of a step in the order in which they run.

    Those `before` run first. Where there is a `flag`, the host reads it and runs the segments of `branches[0]` where it
    is true, else those of `branches[1]`. Those `after` come last. `host_random` are the nodes whose random arrays the
    host makes for the step. `graph` is the graph of segments. The commit of the `deferred` states waits for the flag:
    they get their new values before it is read, in second buffers, and do not take them where it is true.
    """

    graph: Graph
    host_random: tuple[Node, ...]
    before: tuple[Segment, ...]
    flag: Value | None
    branches: tuple[tuple[Segment, ...], ...]
    after: tuple[Segment, ...]
    deferred: frozenset[str] = frozenset()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, the branches one after the other."""
        return (*self.before, *(s for branch in self.branches for s in branch), *self.after)

    @property
    def swapped(self) -> frozenset[str]:
        """The states that have two buffers, which change places when the step is complete."""
        return frozenset(w.state.name for w in self.graph.writes if not w.in_place)

    @property
    def boundary_values(self) -> tuple[Value, ...]:
        """The values that one segment gives and another one, or the host, reads."""
        read = {v for s in self.segments for v in s.graph.inputs} | ({self.flag} if self.flag else set())
        read.difference_update(self.graph.inputs)
        return tuple(dict.fromkeys(v for s in self.segments for v in s.gives if v in read))

    @cached_property
    def crossing_stages(self) -> dict[Value, Segment]:
        """The values that tasks of a pipeline exchange, each with the last one that reads it."""
        computed = {v for segment in self.segments if segment.stage is not None for v in segment.gives}
        return {v: segment for segment in self.segments for v in segment.graph.inputs if v in computed}


def is_plan(graph: Graph) -> bool:
    """Whether a graph consists of segments."""
    return any(node.primitive.is_segment for node in graph.nodes)


def plan_of(graph: Graph) -> Plan:
    """The plan of a graph; a graph without segments is a single one, on the engine that takes everything."""
    if not is_plan(graph):
        return Plan(graph, (), (Segment(DEFAULT, graph, graph.outputs),), None, (), ())
    return _Reader(graph).plan()


class _Reader:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.written: dict[Value, list[Write]] = {}
        for write in graph.writes:
            self.written.setdefault(write.value, []).append(write)
        conditions = [node for node in graph.nodes if node.primitive.is_branch]
        self.read = {*graph.outputs, *(v for node in graph.nodes if node not in conditions for v in uses(node))}
        self.choice = next(filter(self.only_chooses, conditions), None)
        self.read.update(v for c in conditions for v in (c.inputs if c is self.choice else uses(c)))

    def plan(self) -> Plan:
        """The plan: the segments of the graph, and those of the branches of its condition."""
        host_random = tuple(node for node in self.graph.nodes if node.primitive.on_host)
        before: list[Segment] = []
        after: list[Segment] = []
        flag: Value | None = None
        branches: tuple[tuple[Segment, ...], ...] = ()
        deferred = self.deferred()
        for node in self.graph.nodes:
            if node.primitive.is_branch:
                flag = node.inputs[0]
                branches = tuple(() if node is self.choice else self.branch(node, r) for r in node.regions)
            elif node.primitive.is_segment:
                gives = {v: (v, *deferred.get(v, ())) for v in node.outputs}
                (before if flag is None else after).append(self.segment(node, gives))
        names = frozenset(w.state.name for values in deferred.values() for v in values for w in self.written[v])
        return Plan(self.graph, host_random, tuple(before), flag, branches, tuple(after), names)

    def only_chooses(self, node: Node) -> bool:
        """Whether a condition only chooses between new values that segments have computed and the old states."""
        if any(region.nodes for region in node.regions):
            return False
        first, second = (region.outputs for region in node.regions)
        stays = all({w.state for w in self.written.get(v, ())} == {x} for v, x in zip(node.outputs, first, strict=True))
        computed = {v for n in self.graph.nodes if n.primitive.is_segment for v in n.outputs}
        return stays and computed.issuperset(second) and self.read.isdisjoint(node.outputs)

    def deferred(self) -> dict[Value, list[Value]]:
        """The results of the condition that only chooses, by the values that segments compute for them."""
        deferred_results: dict[Value, list[Value]] = {}
        if self.choice is not None:
            for value, computed in zip(self.choice.outputs, self.choice.regions[1].outputs, strict=True):
                deferred_results.setdefault(computed, []).append(value)
        return deferred_results

    def branch(self, node: Node, region: Graph) -> tuple[Segment, ...]:
        """The segments of a region of the node; the last one copies values that the region passes on."""
        targets: dict[Value, list[Value]] = {}
        for value, source in zip(node.outputs, region.outputs, strict=True):
            targets.setdefault(source, []).append(value)
        inner = {v for n in region.nodes for v in uses(n)}
        inner_segments = [n for n in region.nodes if n.primitive.is_segment]
        computed = {v for n in inner_segments for v in n.outputs}
        loose = [(v, t) for v, several in targets.items() if v not in computed for t in several]
        passed = [(v, t) for v, t in loose if self.must_copy(v, t)]
        segments = []
        for n in inner_segments:
            gives = {v: (*((v,) if v in inner else ()), *targets.get(v, ())) for v in n.outputs}
            segments.append(self.segment(n, gives, inner, passed if n is inner_segments[-1] else ()))
        if passed and not inner_segments:
            segments.append(self.self_contained(DEFAULT, Graph("copies", (), (), (), (), ()), passed, inner))
        return tuple(segments)

    def must_copy(self, value: Value, target: Value) -> bool:
        """Whether a value that a branch passes on must be copied: all but a state that stays in its own buffer."""
        stays = all(w.in_place and w.state is value for w in self.written.get(target, ()))
        return target in self.read or not stays

    def segment(
        self, node: Node, gives: Mapping[Value, tuple[Value, ...]], inner: Iterable[Value] = (),
        passed: Iterable[tuple[Value, Value]] = (),
    ) -> Segment:  # fmt: skip
        """A self-contained segment whose outputs are values of the plan."""
        (region,) = node.regions
        pairs = [(i, t) for o, i in zip(node.outputs, region.outputs, strict=True) for t in gives[o]]
        return self.self_contained(node.attrs["engine"], region, [*pairs, *passed], inner, node.attrs.get("stage"))

    def self_contained(
        self, engine: str, region: Graph, pairs: Iterable[tuple[Value, Value]], inner: Iterable[Value],
        stage: int | None = None,
    ) -> Segment:  # fmt: skip
        """A region as a self-contained segment, whose outputs are pairs: its own value, the value of the plan."""
        read, pairs = {*self.read, *inner}, list(pairs)
        writes = tuple(Write(w.state, i, w.in_place) for i, t in pairs for w in self.written.get(t, ()))
        read_pairs = [(i, t) for i, t in pairs if t in read]
        captured = captures(region.replace(outputs=tuple(i for i, _ in pairs)))
        states = dict.fromkeys((*(v for v in captured if v.is_state), *(w.state for w in writes)))
        return Segment(
            engine,
            Graph(
                region.name,
                tuple(v for v in captured if not v.is_state),
                tuple(states),
                region.nodes,
                writes,
                tuple(i for i, _ in read_pairs),
                self.graph.mesh,
            ),
            tuple(t for _, t in read_pairs),
            stage,
        )


def flattened(graph: Graph) -> Graph:
    """The graph of a plan with its segments expanded, in the order in which they run."""
    if not is_plan(graph):
        return graph
    mapping: dict[Value, Value] = {}

    def expanded(nodes: Iterable[Node]) -> Iterator[Node]:
        for node in nodes:
            if node.primitive.is_segment:
                (region,) = node.regions
                yield from (substitute(n, mapping) for n in region.nodes)
                mapping.update((o, mapping.get(i, i)) for o, i in zip(node.outputs, region.outputs, strict=True))
            elif node.primitive.is_branch:
                yield substitute(with_regions(node, lambda r: r.replace(nodes=tuple(expanded(r.nodes)))), mapping)
            else:
                yield substitute(node, mapping)

    nodes = tuple(expanded(graph.nodes))
    writes = tuple(Write(w.state, mapping.get(w.value, w.value), w.in_place) for w in graph.writes)
    return graph.replace(nodes=nodes, writes=writes, outputs=tuple(mapping.get(v, v) for v in graph.outputs))


def background_segments(plan: Plan) -> dict[int, int]:
    """The segments that run in the background: the number of each, with that of the first segment that waits for it.

    Such a segment only communicates. Readers of its results wait for it, and so does any other call of Python, as these
    keep their order. Where nothing would be computed meanwhile, a segment runs in its turn. All stand before the flag
    of the plan; where no segment before the flag waits, the second number is the count of segments there.
    """
    ends: dict[int, int] = {}
    for number, segment in enumerate(plan.before):
        if _only_communicates(segment):
            first = next((i for i in range(number + 1, len(plan.before)) if _waits(plan.before[i], segment)), None)
            end = len(plan.before) if first is None else first
            if not all(map(_only_communicates, plan.before[number + 1 : end])):
                ends[number] = end
    return ends


def _only_communicates(segment: Segment) -> bool:
    nodes = [node for node in segment.graph.nodes if not node.primitive.is_constant]
    return bool(nodes) and not segment.graph.states and all(node.primitive.is_collective for node in nodes)


def _waits(segment: Segment, earlier: Segment) -> bool:
    calls_python = any(node.primitive.calls_python for node in segment.graph.nodes)
    reads = not set(segment.graph.inputs).isdisjoint(earlier.gives)
    return reads or (calls_python and not _only_communicates(segment))
