"""The NumPy backend: the reference interpreter, with the interface of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphls.backends.states import HasStorage
from graphls.ir.graph import Graph
from graphls.ir.interpret import Watch, interpret


class ReferenceSession:
    """Runs a graph with NumPy; its states live in the parameters. `watch` sees every node with its results."""

    device = "cpu"

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], watch: Watch | None = None) -> None:
        self.graph = graph
        self.watch = watch
        self.parameters = dict(parameters)

    def run(self, inputs: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
        """One step; the outputs as arrays. Where it raises, no state has changed."""
        before = {name: p.storage.read() for name, p in self.parameters.items()}
        outputs, after = interpret(self.graph, inputs, before, self.watch)
        for write in self.graph.writes:
            name = write.state.name
            self.parameters[name].storage.replace(np.array(after[name]))
        return [np.array(output) for output in outputs]
