"""A plan segment as calls of oneDNN."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.base.reporting import checked
from graphls.base.sharing.arrays import empty, zeros
from graphls.base.sharing.forks import renew_after_fork
from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.runtime.array_part import Array, ArrayPart
from graphls.runtime.engine import PlanContext
from graphls.runtime.onednn.blocked import BlockedArray
from graphls.runtime.onednn.fusion import groups_of
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.narrow_products import with_narrow_products
from graphls.runtime.onednn.numpy_nodes import Interpreted
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.bound import Binding
from graphls.runtime.onednn.program.calls import AnyCall
from graphls.runtime.onednn.program.program import Program
from graphls.runtime.onednn.rules import joins, rule_of, takes
from graphls.runtime.onednn.state_layouts import StateLayouts, layouts_of
from graphls.runtime.threads import thread_limit

SUCCESS: Mapping[int | None, None] = {0: None, None: None}
"""What becomes of the status of a call: any but 0, or None for NumPy, is a KeyError, which C raises without Python."""


class OnednnPart(ArrayPart):
    """One segment as a program, whose buffers outside are the arrays that are bound."""

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        super().__init__(segment, context)
        self._compile()
        renew_after_fork(self)

    def _compile(self) -> None:
        self.is_ready = False
        self.limit = thread_limit()
        library().limit_threads(self.limit)
        self.rewritten = with_narrow_products(self.graph)
        graph, private = self.rewritten.graph, self.context.private
        inputs, gives = graph.inputs, self.segment.gives
        may_stay = self._private_values()
        for value in gives:
            private.pop(value, None)
        fed = {v: private[v][0] for v in inputs if v in private}
        seen = {v for v, value in zip(graph.outputs, gives, strict=True) if value not in may_stay}
        free = {*graph.outputs} - seen
        layouts = self.layouts = self._state_layouts()
        program = self.program = Program(graph, groups_of(graph, rule_of, joins, takes), fed, free, layouts.values)
        ends = [list(zip(program.inputs, inputs, strict=True)), list(zip(program.outputs, gives, strict=True))]
        for v, (buffer, value) in zip(graph.outputs, ends[1], strict=True):
            if v in program.layouts and buffer.memory is buffer:
                private[value] = program.layouts[v], checked(empty, (buffer.size,), np.uint8)
        stays = {buffer: private[v][1] for buffer, v in (*ends[0], *ends[1]) if v in private}
        self.set_ends(*([(buffer, v) for buffer, v in pairs if buffer not in stays] for pairs in ends))
        self.old = {state.name: buffer for state, buffer in program.states.items()}
        writes = zip(graph.writes, program.new_states, strict=True)
        self.new = {write.state.name: buffer for write, buffer in writes}
        self.sparse = {buffer.memory: checked(zeros, (buffer.size,), np.uint8) for buffer in program.sparse}
        lasting = {**program.constants, **self.sparse, **stays}
        self.arrays: dict[Buffer, Array] = {**dict(self.boundary_buffers), **self.small, **lasting}
        self.arena = checked(empty, (program.size,), np.uint8)
        self.is_ready, self.is_running = True, False
        self.forget_bindings()

    def _state_layouts(self) -> StateLayouts:
        """The layouts of states, which the first part of the plan chooses that sees them elsewhere."""
        name, forms = self.segment.engine, self.context.forms
        if name not in forms or not forms[name].are_current(self.context):
            forms[name] = layouts_of(self.context, name)
        layouts: StateLayouts = forms[name]
        return layouts

    def _private_values(self) -> set[Value]:
        """The values of the plan that only segments of this engine read, so that they may have any layout."""
        plan, name = self.context.plan, self.segment.engine
        own = {v for segment in plan.segments if segment.engine == name for v in segment.graph.inputs}
        others = {v for segment in plan.segments if segment.engine != name for v in segment.graph.inputs}
        return own - others - {*plan.graph.outputs, plan.flag, *(write.value for write in plan.graph.writes)}

    def renew(self) -> None:
        """In a forked process, prepare the calls again at the next step: the threads of the first are not there."""
        self.is_ready = False
        self.forget_bindings()

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """Bind the inputs and results of this step."""
        self.group = self.context.owner.group
        binding: Binding = self.turn()
        library().limit_threads(self.limit)
        if self.is_running:
            for array in self.sparse.values():  # of a step that has failed
                array.fill(0)
        self.is_running = True
        self.bind_step(binding, fed)
        self.left = iter(binding.calls)
        return self._running(self.left)

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer."""
        self.is_running = False
        return super().end()

    def _running(self, calls: Iterator[partial[Any]]) -> partial[object]:
        """A callable that makes all calls."""
        return partial(deque, map(SUCCESS.__getitem__, map(partial.__call__, calls)), 0)

    def failed(self, error: Exception) -> Exception:
        """The user's error, with the line of the call; states that have been overwritten before are invalidated."""
        calls = self.program.calls[: len(self.program.calls) - len(list(self.left))]
        failure = self._failure(calls[-1], error)
        written = {buffer.memory for call in calls for buffer in call.writes}
        self._invalidate([name for name in self._overwritten if self.old[name] in written], str(failure))
        return failure

    def _failure(self, call: AnyCall, error: Exception) -> Exception:
        if isinstance(call, Interpreted):
            return call.failed(error)
        if not isinstance(error, KeyError):
            return error
        text = f"oneDNN could not run a {call.kind}: {library().status(error.args[0])}."
        return GraphRuntimeError(text).at(call.node.loc if call.node else None)

    def invalidate(self, reason: str) -> None:
        """Invalidate the states that this segment has overwritten."""
        self._invalidate(self._overwritten, reason)

    @property
    def _overwritten(self) -> list[str]:
        return [write.state.name for write in self.graph.writes if write.in_place]

    def _reopen(self) -> None:
        if not self.is_ready or self._state_layouts() is not self.layouts:
            self._compile()

    def _is_fit(self, name: str, buffer: Any) -> bool:
        layout = self.layouts.states.get(name)
        if layout is None:
            return super()._is_fit(name, buffer)
        return isinstance(buffer, BlockedArray) and buffer.layout.equals(layout)

    def _fit(self, name: str, array: Array) -> Any:
        layout = self.layouts.states.get(name)
        if layout is None:
            return super()._fit(name, array)
        return BlockedArray.of(array, self.types[name], layout, self.limit, bool(self.context.plan.graph.writes))

    def _second(self, name: str) -> Any:
        layout = self.layouts.states.get(name)
        return super()._second(name) if layout is None else BlockedArray(self.types[name], layout, self.limit)

    def _binding(self, turn: int) -> Binding:
        arrays = dict(self.arrays)
        for name, buffer in self.old.items():
            old, new = (b.bytes if isinstance(b, BlockedArray) else b for b in self._buffers(name))
            arrays[buffer] = old
            if name in self.new:
                arrays[self.new[name]] = new
        return self.program.bind(self.arena, arrays)
