"""The interpreter with timings of each node, for whole steps and for segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.ir.graph import Graph, Node, Value, inside, walk
from graphls.ir.plan import Segment
from graphls.runtime.kernels import Kernel, Run
from graphls.runtime.numpy.part import InterpretedPart
from graphls.runtime.numpy.reference import ReferenceSession
from graphls.runtime.states import HasStorage

if TYPE_CHECKING:
    from graphls.runtime.engine import PlanContext

Array = np.ndarray[Any, Any]


class NodeTimes:
    """The times of the nodes of a graph in each run of it.

    The interpreter says when a node ends. So a node's own time is that since the end of the one before it, or of the
    last one in its regions.
    """

    def __init__(self, graph: Graph) -> None:
        self.inner = {n: set(inside(n)) for n in walk(graph) if n.regions}
        self.kernels: list[Kernel] = []
        self.outermost: list[Kernel] = []
        self.start = self.last = 0.0
        self.runs: list[Run] = []

    def begin(self) -> None:
        """A run begins."""
        self.start = self.last = perf_counter()
        self.kernels, self.outermost = [], []

    def end(self) -> None:
        """The run is over."""
        kernels = sorted(self.kernels, key=lambda k: (k.start, -k.seconds))
        self.runs.append(Run(self.start, perf_counter() - self.start, tuple(kernels)))

    def watch(self, node: Node, results: tuple[Array, ...]) -> None:
        """A node has ended."""
        now = perf_counter()
        start, inner = self.last, self.inner.get(node, ())
        while self.outermost and self.outermost[-1].node in inner:
            start = self.outermost.pop().start
        self.outermost.append(Kernel(node, node.primitive.name, start, now - start, now - self.last))
        self.kernels.append(self.outermost[-1])
        self.last = perf_counter()


class TimedReference(ReferenceSession):
    """Steps in the interpreter; `times.runs` has the nodes of each."""

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage]) -> None:
        self.times = NodeTimes(graph)
        super().__init__(graph, parameters, self.times.watch)

    def run(self, inputs: Sequence[Array]) -> list[Any]:
        """One step; the outputs as arrays."""
        self.times.begin()
        outputs = super().run(inputs)
        self.times.end()
        return outputs


class TimedPart(InterpretedPart):
    """A segment in the interpreter, node by node on the clock."""

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
        """The nodes of each run."""
        return self.times.runs
