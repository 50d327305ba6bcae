"""Running a variant of a step on its inputs and its state, without changing either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.sharing.storage import array_in
from graphls.ir.graph import Graph, walk
from graphls.runtime.host_random import growth
from graphls.runtime.states import copies
from graphls.runtime.step import Step

Array = np.ndarray[Any, Any]


class Probe:
    """A graph without writes, whose last input is a factor of the loss scale, on the state of a step.

    The random numbers are those of the step that ran last: the state of random numbers, which also a skipped step
    counts up, is counted down again on a copy. All other states are read as they are.
    """

    def __init__(self, graph: Graph, step: Step) -> None:
        if graph.writes:
            raise GraphValueError(f"A probe writes no states, and @{graph.name} does.")
        self.step, self.parameters = step.graph, step.parameters
        random = {node.inputs[0].name for node in walk(graph) if node.primitive.on_host}
        self.copied = copies({name: step.parameters[name] for name in random})
        self.session = step.open_session(graph, {**step.parameters, **self.copied})

    def run(self, arrays: Sequence[Array], factor: float = 1.0) -> list[Array]:
        """The outputs of the graph for these inputs of the step, with its scale times `factor`."""
        for name, state in self.copied.items():
            state.storage.replace(self.before_last_step(name))
        return [array_in(output) for output in self.session.run([*arrays, np.array(factor, np.float32)])]

    def before_last_step(self, name: str) -> Array:
        """A state of random numbers, as the last step saw it."""
        now = np.array(self.parameters[name].storage.read())
        grown = growth(self.step, self.step.state(name))
        before = now - np.array(grown or 0, now.dtype)
        return before if before[1] >= 0 else now
