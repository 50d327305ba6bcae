"""A step that is watched: the range of every float value of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from graphls.inspect.diagnosis.probe import Array, Probe
from graphls.inspect.diagnosis.ranges import Range
from graphls.ir.graph import PHASES, Graph, Node, Value, definers, uses, walk
from graphls.ir.reachability import dependents
from graphls.passes import Pipeline
from graphls.passes.overflow.rescale import Rescale
from graphls.passes.overflow.watch import Watch, is_watched, watched_values
from graphls.passes.simplify.dce import Dce
from graphls.passes.windows import gets

Ranges = Mapping[Value, Range]

MOST_BYTES = 1 << 30
"""How much memory the values of one run may take; more of them take more runs."""


class WatchedStep:
    """The graph of a step with the factor of its scale as an input, and a run of it that gives the ranges.

    `graph` is what runs, before the watch; `nodes` are its nodes and those of its branches, in the order in
    which they run. Where the step has a check, the update behind it is not watched, which waits for it.
    """

    def __init__(self, traced: Graph, pipeline: Pipeline, open_probe: Callable[[Graph], Probe]) -> None:
        named = traced.replace(name=f"{traced.name}_watched")
        self.graph = Pipeline((Rescale(), *pipeline.passes)).run(named, keep=False, source="trace").graph
        self.nodes = list(walk(self.graph))
        self.definer = definers(self.nodes)
        self.returned = self.graph.outputs[: len(traced.outputs)]
        self.scales = self.graph.outputs[len(traced.outputs) :]
        self.scaled = dependents(self.nodes, self.graph.inputs[-1:], sources)
        without_update = tuple(p for p in PHASES if p != "update")
        is_enough = self.checked and set(self.checked) <= set(watched_values(self.graph, without_update))
        self.phases = without_update if is_enough else PHASES
        self.values = watched_values(self.graph, self.phases)
        self.probes = [(self.values[a:b], open_probe(self.watching(a, b))) for a, b in parts(self.values)]

    def watching(self, start: int, stop: int) -> Graph:
        """The graph that gives the watched values from start to stop."""
        watch = Watch(self.phases, start, stop)
        renamed = self.graph.replace(name=f"{self.graph.name}_{start}")
        return Pipeline((watch, Dce())).run(renamed, keep=False).graph

    def run(self, arrays: Sequence[Array], factor: float = 1.0) -> Ranges:
        """The range of every float value, with the scale times `factor`."""
        found: dict[Value, Range] = {}
        skipped: set[Value] = set()
        for values, probe in self.probes:
            for value, array in zip(values, probe.run(arrays, factor), strict=True):
                if is_watched(value):
                    found[value] = Range.of(value.type, array, value not in skipped)
                else:
                    skipped |= self.not_run(value, bool(array))
        return found

    def is_finite(self, targets: Iterable[Value], arrays: Sequence[Array], factor: float) -> bool:
        """Whether these values are finite with the scale times `factor`."""
        wanted = set(targets)
        for values, probe in self.probes:
            if not wanted.isdisjoint(values):
                found = zip(values, probe.run(arrays, factor), strict=True)
                if not all(np.isfinite(array).all() for value, array in found if value in wanted):
                    return False
        return True

    def not_run(self, condition: Value, answer: bool) -> set[Value]:
        """What is made in branches that do not run for this answer to a condition."""
        conds = (n for n in self.nodes if n.primitive.is_branch and n.inputs[0] is condition)
        return {v for cond in conds for node in walk(cond.regions[answer]) for v in node.outputs}

    def scale(self, ranges: Ranges) -> float | None:
        """The loss scale of a run; None where the step has none, or more than one."""
        scales = [v for v in self.scales if v in ranges]
        found = {bound for v in scales for bound in (ranges[v].least, ranges[v].greatest)}
        return found.pop() if len(found) == 1 else None

    @property
    def scale_is_state(self) -> bool:
        """Whether the step keeps its scale in a state, which it or a manager outside may have changed since."""
        made = (self.definer[v] for v in self.scales if v in self.definer)
        return any(self.origin(node.inputs[0]).is_state for node in made)

    def origin(self, value: Value) -> Value:
        """What casts and moves lead back to."""
        while value in self.definer and self.definer[value].primitive.is_transparent:
            value = self.definer[value].inputs[0]
        return value

    @cached_property
    def checked(self) -> list[Value]:
        """The float values that the overflow status of the step depends on; none where it has none.

        Where it is not made by `get_overflow_status`, it is what `isfinite` is asked of the scaled gradients.
        """
        asked = (node for node in self.nodes if node.primitive.name == "is_finite")
        found = [v for node in gets(self.nodes) for v in node.inputs if is_watched(v)]
        found = found or [v for node in asked for v in node.inputs if v in self.scaled and is_watched(v)]
        return list(dict.fromkeys(found))

    @cached_property
    def results(self) -> list[Value]:
        """The watched values that leave the step: what it returns and what it writes."""
        leaving = (*self.returned, *(w.value for w in self.graph.writes))
        watched = set(self.values)
        return [v for v in dict.fromkeys(leaving) if v in watched]


def parts(values: Sequence[Value]) -> list[tuple[int, int]]:
    """The indices at which values begin and end that fit into MOST_BYTES together."""
    ends, total = [], 0
    for i, value in enumerate(values):
        size = value.type.size * max(4, value.type.dtype.itemsize)
        if total and total + size > MOST_BYTES:
            ends.append(i)
            total = 0
        total += size
    ends.append(len(values))
    return list(zip([0, *ends], ends, strict=False))


def sources(node: Node) -> tuple[Value, ...]:
    """What a node is made from: its operands and, for one with branches, what these yield and capture."""
    return (*uses(node), *(v for region in node.regions for v in region.outputs))
