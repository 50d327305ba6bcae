"""A plan segment as a program of XLA."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from operator import attrgetter, itemgetter
from threading import RLock
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError
from graphls.base.reporting import checked
from graphls.base.sharing.arrays import empty
from graphls.base.sharing.forks import renew_after_fork
from graphls.base.sharing.storage import array_in
from graphls.distributed.own_parts import own_region
from graphls.distributed.peers import Peers
from graphls.ir.graph import Value
from graphls.ir.indices import host_indices
from graphls.ir.interpret import run_node
from graphls.ir.plan import Segment
from graphls.ir.types import Type
from graphls.primitives.indexing import axis_size
from graphls.runtime.bound import BoundStates
from graphls.runtime.buffers import SMALL, in_rows
from graphls.runtime.devices import kind_of
from graphls.runtime.engine import PlanContext
from graphls.runtime.kernels import FusedKernel
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.xla.buffers import XlaBuffer
from graphls.runtime.xla.failures import failure, out_of_range, remove_notes
from graphls.runtime.xla.fusions import fused_kernels
from graphls.runtime.xla.library import load_jax, require_own_process
from graphls.runtime.xla.placement import Placement
from graphls.runtime.xla.processes import of_first, require_same, require_same_inputs, spread
from graphls.runtime.xla.program import Program, as_words, is_wide
from graphls.runtime.xla.tracing import are_in_range

Array = np.ndarray[Any, Any]
HOLDS: Mapping[bytes, None] = {b"\x01": None}
"""What becomes of a bool of a program: where it is false, a KeyError, which C raises without Python."""

MESHES = RLock()
"""Programs on the devices of a divided CPU run one at a time: devices of two would wait for threads of one pool."""


class XlaPart(BoundStates):
    """One segment, whose states lie in arrays of JAX, except for those that segments of other engines see as well.

    The latter lie in arrays of NumPy, from which and to which each step copies them.

    A step is one call into C: it runs the program, puts the new states and results into their cells, waits for the
    program by reading whether all indices were in range, and copies what crosses to another segment.
    """

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        graph = self.graph = segment.graph
        self.segment, self.context = segment, context
        self.jax, self.placement = load_jax(), Placement(graph, context.device)
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
        own = () if self.peers else (v for v in graph.inputs if v not in shared)  # all processes raise, or none
        self.selections, self.indices = host_indices(graph, own)
        self.program = self._compiled(boundary)
        self.status, self.each = XlaBuffer(), XlaBuffer()
        self.results = [XlaBuffer() for _ in graph.outputs]
        crossing = zip(self.results, segment.gives, strict=True)
        self.crossing = {cell: shared[value] for cell, value in crossing if value in shared}
        self.takes_turns = self.placement.divides_cpu
        self.is_compared = False
        self.forget_bindings()
        renew_after_fork(self)

    def _compiled(self, boundary: set[Value]) -> Program:
        try:
            return Program(self.jax, self.graph, self.placement, boundary, self.indices)
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
        self._test_indices(fed)
        if self.peers is not None:
            self._compare(self.peers, fed)
            self.peers.begin_program()
        old, new, copied = self.turn()
        shared = self.context.boundary_buffers
        inputs = [self._placed(shared[v] if v in shared else fed[v], v) for v in self.graph.inputs]
        states = self._states(old) if self.on_host else [cell.array for cell in old]
        # Where indices are tested in the program, new states wait for the tests.
        waiting = [XlaBuffer() for _ in new] if self.program.keeps_states else new
        cells = (*waiting, self.status, self.each, *self.results)
        self.program.call.prepare(inputs, states)
        run = partial(self.program.call.run, *inputs, *states)
        calls: list[partial[Any]] = [
            _each(setattr, cells, repeat("array"), chain.from_iterable(map(partial.__call__, [run]))),
            _each(HOLDS.__getitem__, map(bytes, self._read([self.status]))),
        ]
        if self.takes_turns:
            calls = [partial(MESHES.acquire), *calls, partial(MESHES.release)]
        if waiting is not new:
            calls.append(_each(setattr, new, repeat("array"), map(attrgetter("array"), waiting)))
        if self.crossing:
            calls.append(_each(np.copyto, self.crossing.values(), self._read(self.crossing)))
        if copied:
            calls.append(_each(np.copyto, copied.values(), map(np.asarray, map(attrgetter("array"), copied))))
        return _each(partial.__call__, calls)

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

    def _compare(self, peers: Peers, fed: Mapping[Value, Any]) -> None:
        """In the first step, require that inputs that processes give completely are the same on all."""
        if not self.is_compared:
            arrays = {v: array_in(fed[v]) for v in self.graph.inputs if v in fed}
            require_same_inputs(peers, {str(v): array for v, array in arrays.items() if array.shape == v.type.shape})
            self.is_compared = True

    def _read(self, cells: Iterable[XlaBuffer]) -> Iterable[Any]:
        """The content of cells on the host, which waits for the program; on a CPU without Python and without a copy."""
        if not self.on_cpu:
            return map(np.asarray, map(attrgetter("array"), cells))
        # What all devices have is read on the first; a public way to it would be a function of Python.
        return map(memoryview, map(itemgetter(0), map(attrgetter("array._arrays"), cells)))

    def _test_indices(self, fed: Mapping[Value, Any]) -> None:
        """Raise GraphIndexError, with the line, for an input that is an index out of range."""
        arrays = {v: array_in(fed[v]) for v in self.graph.inputs if v in fed} if self.indices else {}
        for node in self.selections:
            arrays.update(zip(node.outputs, run_node(node, arrays), strict=True))
        for node, value in self.indices.items():
            if not are_in_range(arrays[value], axis_size(node)):
                raise out_of_range(node)

    def _placed(self, array: Any, value: Value) -> Any:
        """An input as the program takes it: it may share the memory of an array, as the step waits for the program."""
        kind = self.program.kinds[value]
        if isinstance(array, XlaBuffer) and not is_wide(kind) and array.array.sharding == self.program.place(value):
            return array.array
        own = in_rows(array_in(array), kind.dtype.numpy)
        own = own.reshape(-1).view(np.uint32).reshape(*own.shape, 2) if is_wide(kind) else own
        if self.peers is None:
            return own
        region, shape = (*own_region(self.graph, value), slice(0, 2)), as_words(kind).shape
        return spread(self.jax, own, region, shape, self.program.place(value))

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer."""
        shared = self.context.boundary_buffers
        pairs = zip(self.segment.gives, self.results, strict=True)
        results = {value: self._output(cell.array) for value, cell in pairs if value not in shared}
        for cell in self.results:
            cell.array = None
        return results

    def _output(self, array: Any) -> Any:
        """A result, which is copied to the host when it is read, small ones on a CPU at once; no step donates it."""
        return np.array(array) if self.on_cpu and array.nbytes <= SMALL else XlaBuffer(array)

    def failed(self, error: Exception) -> Exception:
        """The user's error; states are intact where an index was out of range."""
        with suppress(RuntimeError):  # of a lock that this thread does not hold
            MESHES.release()
        if isinstance(error, KeyError) and self.each.array is not None:
            node = self.program.checks[int(np.argmin(np.asarray(self.each.array)))]
            return out_of_range(node)
        if self.peers is not None:
            self.peers.settle()
        if not self.program.keeps_states:
            self._invalidate(self.in_place, str(error).partition("\n")[0])
        return failure(self.jax, error, self.graph) or error

    def kernels(self) -> list[FusedKernel]:
        """The kernels of the program, each with the nodes that XLA fused into it."""
        return list(fused_kernels(self.program.compiled, self.graph))

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


def _each(function: Any, *arguments: Iterable[Any]) -> partial[object]:
    """A callable that calls a function for arguments in turn, without Python."""
    return partial(deque, map(function, *arguments), 0)
