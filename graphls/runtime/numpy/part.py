"""A plan segment in the reference interpreter, and one that times each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.base.sharing.storage import array_in
from graphls.ir.graph import Graph, Node, Value, Write, inside, walk
from graphls.ir.interpret import Watch, interpret
from graphls.ir.plan import Segment
from graphls.runtime.kernels import Kernel, Run

if TYPE_CHECKING:
    from graphls.runtime.engine import PlanContext

Array = np.ndarray[Any, Any]


class InterpretedPart:
    """One segment, interpreted node by node; each of its states has two buffers, of which it writes the other one."""

    seen = -1
    watch: Watch | None = None

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        self.graph = segment.graph
        self.gives = segment.gives
        self.context = context
        self.results: dict[Value, Any] = {}

    def begin(self, fed: Mapping[Value, Any]) -> partial[Any]:
        """The call of the interpreter."""
        return partial(self.run, fed)

    def run(self, fed: Mapping[Value, Any]) -> None:
        """Interpret the segment."""
        inputs, states = self.read(fed)
        results, after = interpret(self.graph, inputs, {v.name: array for v, array in states.items()}, self.watch)
        self.give(results, [after[write.state.name] for write in self.graph.writes])

    def read(self, fed: Mapping[Value, Any]) -> tuple[list[Any], dict[Value, Any]]:
        """The inputs of the segment, and its states."""
        buffers, parameters = self.context.boundary_buffers, self.context.parameters
        inputs = [_readable(buffers[v] if v in buffers else fed[v], v) for v in self.graph.inputs]
        states = self.graph.states
        return inputs, {v: _readable(parameters[v.name].storage.fitted_array(v.type.shape), v) for v in states}

    def give(self, results: Sequence[Any], written: Sequence[Any]) -> None:
        """Copy results into their boundary buffers, unless they lie there, and new states into their second buffers."""
        buffers = self.context.boundary_buffers
        for value, array in zip(self.gives, results, strict=True):
            if value not in buffers:
                self.results[value] = np.array(array)
            elif buffers[value] is not array:
                buffers[value][...] = array
        for write, array in zip(self.graph.writes, written, strict=True):
            if write.state.name in self.context.swapped:  # else it stays as it is
                self._write(write, array)

    def _write(self, write: Write, array: Any) -> None:
        """Copy the new value of a state into the buffer that is current when the step is complete."""
        storage, version = self.context.parameters[write.state.name].storage, self.context.swapped[write.state.name]
        if storage.version is not version:
            storage.move(storage.local_array())
            storage.swap_with(np.empty_like(storage.current), version)
        storage.buffers[1 - storage.index][...] = array

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer."""
        results, self.results = self.results, {}
        return results

    def failed(self, error: Exception) -> Exception:
        """The error itself, which is the user's; no state has been changed."""
        return error

    def invalidate(self, reason: str) -> None:
        """Nothing is written in place."""


class NodeTimes:
    """The times of the nodes of a graph in each of its runs.

    The interpreter reports the end of each node. So a node's own time counts from the end of the node before it, or of
    the last node in its regions.
    """

    def __init__(self, graph: Graph) -> None:
        self.inner = {n: set(inside(n)) for n in walk(graph) if n.regions}
        self.kernels: list[Kernel] = []
        self.outermost: list[Kernel] = []
        self.start = self.last = 0.0
        self.runs: list[Run] = []

    def begin(self) -> None:
        """Begin a run."""
        self.start = self.last = perf_counter()
        self.kernels, self.outermost = [], []

    def end(self) -> None:
        """End the run, and keep its times."""
        kernels = sorted(self.kernels, key=lambda k: (k.start, -k.seconds))
        self.runs.append(Run(self.start, perf_counter() - self.start, tuple(kernels)))

    def watch(self, node: Node, results: tuple[Array, ...]) -> None:
        """Record the end of a node."""
        now = perf_counter()
        start, inner = self.last, self.inner.get(node, ())
        while self.outermost and self.outermost[-1].node in inner:
            start = self.outermost.pop().start
        self.outermost.append(Kernel(node, node.primitive.name, start, now - start, now - self.last))
        self.kernels.append(self.outermost[-1])
        self.last = perf_counter()


class TimedPart(InterpretedPart):
    """A segment in the interpreter whose nodes are timed one by one."""

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        super().__init__(segment, context)
        self.times = NodeTimes(self.graph)
        self.watch = self.times.watch

    def run(self, fed: Mapping[Value, Any]) -> None:
        """Run the segment."""
        self.times.begin()
        super().run(fed)
        self.times.end()

    def profile(self) -> list[Run]:
        """The times of the nodes in each run."""
        return self.times.runs


def _readable(buffer: Any, value: Value) -> Any:
    """A read-only view of an array in the dtype of a value, which may cross segments in a wider one."""
    array = array_in(buffer).astype(value.type.dtype.numpy, copy=False).view()
    array.flags.writeable = False
    return array
