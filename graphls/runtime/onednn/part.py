"""A plan segment as calls of oneDNN."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.base.reporting import checked
from graphls.base.sharing.arrays import empty
from graphls.base.sharing.forks import renew_after_fork
from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.ir.types import Type
from graphls.runtime.bound import BoundStates
from graphls.runtime.buffers import SMALL, array_of
from graphls.runtime.engine import PlanContext
from graphls.runtime.onednn.fusion import groups_of
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program import Binding, Buffer, Program
from graphls.runtime.onednn.rules import joins, rule_of

Array = np.ndarray[Any, Any]

_SUCCESS: Mapping[int, None] = {0: None}
"""What becomes of the status of a call: any but 0 is a KeyError, which C raises without a line of Python."""


class OnednnPart(BoundStates):
    """One segment; each of its states that is written has two buffers.

    Arrays of the step are `small` ones, which are copied to and from arrays that stay bound, or are bound anew.
    """

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        graph = self.graph = segment.graph
        self.segment, self.context = segment, context
        self.parameters = {v.name: context.parameters[v.name] for v in graph.states}
        self.types = {v.name: v.type for v in graph.states}
        self.group = context.owner.group
        self.swapped = {name: context.swapped[name] for name in self.types if name in context.swapped}
        self.in_place = set()
        self.results: dict[Value, Array] = {}
        self._compile()
        renew_after_fork(self)

    def _compile(self) -> None:
        graph, shared = self.graph, self.context.boundary_buffers
        program = self.program = Program(graph, groups_of(graph, rule_of, joins))
        count = len(graph.inputs)
        inputs = list(zip(graph.inputs, program.inputs, strict=False))
        outputs = list(zip(self.segment.gives, program.outputs, strict=False))
        writes = zip(graph.writes, program.outputs[len(graph.outputs) :], strict=True)
        self.old = dict(zip((v.name for v in graph.states), program.inputs[count:], strict=True))
        self.new = {write.state.name: buffer for write, buffer in writes}
        self.fed = [(v, buffer) for v, buffer in inputs if v not in shared]
        self.step_outputs = [(v, buffer) for v, buffer in outputs if v not in shared]
        ends = (*self.fed, *self.step_outputs)
        self.small = {buffer: self._empty(v.type) for v, buffer in ends if v.type.nbytes <= SMALL}
        fixed = {buffer: shared[v] for v, buffer in (*inputs, *outputs) if v in shared}
        self.arrays: dict[Buffer, Array] = {**fixed, **self.small, **program.constants}
        self.arena = checked(empty, (program.size,), np.uint8)
        self.is_ready = True
        self.forget_bindings()

    def renew(self) -> None:
        """In a forked process, prepare the calls again at the next step: the threads of the first are not there."""
        self.is_ready = False
        self.forget_bindings()

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """Bind what this step is fed and gives."""
        self.group = self.context.owner.group
        binding: Binding = self.turn()
        for value, buffer in self.fed:
            array = array_of(fed[value], value.type.dtype.numpy)
            if buffer in self.small:
                self.small[buffer][...] = array
            else:
                binding.move(buffer, array)
        for value, buffer in self.step_outputs:
            if buffer not in self.small:
                self.results[value] = self._empty(value.type)
                binding.move(buffer, self.results[value])
        self.left = iter(binding.calls)
        return partial(deque, map(_SUCCESS.__getitem__, map(partial.__call__, self.left)), 0)

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer."""
        results, self.results = self.results, {}
        results.update((v, self.small[buffer].copy()) for v, buffer in self.step_outputs if buffer in self.small)
        return results

    def failed(self, error: Exception) -> Exception:
        """The user's error, with the line of the call; no state has been written."""
        if not isinstance(error, KeyError):
            return error
        call = self.program.calls[len(self.program.calls) - len(list(self.left)) - 1]
        text = f"oneDNN could not run a {call.kind}: {library().status(error.args[0])}."
        return GraphRuntimeError(text).at(call.node.loc if call.node else None)

    def invalidate(self, reason: str) -> None:
        """Nothing is written in place."""

    def _reopen(self) -> None:
        if not self.is_ready:
            self._compile()

    def _is_local(self, buffer: Any) -> bool:
        return isinstance(buffer, np.ndarray)

    def _to_local(self, array: Array) -> Array:
        return array

    def _empty(self, kind: Type) -> Array:
        return checked(empty, kind.shape, kind.dtype.numpy)

    def _binding(self, turn: int) -> Binding:
        arrays = dict(self.arrays)
        for name, buffer in self.old.items():
            old, new = self._buffers(name)
            arrays[buffer] = old
            if name in self.new:
                arrays[self.new[name]] = new
        return self.program.bind(self.arena, arrays)
