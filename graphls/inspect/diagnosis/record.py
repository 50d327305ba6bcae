"""Records a step: runs it on copies of its states and computes statistics of every float and low value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphls.base.sharing.storage import array_in
from graphls.inspect.diagnosis import watched
from graphls.inspect.diagnosis.recording import Recording, Statistics
from graphls.ir.graph import Graph, Node, Value, uses, walk
from graphls.ir.plan import Segment, flattened, is_plan
from graphls.passes.overflow.watch import giving
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
    return Recording(graph, recorder.result())


class _Recorder:
    """The values of a graph or a plan to record, and their statistics so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = list(_reached(graph))
        segments = [node for node in self.nodes if node.primitive.is_segment]
        self.inner = {o: i for s in segments for o, i in zip(s.outputs, s.regions[0].outputs, strict=True)}
        self.statistics: dict[Value, Statistics] = {}
        self.answers: dict[Value, bool] = {}

    def parts(self) -> list[list[Value]]:
        """The computed values in their order, in parts that fit into memory."""
        plain = [n for n in self.nodes if not (n.primitive.is_segment or n.primitive.on_host)]
        inside = [n for n in plain if not is_plan(self.graph) or n not in self.graph.nodes]
        computed = {v: None for n in inside for v in n.outputs}
        conditions = {self.inner.get(v, v) for n in self.nodes if n.primitive.is_branch for v in n.inputs[:1]}
        values = [v for v in computed if is_recorded(v) or v in conditions]
        return [values[a:b] for a, b in watched.parts([value.type for value in values])]

    def take(self, value: Value, result: Any) -> None:
        """Compute the statistics of a value, or note the answer of a condition."""
        array = array_in(result)
        if is_recorded(value):
            self.statistics[value] = Statistics.of(value.type, array)
        elif array.size == 1:
            self.answers[value] = bool(array.reshape(())[()])

    def result(self) -> dict[Value, Statistics]:
        """The statistics of the used values; results of segments and branches have those of the values inside."""
        chosen: dict[Value, Value] = {}
        for node in (node for node in self.nodes if node.primitive.is_branch):
            answer = self.answers.get(self.inner.get(node.inputs[0], node.inputs[0]))
            if answer is not None:
                chosen |= dict(zip(node.outputs, node.regions[not answer].outputs, strict=True))
        idle = idle_values(flattened(self.graph), self.answers)
        statistics = {v: s for v, s in self.statistics.items() if v not in idle}
        for outer, inner in (*self.inner.items(), *chosen.items()):
            if inner in statistics:
                statistics.setdefault(outer, statistics[inner])
        return statistics


def is_recorded(value: Value) -> bool:
    """Whether a value has statistics: floats and low numbers that have elements and are not stacks."""
    kind = value.type
    return (kind.dtype.is_float or kind.dtype.is_low) and kind.size > 0 and not kind.stacked


def _reached(graph: Graph) -> Iterator[Node]:
    """The nodes that run at most once in a step, those in segments and branches included, in their order."""
    for node in graph.nodes:
        if node.primitive.is_branch or node.primitive.is_segment:
            for region in node.regions:
                yield from _reached(region)
        yield node


def _run_graph(step: Step, graph: Graph, arrays: Sequence[Any], values: Sequence[Value], take: Take) -> None:
    """Run a step in one piece, with these values as additional outputs."""
    session = step.open_session(giving(graph, values), copies(step.parameters))
    for value, result in zip(values, session.run(arrays)[len(graph.outputs) :], strict=True):
        take(value, result)


def _run_plan(step: Step, graph: Graph, arrays: Sequence[Any], values: Sequence[Value], take: Take) -> None:
    """Run the segments of a step, each with those of these values that it computes as additional outputs."""
    from graphls.runtime.recorded_plan import RecordedPlan  # which loads the engines

    more = partial(_with_outputs, frozenset(values))
    RecordedPlan(graph, copies(step.parameters), step.session.device, more, take).run(arrays)


def _with_outputs(values: Collection[Value], segment: Segment) -> tuple[Segment, dict[Value, Value]]:
    """A segment that also returns those of these values that it computes, as new values; and those by the new ones."""
    computed = [v for node in walk(segment.graph) for v in node.outputs if v in values]
    recorded = {Value(f"{v.name}.recorded", v.type): v for v in computed}
    return replace(segment, graph=giving(segment.graph, computed), gives=(*segment.gives, *recorded)), recorded


def idle_values(graph: Graph, answers: Mapping[Value, bool]) -> set[Value]:
    """The values that only branches not taken, for these answers of conditions, would have used.

    They may have been computed: an engine without conditions runs both branches, and the flag selects between them.
    """
    live = {*graph.outputs, *(write.value for write in graph.writes)}
    _mark_live(graph.nodes, answers, live)
    return {v for node in walk(graph) for v in node.outputs if v not in live}


def _mark_live(nodes: Iterable[Node], answers: Mapping[Value, bool], live: set[Value]) -> None:
    """Add the results and operands of those of these nodes whose results are used."""
    for node in reversed(tuple(nodes)):
        if not node.primitive.has_effect and live.isdisjoint(node.outputs):
            continue
        live.update(node.outputs)
        answer = answers.get(node.inputs[0]) if node.inputs else None
        if answer is None or not (node.primitive.is_branch or node.primitive.name == "where"):
            live.update(uses(node))
            for region in node.regions:
                live.update(region.outputs)
                _mark_live(region.nodes, answers, live)
        elif node.primitive.is_branch:
            region = node.regions[0 if answer else 1]
            live.update((node.inputs[0], *region.outputs))
            _mark_live(region.nodes, answers, live)
        else:
            live.update((node.inputs[0], node.inputs[1 if answer else 2]))
