"""A plan segment as an OpenVINO model, and the inference requests that run it on bound arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import getitem
from types import MappingProxyType
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.base.reporting import warn
from graphls.base.sharing.forks import never_free, renew_after_fork
from graphls.ir.engines import find_engine
from graphls.ir.graph import Node, Value
from graphls.ir.plan import DEFAULT, Segment
from graphls.primitives.indexing import axis_size
from graphls.runtime.array_part import Array, ArrayPart
from graphls.runtime.engine import PlanContext
from graphls.runtime.lowering.lowering import Lowering
from graphls.runtime.lowering.ports import Ports
from graphls.runtime.openvino.model import Model
from graphls.runtime.openvino.runtime import EXACT, failure, large_blocks_off_heap, load_openvino

NO_FLAGS: Mapping[str, Array] = MappingProxyType({})


class Request:
    """An inference request of a compiled model, whose inputs and outputs are bound to arrays by their names.

    `flags` are the arrays of its scalar outputs that are no values of the graph. The fault is the number of a node with
    an index out of range, 0 where there is none; see indices.py.
    """

    def __init__(self, model: Any, ports: Ports, flags: Mapping[str, Array]) -> None:
        self._retained: dict[str, Array] = {}
        self._request = model.create_infer_request()
        self._ports = {name: port for port in model.inputs for name in port.get_names()}
        # Results that are one constant have the names of all of them: each takes one that no other has.
        unassigned = {*ports.outputs, *ports.writes.values(), *flags}
        for port in model.outputs:
            name = next(iter(unassigned.intersection(port.get_names())))
            unassigned.remove(name)
            self._ports[name] = port
        self._tensor: Any = partial(load_openvino().Tensor, shared_memory=True)
        self._calls = [partial(self._request.start_async, {}, None), partial(self._request.wait)]
        for name, flag in flags.items():
            self.bind(name, flag)
        if ports.guarded:
            self._calls.append(partial(getitem, (None,), flags[ports.fault]))  # an IndexError where it is not 0

    def bind(self, key: str, array: Array) -> None:
        """Read or write this array, in row-major order, from now on; nothing reads an input that the model lacks."""
        if key in self._ports:
            array = array if array.flags.writeable else array.copy()  # OpenVINO shares no memory that is read only
            self._request.set_tensor(self._ports[key], self._tensor(array))
            self._retained[key] = array  # which the tensor does not

    def call(self) -> partial[object]:
        """A callable that runs the model without Python code, so that no Ctrl-C lands in it."""
        return partial(deque, map(partial.__call__, self._calls), 0)

    def times(self) -> Iterator[tuple[str, str, int]]:
        """The name and the type of each operator that ran, and its mean time in microseconds."""
        for info in self._request.profiling_info:
            if info.status.name == "EXECUTED":
                yield info.node_name, info.node_type, round(1e6 * info.real_time.total_seconds())


def open_or_fall_back(opened: Callable[[], Any], otherwise: Callable[[Any], Any]) -> Any:
    """The part that `opened` returns; where OpenVINO refuses it, that of `otherwise`, called with the default engine.

    A warning says why.
    """
    try:
        return opened()
    except GraphRuntimeError as refusal:
        warn(f"{refusal.message.rstrip('.:')}; ONNX Runtime runs this part of it.")
        return otherwise(find_engine(DEFAULT))


class OpenvinoPart(ArrayPart):
    """One segment as a model, whose operators run in an order that OpenVINO chooses.

    `lowering` lowers the graph, and `flags` are the arrays of the scalar outputs that it adds, by their names.
    """

    settings: Mapping[str, object] = EXACT

    def __init__(
        self, segment: Segment, context: PlanContext, lowering: type[Lowering] = Lowering,
        flags: Mapping[str, Array] = NO_FLAGS,
    ) -> None:  # fmt: skip
        super().__init__(segment, context)
        graph = self.graph
        self.model = Model(graph, self.settings, lowering, frozenset(flags))
        self.compiled, self.ports = self.model.open()
        inputs = zip(self.ports.inputs, graph.inputs, strict=True)
        self.set_ends(inputs, zip(self.ports.outputs, segment.gives, strict=True))
        self.fault: Array = np.zeros((), np.int32)
        self.flags = {**flags, **({self.ports.fault: self.fault} if self.ports.guarded else {})}
        self.forget_bindings()
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked process, compile the model again at the next step, because its threads were not forked."""
        never_free(self.compiled, *self.bindings.values())
        self.compiled = None
        self.forget_bindings()

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """Bind the inputs and results of this step."""
        self.group = self.context.owner.group
        request: Request = self.turn()
        self.bind_step(request, fed)
        return request.call()

    def failed(self, error: Exception) -> Exception:
        """The user's error, at the user's line where that is known; no state has been written."""
        if isinstance(error, IndexError) and self.fault:
            return _index_fault(self.ports.guarded[int(self.fault) - 1])
        return failure("OpenVINO could not run the step", error)

    def has_output(self, name: str) -> bool:
        """Whether the model has an output of this name."""
        return any(name in port.get_names() for port in self.compiled.outputs)

    def _reopen(self) -> None:
        if self.compiled is None:
            self.compiled, self.ports = self.model.open()

    def _binding(self, turn: int) -> Request:
        with large_blocks_off_heap():  # as it takes memory for all inputs and outputs once more, until they are bound
            request = Request(self.compiled, self.ports, self.flags)
            self._bind(request)
        return request

    def _bind(self, request: Request) -> None:
        for name, tensor in self.ports.states.items():
            old, new = self._buffers(name)
            request.bind(tensor, old)
            if name in self.ports.writes:
                request.bind(self.ports.writes[name], new)
        for name, array in (*self.boundary_buffers, *self.small.items()):
            request.bind(name, array)


def _index_fault(node: Node) -> GraphRuntimeError:
    kind, size = node.inputs[1].type, axis_size(node)
    text = f"OpenVINO could not run the step: an index of the {node.primitive.name}, in {kind}, is out of range for an "
    return GraphRuntimeError(f"{text}axis of size {size}.").at(node.loc)
