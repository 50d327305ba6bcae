"""Running a lowered graph in OpenVINO, with every state bound to its buffer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.backends.buffers import in_rows
from graphls.backends.devices import Cuda
from graphls.backends.draws import HostValues
from graphls.backends.onnx.indices import axis_size
from graphls.backends.onnx.lowering import Lowered, lower
from graphls.backends.onnx.types import exchanged
from graphls.backends.openvino.kernel_checks import is_right
from graphls.backends.openvino.model import Request, compiled
from graphls.backends.openvino.runtime import first_line
from graphls.backends.openvino.target import target
from graphls.backends.session import Inputs, Session
from graphls.backends.states import HasStorage
from graphls.ir.errors import GraphRuntimeError
from graphls.ir.graph import Graph, Node
from graphls.sharing.forks import keep_for_ever, renew_after_fork
from graphls.sharing.storage import Clock, Storage

Array = np.ndarray[Any, Any]


class OpenvinoSession(Session):
    """One graph in one model: inputs are bound each step, states once.

    A state that is written has two buffers, which change places after each step, as OpenVINO runs operators in an order
    of its own.
    """

    device = "cpu"

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], device: str | Cuda = "cpu") -> None:
        super().__init__(parameters)
        self.graph = graph
        self.lowered: Lowered = lower(graph, kernel_is_right=is_right, target=target())
        self.model: Any = compiled(self.lowered)
        self.types = {state.name: exchanged(state.type) for state in graph.states}
        inputs = zip(self.lowered.inputs, graph.inputs, strict=True)
        self.inputs = [(n, exchanged(v.type).dtype.numpy) for n, v in inputs]
        outputs = zip(self.lowered.outputs, graph.outputs, strict=True)
        self.outputs = [(name, exchanged(v.type), v.type.dtype.numpy) for name, v in outputs]
        self.host = HostValues(graph, [node for node, _ in self.lowered.host])
        random_states = [node.inputs[0].name for node, _ in self.lowered.host]
        self.random_state = self.parameters[random_states[0]].storage if random_states else None
        self.seen = -1
        self.requests: list[Request] = []
        self.bound: list[tuple[Storage, tuple[Any, ...], Clock | None, int]] = []
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked process, compile the model again at the next step: the threads of this one are not there."""
        keep_for_ever(self.model, *self.requests)
        self.model, self.requests, self.bound, self.seen = None, [], [], -1
        self.host.forget()

    def step(self, inputs: Inputs) -> list[Any]:
        """One step; the outputs as arrays."""
        drawn = [] if self.random_state is None else self.host.draw(self.random_state)
        if self.seen != self.group.changes:
            self._follow_changes()
        request = self.requests[self.clock.ticks & 1 if self.lowered.writes else 0]
        for (name, dtype), array in zip(self.inputs, inputs, strict=True):
            request.bind(name, in_rows(array if isinstance(array, np.ndarray) else array.numpy(), dtype))
        for (_, name), array in zip(self.lowered.host, drawn, strict=True):
            request.bind(name, array)
        results = [np.empty(kind.shape, kind.dtype.numpy) for _, kind, _ in self.outputs]
        for (name, _, _), array in zip(self.outputs, results, strict=True):
            request.bind(name, array)
        if self.lowered.writes:
            self.group.changes = self.seen = self.seen + 1
        if self.random_state is None:
            self._run(request)
        else:
            self.host.count(self.random_state, partial(self._run, request))
        return [r.astype(dtype, copy=False) for r, (_, _, dtype) in zip(results, self.outputs, strict=True)]

    def _run(self, request: Request) -> None:
        try:
            self.complete(*request.task())
        except IndexError as error:
            raise _index_fault(self.lowered.guarded[int(request.fault) - 1]) from error
        except RuntimeError as error:
            raise GraphRuntimeError(f"OpenVINO could not run the step: {first_line(error)}") from error

    def _follow_changes(self) -> None:
        """Bind every state to the buffers that hold it now, unless only others have got new ones."""
        self.model = self.model or compiled(self.lowered)
        if not self.requests or not all(map(self._is_current, self.bound)):
            for name in self.types:
                self._settle(name)
            self.requests = [self._request(turn) for turn in range(2 if self.lowered.writes else 1)]
            storages = [self.parameters[name].storage for name in self.types]
            self.bound = [(s, s.buffers, s.clock, s.index) for s in storages]
        self.seen = self.group.changes

    def _is_current(self, bound: tuple[Storage, tuple[Any, ...], Clock | None, int]) -> bool:
        storage, buffers, clock, index = bound
        if storage.buffers is not buffers or storage.clock is not clock:
            return False
        return clock is self.clock or storage.index == index

    def _settle(self, name: str) -> None:
        """Bring a state into one buffer or, where it is written, into two."""
        storage, kind = self.parameters[name].storage, self.types[name]
        buffer = storage.current
        if not isinstance(buffer, np.ndarray) or buffer.dtype != kind.dtype.numpy or not buffer.flags.c_contiguous:
            storage.move(in_rows(storage.read(), kind.dtype.numpy))
        if name in self.lowered.writes and storage.clock is not self.clock:
            storage.swap_with(np.empty(kind.shape, kind.dtype.numpy), self.clock)

    def _request(self, turn: int) -> Request:
        request = Request(self.model, self.lowered)
        for name, tensor in self.lowered.states.items():
            storage = self.parameters[name].storage
            swaps = name in self.lowered.writes
            request.bind(tensor, storage.buffers[turn] if swaps else storage.current)
            if swaps:
                request.bind(self.lowered.writes[name], storage.buffers[1 - turn])
        return request


def _index_fault(node: Node) -> GraphRuntimeError:
    kind, size = node.inputs[1].type, axis_size(node)
    text = f"OpenVINO could not run the step: an index of the {node.primitive.name}, in {kind}, is out of range for an "
    return GraphRuntimeError(f"{text}axis of size {size}.").at(node.loc)
