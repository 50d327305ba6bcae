"""Runs a plan: its segments in order, each by its engine, on shared boundary buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from graphls.base.sharing.storage import Version
from graphls.base.sharing.threads import Task
from graphls.distributed.communication_thread import enqueue
from graphls.ir.engines import find_engine
from graphls.ir.graph import Graph, Value
from graphls.ir.plan import Segment, background_segments, flattened, plan_of
from graphls.runtime.boundary_buffers import boundary_buffers
from graphls.runtime.devices import Cuda, kind_of
from graphls.runtime.engine import Fuses, Overlaps, Part, PlanContext
from graphls.runtime.host_random import HostValues
from graphls.runtime.kernels import FusedKernel
from graphls.runtime.session import Changes, Inputs, Session
from graphls.runtime.states import HasStorage


class PlanSession(Session):
    """A plan whose parts are bound to one set of buffers.

    The parts that write states in place run in one call into C together with what counts the step, so that a Ctrl-C
    or a failure before them changes nothing. What earlier parts write goes to second buffers, which become the states
    with the count of the step; the deferred ones have a version of their own for that. Parts that only communicate run
    on the thread for that, beside those that need not wait for them.
    """

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], device: str | Cuda = "cpu") -> None:
        super().__init__(parameters)
        self.plan = plan = plan_of(graph)
        self.device = kind_of(device)
        self.boundary_buffers = boundary_buffers(plan)
        self.swaps = bool(plan.swapped)
        self.updates = Version()
        versions = {name: self.updates if name in plan.deferred else self.version for name in plan.swapped}
        pre_flag = frozenset(plan.before if plan.flag else ())
        self.context = PlanContext(self, plan, parameters, device, versions, self.boundary_buffers, pre_flag)
        self.outputs = [(v, self._narrowed(v)) for v in graph.outputs]
        self.host = HostValues(flattened(graph), plan.host_random)
        self.random_state = parameters[plan.host_random[0].inputs[0].name].storage if plan.host_random else None
        before = [self.open_part(segment) for segment in plan.before]
        self.branches = [[self.open_part(segment) for segment in branch] for branch in plan.branches]
        after = [self.open_part(segment) for segment in plan.after]
        first = next((i for i, part in enumerate(before) if _writes_in_place(part)), len(before))
        cut = len(before) if plan.branches else first
        self.parts = [*before, *chain.from_iterable(self.branches), *after]
        self.first, self.last = before[:cut], [*before[cut:], *after]
        self.background_segments = background_segments(plan)
        self.waiting: dict[int, list[int]] = {}
        for number, end in self.background_segments.items():
            self.waiting.setdefault(end, []).append(number)
        self.tasks: dict[int, Task[object]] = {}
        only = self.parts[0] if len(self.parts) == 1 and self.random_state is None else None
        self.overlapping = only if isinstance(only, Overlaps) and only.overlap() else None

    def open_part(self, segment: Segment) -> Part:
        """A segment, opened by its engine."""
        part: Part = find_engine(segment.engine).open(segment, self.context)
        return part

    def kernels(self) -> dict[int, list[FusedKernel]]:
        """The kernels of each segment, by its number, whose engine knows what it computes together."""
        return {number: part.kernels() for number, part in enumerate(self.parts) if isinstance(part, Fuses)}

    def _narrowed(self, value: Value) -> Any:
        """The dtype of a result that lies in a buffer of a wider one; None for another."""
        kind = value.type.dtype.numpy
        return kind if value in self.boundary_buffers and self.boundary_buffers[value].dtype != kind else None

    def step(self, inputs: Inputs) -> list[Any]:
        """One step; the outputs as arrays, or as buffers of a device where a part computes on one."""
        state = self.random_state
        random_arrays = [] if state is None else self.host.draw(state)
        values = (*self.plan.graph.inputs, *(node.output for node in self.plan.host_random))
        fed = dict(zip(values, (*inputs, *random_arrays), strict=True))
        if self.first:
            self._run_first(fed)
        parts = [*self._chosen(), *self.last] if self.branches else self.last
        calls = [part.begin(fed) for part in parts]
        if self.swaps:
            self._note_swaps([*self.first, *parts])
        if state is None:
            self._finish(parts, calls)
        else:
            self.host.count(state, partial(self._finish, parts, calls))
        results: dict[Value, Any] = {}
        for part in (*self.first, *parts):
            results.update(part.end())
        return [results[v] if v in results else np.array(self.boundary_buffers[v], dtype) for v, dtype in self.outputs]

    def wait(self) -> None:
        """Wait for what runs beside Python; a step that fails there is not counted."""
        if self.overlapping is None:
            return
        try:
            self.overlapping.wait()
        except Exception as error:
            self.version.ticks -= 1
            raise self.parts[0].failed(error) from error

    def _chosen(self) -> Sequence[Part]:
        """The parts of the branch that the flag asks for."""
        if self.plan.flag is None:
            return ()
        return self.branches[0 if self.boundary_buffers[self.plan.flag] else 1]

    def _run_first(self, fed: Mapping[Value, Any]) -> None:
        """Run the parts that write no state in place; what only communicates runs beside those that need not wait."""
        for task in self.tasks.values():  # of a step that has failed, which may still read and write what crosses
            task.wait()
        self.tasks.clear()
        for number, part in enumerate(self.first):
            for earlier in self.waiting.get(number, ()):
                self._join(earlier)
            if number in self.background_segments:
                self.tasks[number] = enqueue(part.begin(fed))
            else:
                self._run(part, fed)
        for number in list(self.tasks):
            self._join(number)

    def _join(self, number: int) -> None:
        """Wait for a part that runs beside others."""
        try:
            self.tasks[number].result()
        except Exception as error:
            raise self.first[number].failed(error) from error
        del self.tasks[number]

    def _run(self, part: Part, fed: Mapping[Value, Any]) -> None:
        """Run a part that writes no state in place."""
        call = part.begin(fed)
        try:
            call()
        except Exception as error:
            raise part.failed(error) from error

    def _deferred_commit(self) -> Changes:
        """The commit of the deferred states, where the flag allows it."""
        if self.plan.deferred and self.plan.flag and not self.boundary_buffers[self.plan.flag]:
            yield self.updates, "ticks", self.updates.ticks + 1

    def _note_swaps(self, parts: Sequence[Part]) -> None:
        """Let other sessions look where the states are that this step swaps; these parts know it already."""
        before = self.group.changes
        self.group.changes = before + 1
        for part in parts:
            if part.seen == before:
                part.seen = before + 1

    def _finish(self, parts: Sequence[Part], calls: Sequence[partial[object]]) -> None:
        """Run the last parts and count the step, in one call into C."""
        left: Iterator[partial[object]] = iter(calls)
        try:
            self.complete_all(left, self._deferred_commit())
        except Exception as error:
            failed = len(calls) - len(list(left)) - 1
            failure = parts[failed].failed(error)
            for part in parts[:failed]:
                part.invalidate(str(failure))
            raise failure from error


def _writes_in_place(part: Part) -> bool:
    return any(write.in_place for write in part.graph.writes)
