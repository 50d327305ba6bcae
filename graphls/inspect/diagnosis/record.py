"""Running a step once on copies of its states, and keeping statistics of every float value that it makes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphls.base.sharing.storage import array_in
from graphls.inspect.diagnosis import watched
from graphls.inspect.diagnosis.recording import Recording
from graphls.inspect.diagnosis.statistics import Statistics
from graphls.ir.graph import Graph, Node, Value, uses, walk
from graphls.ir.plan import Segment, flattened, is_plan
from graphls.passes.overflow.watch import giving, is_watched
from graphls.runtime.states import copies
from graphls.runtime.step import Step

Take = Callable[[Value, Any], None]


def record(step: Step, arrays: Sequence[Any]) -> Recording:
    """The statistics of a step on these arrays; see Compiled.record.

    The plan runs once or, where its values take more than a gigabyte, once for each gigabyte of them, on the same
    states and random numbers.
    """
    graph = step.plan.graph
    recorder = _Recorder(graph)
    for values in recorder.parts():
        (_run_plan if is_plan(graph) else _run_graph)(step, graph, arrays, values, recorder.take)
    for value, array in zip(graph.inputs, arrays, strict=True):
        recorder.take(value, array)
    for value in graph.states:
        recorder.take(value, step.parameters[value.name].storage.read())
    return Recording(graph, recorder.kept())


class _Recorder:
    """The values to be recorded of a graph or a plan, and what is known of them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = list(_reached(graph))
        segments = [node for node in self.nodes if node.primitive.is_segment]
        self.inner = {o: i for s in segments for o, i in zip(s.outputs, s.regions[0].outputs, strict=True)}
        self.found: dict[Value, Statistics] = {}
        self.answers: dict[Value, bool] = {}

    def parts(self) -> list[list[Value]]:
        """The values that are made, in the order in which they are, in parts that fit into memory."""
        plain = [n for n in self.nodes if not (n.primitive.is_segment or n.primitive.on_host)]
        inside = [n for n in plain if not is_plan(self.graph) or n not in self.graph.nodes]
        made = {v: None for n in inside for v in n.outputs}
        conditions = {self.inner.get(v, v) for n in self.nodes if n.primitive.is_branch for v in n.inputs[:1]}
        values = [v for v in made if is_watched(v) or v in conditions]
        return [values[a:b] for a, b in watched.parts(values)]

    def take(self, value: Value, result: Any) -> None:
        """Look at the array of a value once."""
        array = array_in(result)
        if is_watched(value):
            self.found[value] = Statistics.of(value.type, array)
        elif array.size == 1:
            self.answers[value] = bool(array.reshape(())[()])

    def kept(self) -> dict[Value, Statistics]:
        """What was found in what ran; a segment gives what a node in it has made, a condition what its branch gives."""
        chosen: dict[Value, Value] = {}
        for node in (node for node in self.nodes if node.primitive.is_branch):
            answer = self.answers.get(self.inner.get(node.inputs[0], node.inputs[0]))
            if answer is not None:
                chosen |= dict(zip(node.outputs, node.regions[not answer].outputs, strict=True))
        idle = in_vain(flattened(self.graph), self.answers)
        found = {v: s for v, s in self.found.items() if v not in idle}
        for outer, inner in (*self.inner.items(), *chosen.items()):
            if inner in found:
                found.setdefault(outer, found[inner])
        return found


def _reached(graph: Graph) -> Iterator[Node]:
    """The nodes that run once in a step or not at all, those in segments and branches too, in their order."""
    for node in graph.nodes:
        if node.primitive.is_branch or node.primitive.is_segment:
            for region in node.regions:
                yield from _reached(region)
        yield node


def _run_graph(step: Step, graph: Graph, arrays: Sequence[Any], values: Sequence[Value], take: Take) -> None:
    """Run a step in one piece, which gives these values too."""
    session = step.open_session(giving(graph, values), copies(step.parameters))
    for value, result in zip(values, session.run(arrays)[len(graph.outputs) :], strict=True):
        take(value, result)


def _run_plan(step: Step, graph: Graph, arrays: Sequence[Any], values: Sequence[Value], take: Take) -> None:
    """Run the segments of a step, each of which gives those of these values that it makes."""
    from graphls.runtime.recorded_plan import RecordedPlan  # which loads the engines

    more = partial(_with_more, frozenset(values))
    RecordedPlan(graph, copies(step.parameters), step.session.device, more, take).run(arrays)


def _with_more(wanted: Collection[Value], segment: Segment) -> tuple[Segment, dict[Value, Value]]:
    """The segment with what is wanted of it, as values that nobody else in the plan reads."""
    made = [v for node in walk(segment.graph) for v in node.outputs if v in wanted]
    given = {Value(f"{v.name}.recorded", v.type): v for v in made}
    return replace(segment, graph=giving(segment.graph, made), gives=(*segment.gives, *given)), given


def in_vain(graph: Graph, answers: Mapping[Value, bool]) -> set[Value]:
    """The values that nothing needs but branches which these answers of conditions have not chosen.

    They may have been computed: an engine without conditions runs both branches, and the flag selects between them.
    """
    needed = {*graph.outputs, *(write.value for write in graph.writes)}
    _need(graph.nodes, answers, needed)
    return {v for node in walk(graph) for v in node.outputs if v not in needed}


def _need(nodes: Iterable[Node], answers: Mapping[Value, bool], needed: set[Value]) -> None:
    """Add what is needed of these nodes and by them."""
    for node in reversed(tuple(nodes)):
        if not node.primitive.has_effect and needed.isdisjoint(node.outputs):
            continue
        needed.update(node.outputs)
        answer = answers.get(node.inputs[0]) if node.inputs else None
        if answer is None or not (node.primitive.is_branch or node.primitive.name == "where"):
            needed.update(uses(node))
            for region in node.regions:
                needed.update(region.outputs)
                _need(region.nodes, answers, needed)
        elif node.primitive.is_branch:
            region = node.regions[0 if answer else 1]
            needed.update((node.inputs[0], *region.outputs))
            _need(region.nodes, answers, needed)
        else:
            needed.update((node.inputs[0], node.inputs[1 if answer else 2]))
