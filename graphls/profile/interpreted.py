"""The NumPy backend with a clock: the time of each node in the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from graphls.backends.kernels import Kernel, Run
from graphls.backends.numpy.reference import ReferenceSession
from graphls.backends.states import HasStorage
from graphls.ir.graph import Graph, Node, inside, walk

Array = np.ndarray[Any, Any]


class InterpretedSession(ReferenceSession):
    """Steps in the interpreter; `runs` has the nodes of each.

    The interpreter says when a node ends. So a node's own time is that since the end of the one before it, or of the
    last one in its regions.
    """

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage]) -> None:
        super().__init__(graph, parameters, self._watch)
        self.inner = {n: set(inside(n)) for n in walk(graph) if n.regions}
        self.kernels: list[Kernel] = []
        self.outermost: list[Kernel] = []
        self.last = 0.0
        self.runs: list[Run] = []

    def run(self, inputs: Sequence[Array]) -> list[Any]:
        """One step; the outputs as arrays."""
        start = self.last = perf_counter()
        self.kernels, self.outermost = [], []
        outputs = super().run(inputs)
        kernels = sorted(self.kernels, key=lambda k: (k.start, -k.seconds))
        self.runs.append(Run(start, perf_counter() - start, tuple(kernels)))
        return outputs

    def _watch(self, node: Node, results: tuple[Array, ...]) -> None:
        now = perf_counter()
        start, inner = self.last, self.inner.get(node, ())
        while self.outermost and self.outermost[-1].node in inner:
            start = self.outermost.pop().start
        self.outermost.append(Kernel(node, node.primitive.name, start, now - start, now - self.last))
        self.kernels.append(self.outermost[-1])
        self.last = perf_counter()
