"""A plan segment as a program of XLA."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, repeat, starmap
from operator import attrgetter, itemgetter
from threading import RLock
from time import monotonic
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError
from graphls.base.reporting import checked
from graphls.base.sharing.arrays import empty
from graphls.base.sharing.forks import renew_after_fork
from graphls.distributed.peers import Peers
from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.ir.types import Type
from graphls.runtime.bound import BoundStates
from graphls.runtime.devices import kind_of
from graphls.runtime.engine import PlanContext
from graphls.runtime.kernels import FusedKernel
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.xla.buffers import XlaBuffer
from graphls.runtime.xla.crossing import cells_of, crossing_ends, spent_values
from graphls.runtime.xla.failures import failure, out_of_range, remove_notes
from graphls.runtime.xla.indices import IndexTests
from graphls.runtime.xla.inputs import Inputs
from graphls.runtime.xla.library import load_jax, require_own_process
from graphls.runtime.xla.low_products import with_low_products
from graphls.runtime.xla.placement import Placement
from graphls.runtime.xla.processes import of_first, require_same, spread
from graphls.runtime.xla.program import Program

Array = np.ndarray[Any, Any]
HOLDS: Mapping[bytes, None] = {b"\x01": None}
"""What becomes of a bool of a program: where it is false, a KeyError, which C raises without Python."""

ARRAY = attrgetter("array")
PROGRAMS = "xla programs"
MESHES = RLock()
"""Programs on the devices of a divided CPU run one at a time: devices of two would wait for threads of one pool."""


class XlaPart(BoundStates):
    """One segment, whose states lie in arrays of JAX, except for those that segments of other engines see as well.

    The latter lie in arrays of NumPy, from which and to which each step copies them.

    A step is one call into C: it runs the program, puts the new states and results into their cells, waits for the
    program by reading whether all indices were in range, and copies what crosses to another segment.
    """

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        self.segment, self.context = segment, context
        self.jax, self.placement = load_jax(), Placement(segment.graph, context.device, segment.stage)
        self.rewritten = with_low_products(self.jax, segment.graph, self.placement.devices[0])
        graph = self.graph = self.rewritten.graph
        self.parameters = {v.name: context.parameters[v.name] for v in graph.states}
        others = [s.graph for s in context.plan.segments if s.engine != segment.engine]
        self.on_host = {v.name for other in others for v in other.states}
        self.types: dict[str, Type] = {v.name: self._exchanged(v) for v in graph.states}
        self.places = {v.name: self.placement.of(v) for v in graph.states}
        self.group = context.owner.group
        self.swapped = {name: context.swapped[name] for name in self.types if name in context.swapped}
        self.in_place = {w.state.name for w in graph.writes if w.in_place}
        self.on_cpu = kind_of(context.device) == "cpu"
        inner = zip(graph.outputs, segment.gives, strict=True)
        shared = context.boundary_buffers
        boundary = {*(v for v in graph.inputs if v in shared), *(own for own, value in inner if value in shared)}
        self.peers = Peers.current if self.placement.is_spread else None
        self.cells, self.last_read = cells_of(segment, context.plan, context.private)
        self.outdated = [cell.copies for cell in (*self.last_read, *map(self.cells.get, segment.gives)) if cell]
        elsewhere = {*shared, *self.cells}
        own = () if self.peers else (v for v in graph.inputs if v not in elsewhere)  # all processes raise, or none
        self.indices = IndexTests(graph, own)
        self.program = self._compiled(boundary)
        self.status, self.each = XlaBuffer(), XlaBuffer()
        self.inputs = Inputs(self.program, shared, self.cells, self.peers)
        self.results = [self.cells.get(value) or XlaBuffer() for value in segment.gives]
        results = [*zip(self.results, segment.gives, strict=True)]
        self.crossing = {cell: shared[value] for cell, value in results if value in shared}
        ends = {*context.plan.graph.outputs}
        self.own_results = {v: cell for cell, v in results if v not in elsewhere or v in ends - shared.keys()}
        self.takes_turns = self.placement.divides_cpu
        may_fail_or_write = bool(graph.writes) or self.program.keeps_states
        self.waits = segment.stage is None or may_fail_or_write or self.takes_turns or self.peers is not None
        self.forget_bindings()
        renew_after_fork(self)

    def _compiled(self, boundary: set[Value]) -> Program:
        graph, gives = self.graph, zip(self.graph.outputs, self.segment.gives, strict=True)
        places = {v: cell.place for v, cell in self.cells.items()}
        crossing = crossing_ends(self.segment, self.context.plan, self.placement, places)
        spent = spent_values(self.segment, self.context.plan)
        results = {own: self.cells[v] for own, v in gives if v in self.cells}
        compiled_ones = None if self.segment.stage is None else self.context.forms.setdefault(PROGRAMS, {})
        try:
            program = Program(
                self.jax, graph, self.placement, boundary, self.indices.nodes, crossing, spent, compiled_ones
            )
            for own, cell in results.items():
                cell.place = program.result_places[own]
            return program
        except GraphlsError as error:
            remove_notes(error)
            raise
        except Exception as error:
            raise failure(self.jax, error, self.graph) or error from None

    def renew(self) -> None:
        """In a forked process, let the next step raise: the threads of XLA are not there."""
        self.forget_bindings()

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """A call into C that runs the program on the inputs of this step."""
        self.group = self.context.owner.group
        self.indices.check(fed)
        inputs = self.inputs.of(fed)
        if self.peers is not None:
            self.peers.begin_program()
        old, new, copied = self.turn()
        states = self._states(old) if self.on_host else [cell.array for cell in old]
        self.program.call.prepare(inputs, states)
        # Where indices are tested in the program, new states wait for the tests.
        waiting = [XlaBuffer() for _ in new] if self.program.keeps_states else new
        results = chain.from_iterable(starmap(self.program.call.run, [(*inputs, *states)]))
        calls: list[Iterable[object]] = [
            map(setattr, (*waiting, self.status, self.each, *self.results), repeat("array"), results)
        ]
        if self.waits:
            calls.append(map(HOLDS.__getitem__, map(bytes, self._read([self.status]))))
        if self.last_read:
            calls.append(map(setattr, self.last_read, repeat("array"), repeat(None)))
        if self.outdated:
            calls.append(map(dict.clear, self.outdated))
        if self.takes_turns:
            calls = [starmap(MESHES.acquire, [()]), *calls, starmap(MESHES.release, [()])]
        if waiting is not new:
            calls.append(map(setattr, new, repeat("array"), map(ARRAY, waiting)))
        if self.crossing:
            calls.append(map(np.copyto, self.crossing.values(), self._read(self.crossing)))
        if copied:
            calls.append(map(np.copyto, copied.values(), map(np.asarray, map(ARRAY, copied))))
        if self.peers is not None:  # which ends a step that takes longer than its time limit
            calls.insert(0, map(setattr, [self.peers], ["begun"], starmap(monotonic, [()])))
            calls.append(map(setattr, [self.peers], ["begun"], [None]))
        return partial(deque, chain.from_iterable(calls), 0)

    def overlap(self) -> bool:
        """Whether steps run until `wait` returns from now on: not where they test indices or share devices or cells."""
        needs = self.program.keeps_states or self.takes_turns or self.peers or self.crossing or self.on_host
        self.waits = self.waits and bool(needs)
        return not needs

    def wait(self) -> None:
        """Wait for the program of this step."""
        deque(self._read([self.status]), 0)

    def _exchanged(self, state: Value) -> Type:
        return exchanged(state.type) if state.name in self.on_host else state.type

    def _states(self, buffers: list[Any]) -> list[Any]:
        """The arrays of JAX with the values of states, whose memory the program may take."""
        return [
            b.array if isinstance(b, XlaBuffer) else self._on_device(v.name, b.astype(v.type.dtype.numpy))
            for b, v in zip(buffers, self.graph.states, strict=True)
        ]

    def _on_device(self, name: str, array: Array) -> Any:
        with self.jax.enable_x64(True):
            if self.peers is None:
                return self.jax.device_put(array, self.places[name])
            return spread(self.jax, array, (), array.shape, self.places[name])

    def _read(self, cells: Iterable[XlaBuffer]) -> Iterable[Any]:
        """The content of cells on the host, which waits for the program; on a CPU without Python and without a copy."""
        if not self.on_cpu:
            return map(np.asarray, map(ARRAY, cells))
        # What all devices have is read on the first; a public way to it would be a function of Python.
        return map(memoryview, map(itemgetter(0), map(attrgetter("array._arrays"), cells)))

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer, unread; no step donates their memory."""
        results = {v: XlaBuffer(cell.array) for v, cell in self.own_results.items()}
        for cell in self.results:
            cell.array = None
        return results

    def failed(self, error: Exception) -> Exception:
        """The user's error; states are intact where an index was out of range."""
        with suppress(RuntimeError):  # of a lock that this thread does not hold
            MESHES.release()
        if isinstance(error, KeyError) and self.each.array is not None:
            node = self.program.checks[int(np.argmin(np.asarray(self.each.array)))]
            return out_of_range(node)
        if self.peers is not None:
            self.peers.begun = None
            self.peers.settle()
        if not self.program.keeps_states:
            self._invalidate(self.in_place, str(error).partition("\n")[0])
        return failure(self.jax, error, self.graph) or error

    def kernels(self) -> list[FusedKernel]:
        """The kernels of the program, each with the nodes that XLA fused into it."""
        kernels, origin = self.program.kernels(), self.rewritten.origin
        return [replace(kernel, nodes=tuple(dict.fromkeys(map(origin, kernel.nodes)))) for kernel in kernels]

    def invalidate(self, reason: str) -> None:
        """Invalidate the states that this segment has written in place."""
        self._invalidate(self.in_place, reason)

    def _reopen(self) -> None:
        require_own_process()

    def _is_fit(self, name: str, buffer: Any) -> bool:
        if name in self.on_host:
            return isinstance(buffer, np.ndarray) and buffer.dtype == self.types[name].dtype.numpy
        if not isinstance(buffer, XlaBuffer) or buffer.array.dtype != self.types[name].dtype.numpy:
            return False
        return bool(buffer.array.sharding == self.places[name])

    def _fit(self, name: str, array: Array) -> Any:
        own = array if self.peers is None else of_first(self.peers, name, array)
        return own if name in self.on_host else XlaBuffer(self._on_device(name, np.array(own)))

    def _moved(self, name: str, buffer: Any, dtype: np.dtype[Any]) -> Any:
        """A buffer for a state; of one in files, each device reads the part that it has."""
        if name in self.on_host or not hasattr(buffer, "region"):
            return super()._moved(name, buffer, dtype)
        if self.peers is not None:
            require_same(self.peers, name, [str(buffer.dtype), list(buffer.shape), buffer.source])

        def part(region: tuple[slice, ...]) -> Array:
            return buffer.region(region).astype(dtype, copy=False)  # type: ignore[no-any-return]

        with self.jax.enable_x64(True):
            return XlaBuffer(self.jax.make_array_from_callback(buffer.shape, self.places[name], part))

    def _second(self, name: str) -> Any:
        kind = self.types[name]
        return checked(empty, kind.shape, kind.dtype.numpy) if name in self.on_host else XlaBuffer()

    def _binding(self, turn: int) -> tuple[list[Any], list[XlaBuffer], dict[XlaBuffer, Array]]:
        """The buffers of the old states, the cells of the new ones, and those among these that are copied to arrays."""
        old = [self._buffers(v.name)[0] for v in self.graph.states]
        new = [self._buffers(write.state.name)[1] for write in self.program.writes]
        cells = [buffer if isinstance(buffer, XlaBuffer) else XlaBuffer() for buffer in new]
        return old, cells, {cell: buffer for cell, buffer in zip(cells, new, strict=True) if cell is not buffer}
