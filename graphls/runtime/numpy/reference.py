"""The NumPy backend: sessions of the reference interpreter, also with the times of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.base.sharing.storage import array_in
from graphls.ir.graph import Graph, Value
from graphls.ir.interpret import Watch, interpret
from graphls.runtime.numpy.part import NodeTimes
from graphls.runtime.session import Inputs, Present, Session
from graphls.runtime.states import HasStorage


class ReferenceSession(Session):
    """Runs a graph with NumPy; its states live in the parameters. `watch` sees every node with its results."""

    device = "cpu"

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], watch: Watch | None = None) -> None:
        super().__init__(parameters)
        self.graph = graph
        self.watch = watch

    def step(self, inputs: Inputs) -> list[Any]:
        """Run one step; where it raises, no state has changed."""
        before = {state.name: self._value(state) for state in self.graph.states}
        results, after = interpret(self.graph, list(map(array_in, inputs)), before, self.watch)
        outputs = [np.array(output) for output in results]
        names = [write.state.name for write in self.graph.writes]
        storages = [self.parameters[name].storage for name in names]
        versioned = [((np.array(after[name]),), None) for name in names]
        for storage in storages:
            storage.expected = None
        self.group.changes += 1
        nothing = bool  # is left to do: the new states are there already
        self.complete(nothing, (), [(each, "versioned", new) for each, new in zip(storages, versioned, strict=True)])
        return outputs

    def _value(self, state: Value) -> np.ndarray[Any, Any]:
        """The value of a state as the graph reads it, which may be the shard of this rank."""
        storage = self.parameters[state.name].storage
        return storage.fitted_array(state.type.shape).astype(storage.dtype, copy=False)


class TimedReference(ReferenceSession):
    """A session of the interpreter that times each node; `times.runs` are the runs."""

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage]) -> None:
        self.times = NodeTimes(graph)
        super().__init__(graph, parameters, self.times.watch)

    def run(self, inputs: Inputs, present: Present = list) -> Any:
        """Run one step."""
        self.times.begin()
        outputs = super().run(inputs, present)
        self.times.end()
        return outputs
