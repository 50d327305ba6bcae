"""A plan segment in an ONNX Runtime session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.runtime.engine import PlanContext
from graphls.runtime.onnxruntime.arena import has_common_arena
from graphls.runtime.onnxruntime.ort import OrtSession


class OrtPart(OrtSession):
    """One segment; what crosses between segments is bound once, where the states are."""

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
        given = (shared[v] for v in segment.gives if v in shared)
        self.on_host = {id(array) for array in (*given, *(array for _, array in self.boundary_buffers))}
        self.results: list[Any] = []

    def _options(self) -> Any:
        options = super()._options()
        # The threads of a session go on looking for work when its run has ended, and would take the cores of the next.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        if self.device == "cpu" and has_common_arena(self.runtime):
            options.add_session_config_entry("session.use_env_allocators", "1")
        return options

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """Bind what this step is fed and gives."""
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
        """Mark the states that this segment has written."""
        self._mark_torn(self.in_place, reason)

    def _binding(self, turn: int) -> Any:
        binding = super()._binding(turn)
        for name, array in self.boundary_buffers:
            binding.bind_ortvalue_input(name, self._on_host(array))
        return binding

    def _value(self, buffer: Any) -> Any:
        return self._on_host(buffer) if id(buffer) in self.on_host else super()._value(buffer)

    def _on_host(self, array: np.ndarray[Any, Any]) -> Any:
        return self.runtime.OrtValue.ortvalue_from_numpy(array)
