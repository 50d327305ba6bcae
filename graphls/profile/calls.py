"""The calls of Python in a step that is measured: how long each takes, and the rest, which a runtime times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from graphls.backends.kernels import Kernel, Run
from graphls.ir.graph import Graph, Node
from graphls.ir.types import TOKEN, Type
from graphls.passes.host_calls import calls_for_results, without_calls
from graphls.primitives.host import HostFunction, call

Array = np.ndarray[Any, Any]


class TimedCalls:
    """The calls of a graph, each with the seconds of all its runs and what it gave last, and `graph`, which notes them.

    `rest` is the graph without them: what they give are its inputs.
    """

    def __init__(self, graph: Graph) -> None:
        self.calls = calls_for_results(graph)
        self.seconds: dict[Node, list[float]] = {node: [] for node in self.calls}
        self.results: dict[Node, tuple[Array, ...]] = {}
        self.nodes = {node.outputs[0]: node for node in graph.nodes}
        self.graph = graph.replace(nodes=tuple(map(self._timed, graph.nodes))) if self.calls else graph
        self.rest = without_calls(graph) if self.calls else graph

    def _timed(self, node: Node) -> Node:
        if node not in self.seconds:
            return node
        name, types = node.attrs["function"], tuple(v.type for v in node.outputs if v.type != TOKEN)

        def timed(*arrays: Array) -> tuple[Array, ...]:
            return self._call(node, name, arrays, types)

        return replace(node, attrs={**node.attrs, "function": HostFunction(name, timed)})

    def _call(self, node: Node, name: str, arrays: tuple[Array, ...], types: tuple[Type, ...]) -> tuple[Array, ...]:
        start = perf_counter()
        self.results[node] = tuple(map(np.array, call(name, arrays, types)))
        self.seconds[node].append(perf_counter() - start)
        return self.results[node]

    def given(self) -> list[Array]:
        """What the calls gave last, as the rest takes it behind its own inputs."""
        return [array for node in self.calls for array in self.results[node]]

    def original(self, node: Node | None) -> Node | None:
        """The node of the graph that one of the rest is."""
        return None if node is None else self.nodes.get(node.outputs[0], node)

    def added_to(self, seconds: Sequence[float], first: int) -> list[float]:
        """The seconds of steps of the rest, with those of the calls, from the step `first` on."""
        return [each + sum(self.seconds[n][first + i] for n in self.calls) for i, each in enumerate(seconds)]

    def added_to_runs(self, runs: Sequence[Run], first: int) -> list[Run]:
        """Runs of the rest, each with the calls of a step, from the step `first` on; they stand behind all else."""
        return [self._added(run, first + i) for i, run in enumerate(runs)]

    def _added(self, run: Run, number: int) -> Run:
        kernels, end = list(run.kernels), run.start + run.seconds
        for node in self.calls:
            seconds = self.seconds[node][number]
            kernels.append(Kernel(node, node.primitive.name, end, seconds, seconds))
            end += seconds
        return Run(run.start, end - run.start, tuple(kernels))
