"""A segment of a plan as a model of OpenVINO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.backends.bound import BoundStates
from graphls.backends.buffers import SMALL, array_of
from graphls.backends.engine import Bench, Part
from graphls.backends.onnx.types import exchanged
from graphls.backends.openvino.memory import large_blocks_apart
from graphls.backends.openvino.model import Model
from graphls.backends.openvino.request import Request
from graphls.backends.openvino.runtime import EXACT, failure
from graphls.ir.engines import find_engine
from graphls.ir.errors import GraphRuntimeError
from graphls.ir.graph import Node, Value
from graphls.ir.plan import DEFAULT, Segment
from graphls.ir.reporting import checked, warn
from graphls.ir.types import Type
from graphls.primitives.indexing import axis_size
from graphls.sharing.arrays import empty
from graphls.sharing.forks import keep_for_ever, renew_after_fork

Array = np.ndarray[Any, Any]


MOST_DOUBTS = 8
"""Steps in a row that leave a doubt, behind which the model that may look runs alone."""


def unless_refused(opened: Callable[[], Any], otherwise: Callable[[Any], Any]) -> Any:
    """The part that `opened` gives; where OpenVINO refuses it, what `otherwise` gives of the engine that takes all.

    A warning says why.
    """
    try:
        return opened()
    except GraphRuntimeError as refusal:
        warn(f"{refusal.message.rstrip('.:')}; ONNX Runtime runs this part of it.")
        return otherwise(find_engine(DEFAULT))


class OpenvinoPart(BoundStates):
    """One segment; each of its states that is written has two buffers, as operators run in an order of their own.

    What is `small`, of what it is fed and gives, is copied to and from arrays that stay bound.

    Where the segment may run once more, its model is that of a step without an overflow. Where that is in doubt, one
    that `looks` runs behind it, which is made when it is needed first: a model that may look at all gradients takes
    memory for all that they are made of, and time to bring it there. Where doubts do not end, that one runs first, and
    alone while they last. So a step with a doubt has the results of the one, and a step without those of the other,
    whatever ran before: they may differ in the last bit.
    """

    settings: Mapping[str, object] = EXACT

    def __init__(self, segment: Segment, bench: Bench, looks: bool = False) -> None:
        graph = self.graph = segment.graph
        self.segment, self.bench = segment, bench
        self.parameters = {v.name: bench.parameters[v.name] for v in graph.states}
        self.types = {v.name: exchanged(v.type) for v in graph.states}
        self.group = bench.owner.group
        self.swapped = {name: bench.swapped[name] for name in self.types if name in bench.swapped}
        self.in_place = set()
        self.looks = looks
        may_repeat = segment in bench.early
        self.model = Model(graph, self.settings, tells_doubts=may_repeat, leaves_doubts=may_repeat and not looks)
        self.compiled, self.ports = self.model.open()
        inputs = list(zip(self.ports.inputs, graph.inputs, strict=True))
        outputs = list(zip(self.ports.outputs, segment.gives, strict=True))
        self.fed = [(name, exchanged(v.type).dtype.numpy, v) for name, v in inputs if v not in bench.slots]
        self.given = [(name, exchanged(v.type), v) for name, v in outputs if v not in bench.slots]
        self.slots = [(name, bench.slots[v]) for name, v in (*inputs, *outputs) if v in bench.slots]
        kinds = ((name, exchanged(v.type)) for name, v in (*inputs, *outputs) if v not in bench.slots)
        self.small = {name: self._empty(kind) for name, kind in kinds if kind.nbytes <= SMALL}
        self.results: dict[Value, Array] = {}
        self.fault: Array = np.zeros((), np.int32)
        self.looking: Part | None = None
        self.answers: Part = self
        self.is_in_doubt: Array = np.zeros((), np.bool_)
        self.doubts = 0
        self.forget_bindings()
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked process, compile the model again at the next step: the threads of this one are not there."""
        keep_for_ever(self.compiled, *self.bindings.values())
        self.compiled = None
        self.forget_bindings()

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """Bind what this step is fed and gives."""
        self.answers = self
        if isinstance(self.looking, OpenvinoPart) and self.doubts == MOST_DOUBTS:
            return partial(self._look_first, self.looking, fed)
        call = self._bound(fed)
        return partial(self._run, call, fed) if self.ports.doubt and not self.looks else call

    def _bound(self, fed: Mapping[Value, Any]) -> partial[object]:
        """What runs the model on what this step is fed."""
        self.group = self.bench.owner.group
        request: Request = self.turn()
        for name, dtype, value in self.fed:
            array = array_of(fed[value], dtype)
            if name in self.small:
                self.small[name][...] = array
            else:
                request.bind(name, array)
        for name, kind, value in self.given:
            if name not in self.small:
                self.results[value] = self._empty(kind)
                request.bind(name, self.results[value])
        self.fault, self.is_in_doubt = request.fault, request.doubt
        return request.call()

    def _run(self, call: partial[object], fed: Mapping[Value, Any]) -> object:
        """Run the model, and where it leaves a doubt the one that looks."""
        call()
        if not self.is_in_doubt:
            self.doubts = 0
            return None
        self.doubts = min(self.doubts + 1, MOST_DOUBTS)
        answers = self.looking or unless_refused(
            partial(OpenvinoPart, self.segment, self.bench, looks=True),
            lambda other: other.open(self.segment, self.bench),
        )
        self.looking = self.answers = answers
        return answers.begin(fed)()

    def _look_first(self, looking: OpenvinoPart, fed: Mapping[Value, Any]) -> object:
        """Run the model that looks, and where there was no doubt the other one."""
        self.answers = looking
        looking.begin(fed)()
        if looking.is_in_doubt:
            return None
        self.answers = self
        return self._run(self._bound(fed), fed)

    def end(self) -> Mapping[Value, Any]:
        """What the step gives that is in no slot, in the dtypes of the graph."""
        if self.answers is not self:
            self.results = {}
            return self.answers.end()
        found, self.results = self.results, {}
        found.update((value, self.small[name].copy()) for name, _, value in self.given if name in self.small)
        return {value: array.astype(value.type.dtype.numpy, copy=False) for value, array in found.items()}

    def failed(self, error: Exception) -> Exception:
        """What went wrong, at the line of the user where that is known; no state has been written."""
        if self.answers is not self:
            return self.answers.failed(error)
        if isinstance(error, IndexError) and self.fault:
            return _index_fault(self.ports.guarded[int(self.fault) - 1])
        return failure("OpenVINO could not run the step", error)

    def spoil(self, reason: str) -> None:
        """Nothing is written in place."""

    def _reopen(self) -> None:
        if self.compiled is None:
            self.compiled, self.ports = self.model.open()

    def _is_here(self, buffer: Any) -> bool:
        return isinstance(buffer, np.ndarray)

    def _brought(self, array: Array) -> Array:
        return array

    def _empty(self, kind: Type) -> Array:
        return checked(empty, kind.shape, kind.dtype.numpy)

    def _binding(self, turn: int) -> Request:
        with large_blocks_apart():  # as it takes memory for all inputs and outputs once more, until they are bound
            request = Request(self.compiled, self.ports)
            self._bind(request)
        return request

    def _bind(self, request: Request) -> None:
        for name, tensor in self.ports.states.items():
            old, new = self._buffers(name)
            request.bind(tensor, old)
            if name in self.ports.writes:
                request.bind(self.ports.writes[name], new)
        for name, array in (*self.slots, *self.small.items()):
            request.bind(name, array)


def _index_fault(node: Node) -> GraphRuntimeError:
    kind, size = node.inputs[1].type, axis_size(node)
    text = f"OpenVINO could not run the step: an index of the {node.primitive.name}, in {kind}, is out of range for an "
    return GraphRuntimeError(f"{text}axis of size {size}.").at(node.loc)
