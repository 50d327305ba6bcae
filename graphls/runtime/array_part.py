"""Parts that run on NumPy arrays: the states, inputs and outputs that engines of the CPU bind alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from graphls.base.reporting import checked
from graphls.base.sharing.arrays import empty
from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.ir.types import Type
from graphls.runtime.bound import BoundStates
from graphls.runtime.buffers import SMALL, array_of
from graphls.runtime.engine import PlanContext
from graphls.runtime.lowering.types import exchanged

Array = np.ndarray[Any, Any]
Ends = Iterable[tuple[Any, Value]]
"""Inputs or outputs of a segment, each with the key by which the engine binds it."""


class ArrayBinding(Protocol):
    """What an engine runs on."""

    def bind(self, key: Any, array: Array) -> None:
        """Read or write this array, in row-major order, from now on."""


class ArrayPart(BoundStates):
    """One segment.

    `small` inputs and outputs of the step are copied to and from arrays that stay bound, others are bound in each step.
    """

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        graph = self.graph = segment.graph
        self.segment, self.context = segment, context
        self.parameters = {v.name: context.parameters[v.name] for v in graph.states}
        self.types = {v.name: exchanged(v.type) for v in graph.states}
        self.group = context.owner.group
        self.swapped = {name: context.swapped[name] for name in self.types if name in context.swapped}
        self.in_place = set()
        self.results: dict[Value, Array] = {}

    def set_ends(self, inputs: Ends, outputs: Ends) -> None:
        """Set the inputs and outputs of the segment, in boundary buffers or of the step."""
        inputs, outputs, shared = list(inputs), list(outputs), self.context.boundary_buffers
        self.fed = [(key, exchanged(v.type), v) for key, v in inputs if v not in shared]
        self.step_outputs = [(key, exchanged(v.type), v) for key, v in outputs if v not in shared]
        self.boundary_buffers = [(key, shared[v]) for key, v in (*inputs, *outputs) if v in shared]
        ends = (*self.fed, *self.step_outputs)
        self.small = {key: self._empty(kind) for key, kind, _ in ends if kind.nbytes <= SMALL}

    def bind_step(self, binding: ArrayBinding, fed: Mapping[Value, Any]) -> None:
        """Bind the inputs and results of this step."""
        for key, kind, value in self.fed:
            array = array_of(fed[value], kind.dtype.numpy)
            if key in self.small:
                self.small[key][...] = array
            else:
                binding.bind(key, array)
        for key, kind, value in self.step_outputs:
            if key not in self.small:
                self.results[value] = self._empty(kind)
                binding.bind(key, self.results[value])

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer, in the dtypes of the graph."""
        results, self.results = self.results, {}
        results.update((value, self.small[key].copy()) for key, _, value in self.step_outputs if key in self.small)
        return {value: array.astype(value.type.dtype.numpy, copy=False) for value, array in results.items()}

    def invalidate(self, reason: str) -> None:
        """Nothing is written in place."""

    def _is_fit(self, name: str, buffer: Any) -> bool:
        return isinstance(buffer, np.ndarray) and buffer.dtype == self.types[name].dtype.numpy

    def _fit(self, name: str, array: Array) -> Any:
        return array

    def _second(self, name: str) -> Any:
        return self._empty(self.types[name])

    def _empty(self, kind: Type) -> Array:
        return checked(empty, kind.shape, kind.dtype.numpy)
