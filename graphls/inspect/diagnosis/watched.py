"""Probes of a step: variants that run on its inputs and states without changing them, such as one with all ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.sharing.storage import array_in
from graphls.inspect.diagnosis.ranges import Range
from graphls.ir.graph import PHASES, Graph, Node, Value, definers, uses, walk
from graphls.ir.reachability import dependents
from graphls.ir.types import Type
from graphls.passes import Pipeline
from graphls.passes.overflow.rescale import Rescale
from graphls.passes.overflow.watch import Watch, is_watched, watched_values
from graphls.passes.simplify.dce import Dce
from graphls.passes.windows import gets
from graphls.runtime.host_random import growth
from graphls.runtime.states import copies
from graphls.runtime.step import Step

Array = np.ndarray[Any, Any]
Ranges = Mapping[Value, Range]

MOST_BYTES = 1 << 30
"""The most memory for the values of one run; more values take more runs."""


class Probe:
    """A graph without writes on the state of a step, whose last input may be a factor of the loss scale.

    The random numbers are those of the step that ran last: the counter of random numbers, which a skipped step
    increments, too, is decremented on a copy. All other states are read as they are.
    """

    def __init__(self, graph: Graph, step: Step) -> None:
        if graph.writes:
            raise GraphValueError(f"A probe writes no states, and @{graph.name} does.")
        self.step, self.parameters = step.graph, step.parameters
        self.is_scaled = len(graph.inputs) > len(step.graph.inputs)
        random = {node.inputs[0].name for node in walk(graph) if node.primitive.on_host}
        self.copied = copies({name: step.parameters[name] for name in random})
        self.session = step.open_session(graph, {**step.parameters, **self.copied})

    def run(self, arrays: Sequence[Array], factor: float = 1.0) -> list[Array]:
        """The outputs of the graph for these inputs of the step, with its scale times `factor`."""
        for name, state in self.copied.items():
            state.storage.replace(self.before_last_step(name))
        factors = [np.array(factor, np.float32)] if self.is_scaled else []
        return [array_in(output) for output in self.session.run([*arrays, *factors])]

    def before_last_step(self, name: str) -> Array:
        """A state of random numbers, as the last step read it."""
        now = np.array(self.parameters[name].storage.read())
        grown = growth(self.step, self.step.state(name))
        before = now - np.array(grown or 0, now.dtype)
        return before if before[1] >= 0 else now


class WatchedStep:
    """The graph of a step with a factor of its scale as an input, run with the range of every float value.

    `graph` is the graph without the watch; `nodes` are its nodes and those of its branches, in execution order. Where
    the step has an overflow check, the update, which waits for that, is not watched.
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
        slices = parts([value.type for value in self.values])
        self.probes = [(self.values[a:b], open_probe(self.watching(a, b))) for a, b in slices]

    def watching(self, start: int, stop: int) -> Graph:
        """The graph that returns the watched values from start to stop."""
        watch = Watch(self.phases, start, stop)
        renamed = self.graph.replace(name=f"{self.graph.name}_{start}")
        return Pipeline((watch, Dce())).run(renamed, keep=False).graph

    def run(self, arrays: Sequence[Array], factor: float = 1.0) -> Ranges:
        """The range of every float value, with the scale times `factor`."""
        ranges: dict[Value, Range] = {}
        skipped: set[Value] = set()
        for values, probe in self.probes:
            for value, array in zip(values, probe.run(arrays, factor), strict=True):
                if is_watched(value):
                    ranges[value] = Range.of(value.type, array, value not in skipped)
                else:
                    skipped |= self.not_run(value, bool(array))
        return ranges

    def is_finite(self, targets: Iterable[Value], arrays: Sequence[Array], factor: float) -> bool:
        """Whether these values are finite with the scale times `factor`."""
        target_set = set(targets)
        for values, probe in self.probes:
            if not target_set.isdisjoint(values):
                pairs = zip(values, probe.run(arrays, factor), strict=True)
                if not all(np.isfinite(array).all() for value, array in pairs if value in target_set):
                    return False
        return True

    def not_run(self, condition: Value, answer: bool) -> set[Value]:
        """The values of the branches that do not run for this answer of a condition."""
        conds = (n for n in self.nodes if n.primitive.is_branch and n.inputs[0] is condition)
        return {v for cond in conds for node in walk(cond.regions[answer]) for v in node.outputs}

    def scale(self, ranges: Ranges) -> float | None:
        """The loss scale of a run; None where the step has none, or more than one."""
        scales = [v for v in self.scales if v in ranges]
        bounds = {bound for v in scales for bound in (ranges[v].least, ranges[v].greatest)}
        return bounds.pop() if len(bounds) == 1 else None

    @property
    def scale_is_state(self) -> bool:
        """Whether the scale is a state of the step, which the step or a manager outside may have changed since."""
        nodes = (self.definer[v] for v in self.scales if v in self.definer)
        return any(self.origin(node.inputs[0]).is_state for node in nodes)

    def origin(self, value: Value) -> Value:
        """The value that a chain of casts and moves starts from."""
        while value in self.definer and self.definer[value].primitive.is_transparent:
            value = self.definer[value].inputs[0]
        return value

    @cached_property
    def checked(self) -> list[Value]:
        """The float values that the overflow status of the step depends on; none where it has none.

        Without `get_overflow_status`, these are the scaled gradients that `isfinite` checks.
        """
        finite_checks = (node for node in self.nodes if node.primitive.name == "is_finite")
        values = [v for node in gets(self.nodes) for v in node.inputs if is_watched(v)]
        values = values or [v for node in finite_checks for v in node.inputs if v in self.scaled and is_watched(v)]
        return list(dict.fromkeys(values))

    @cached_property
    def results(self) -> list[Value]:
        """The watched values among the outputs and the writes of the step."""
        leaving = (*self.returned, *(w.value for w in self.graph.writes))
        watched = set(self.values)
        return [v for v in dict.fromkeys(leaving) if v in watched]


def parts(types: Sequence[Type], times: int = 1) -> list[tuple[int, int]]:
    """The ranges of indices of values of these types that fit into MOST_BYTES together, each so many times."""
    ends, total = [], 0
    for i, kind in enumerate(types):
        size = times * kind.size * max(4, kind.dtype.itemsize)
        if total and total + size > MOST_BYTES:
            ends.append(i)
            total = 0
        total += size
    ends.append(len(types))
    return list(zip([0, *ends], ends, strict=False))


def sources(node: Node) -> tuple[Value, ...]:
    """The operands of a node and, for one with branches, the values that these yield and capture."""
    return (*uses(node), *(v for region in node.regions for v in region.outputs))
