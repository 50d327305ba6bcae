"""A plan segment that the reference interpreter runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.base.sharing.storage import array_in
from graphls.ir.graph import Value, Write
from graphls.ir.interpret import Watch, interpret
from graphls.ir.plan import Segment

if TYPE_CHECKING:
    from graphls.runtime.engine import PlanContext


class InterpretedPart:
    """One segment, run node by node; its states have two buffers, one of which is written."""

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
        """Put what crosses into its buffer, unless it lies there, and new states into the buffers that are next."""
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
        """Put the new value of a state where it will be when the step is complete."""
        storage, version = self.context.parameters[write.state.name].storage, self.context.swapped[write.state.name]
        if storage.version is not version:
            storage.move(storage.local_array())
            storage.swap_with(np.empty_like(storage.current), version)
        storage.buffers[1 - storage.index][...] = array

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer."""
        found, self.results = self.results, {}
        return found

    def failed(self, error: Exception) -> Exception:
        """The error itself, which is the user's; no state has been written."""
        return error

    def invalidate(self, reason: str) -> None:
        """Nothing is written in place."""


def _readable(buffer: Any, value: Value) -> Any:
    """An array as the function may read it, in the dtype of a value, which crosses as a wider one."""
    array = array_in(buffer).astype(value.type.dtype.numpy, copy=False).view()
    array.flags.writeable = False
    return array
