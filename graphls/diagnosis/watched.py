"""A step that is watched: the range of every float value of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphls.diagnosis.probe import Probe
from graphls.diagnosis.ranges import Range
from graphls.ir.graph import Graph, Node, Value, uses, walk
from graphls.passes import Pipeline
from graphls.passes.dce import Dce
from graphls.passes.rescale import TRANSPARENT, Rescale
from graphls.passes.rewrite import definers
from graphls.passes.watch import Watch, is_watched, watched_values

Ranges = Mapping[Value, Range]


class WatchedStep:
    """The graph of a step with the factor of its scale as an input, and a run of it that tells the ranges.

    `graph` is what runs, before the watch; `nodes` are its nodes and those of its branches, in the order in
    which they run.
    """

    def __init__(self, traced: Graph, pipeline: Pipeline, open_probe: Callable[[Graph], Probe]) -> None:
        named = traced.replace(name=f"{traced.name}_watched")
        self.graph = Pipeline((Rescale(), *pipeline.passes)).run(named, keep=False, source="trace").graph
        watching = Pipeline((Watch(), Dce())).run(self.graph.replace(name=f"{named.name}_ranges"), keep=False).graph
        self.values = watched_values(watching)
        self.probe = open_probe(watching)
        self.nodes = list(walk(self.graph))
        self.definer = definers(self.nodes)
        self.returned = self.graph.outputs[: len(traced.outputs)]
        self.scales = self.graph.outputs[len(traced.outputs) :]
        self.scaled = behind(self.nodes, self.graph.inputs[-1])

    def run(self, arrays: Sequence[Any], factor: float = 1.0) -> Ranges:
        """The range of every float value, with the scale times `factor`."""
        (rows,) = self.probe.run(arrays, factor)
        pairs = zip(self.values, rows.reshape(-1, 4), strict=True)
        return {value: Range.of_summary(value.type, row) for value, row in pairs}

    def scale(self, ranges: Ranges) -> float | None:
        """The loss scale of a run; None where the step has none, or more than one."""
        found = {bound for v in self.scales for bound in (ranges[v].least, ranges[v].greatest)}
        return found.pop() if len(found) == 1 else None

    @property
    def scale_is_state(self) -> bool:
        """Whether the step keeps its scale in a state, which it or a manager outside may have changed since."""
        made = (self.definer[v] for v in self.scales if v in self.definer)
        return any(self.origin(node.inputs[0]).is_state for node in made)

    def origin(self, value: Value) -> Value:
        """What casts and moves lead back to."""
        while value in self.definer and self.definer[value].primitive.name in TRANSPARENT:
            value = self.definer[value].inputs[0]
        return value

    @property
    def checked(self) -> list[Value]:
        """The float values that the overflow status of the step depends on; none where it has none.

        Where it is not made by `get_overflow_status`, it is what `isfinite` is asked of the scaled gradients.
        """
        gets = (node for node in self.nodes if node.primitive.name == "overflow_get")
        asked = (node for node in self.nodes if node.primitive.name == "is_finite")
        found = [v for node in gets for v in node.inputs if is_watched(v)]
        found = found or [v for node in asked for v in node.inputs if v in self.scaled and is_watched(v)]
        return list(dict.fromkeys(found))

    @property
    def results(self) -> list[Value]:
        """The float values that leave the step: what it returns and what it writes."""
        leaving = (*self.returned, *(w.value for w in self.graph.writes))
        return list(dict.fromkeys(filter(is_watched, leaving)))


def behind(nodes: Sequence[Node], value: Value) -> set[Value]:
    """The values that depend on one by data, of nodes in the order of `walk`."""
    found = {value}
    for node in nodes:
        if not found.isdisjoint(sources(node)):
            found.update(node.outputs)
    return found


def sources(node: Node) -> tuple[Value, ...]:
    """What a node is made from: its operands and, for one with branches, what these yield and capture."""
    return (*uses(node), *(v for region in node.regions for v in region.outputs))
