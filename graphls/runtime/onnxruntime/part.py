"""A plan segment in an ONNX Runtime session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.runtime.engine import PlanContext
from graphls.runtime.onnxruntime.session import OrtSession
from graphls.runtime.onnxruntime.session_options import take_turns


class OrtPart(OrtSession):
    """One segment; boundary buffers are bound once, like the states."""

    in_any_shape = True

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        graph = segment.graph
        super().__init__(graph, {v.name: context.parameters[v.name] for v in graph.states}, context.device)
        self.context = context
        self.in_place = {w.state.name for w in graph.writes if w.in_place}
        self.swapped = {name: context.swapped[name] for name in self.types if name in context.swapped}
        shared = context.boundary_buffers
        pairs = list(zip(self.inputs, graph.inputs, strict=True))
        self.boundary_buffers = [(name, shared[v]) for (name, _), v in pairs if v in shared]
        self.fed = [(name, dtype, v) for (name, dtype), v in pairs if v not in shared]
        self.gives = segment.gives
        for i, value in enumerate(segment.gives):
            if value in shared:
                self.buffers[i], self.small[i] = shared[value], False
        outputs = (shared[v] for v in segment.gives if v in shared)
        self.on_host = {id(array) for array in (*outputs, *(array for _, array in self.boundary_buffers))}
        self.results: list[Any] = []

    def _options(self) -> Any:
        options = super()._options()
        take_turns(options, self.runtime, self.device == "cpu")
        return options

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """Bind the inputs and results of this step."""
        self.group = self.context.owner.group
        binding = self.turn()
        for name, dtype, value in self.fed:
            self._bind_input(binding, name, dtype, fed[value])
        if self.device != "cpu":
            for name, array in self.boundary_buffers:  # the runtime copies to a device when it binds
                binding.bind_cpu_input(name, array)
        self.results = self._bind_outputs(binding)
        return partial(self.session._sess.run_with_iobinding, binding._iobinding, self._run_options(binding))

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer."""
        pairs = zip(self.gives, self._finished(self.results), strict=True)
        self.results = []
        return {value: array for value, array in pairs if value not in self.context.boundary_buffers}

    def invalidate(self, reason: str) -> None:
        """Invalidate the states that this segment has written in place."""
        self._invalidate(self.in_place, reason)

    def _binding(self, turn: int) -> Any:
        binding = super()._binding(turn)
        for name, array in self.boundary_buffers:
            binding.bind_ortvalue_input(name, self._on_host(array))
        return binding

    def _value(self, buffer: Any) -> Any:
        return self._on_host(buffer) if id(buffer) in self.on_host else super()._value(buffer)

    def _on_host(self, array: np.ndarray[Any, Any]) -> Any:
        return self.runtime.OrtValue.ortvalue_from_numpy(array)
