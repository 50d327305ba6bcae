"""The tracer: runs `construct` once on symbols and records what it does as a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar, Literal

import numpy as np

from graphls.base.errors import GraphlsError, GraphValueError, TraceError
from graphls.base.location import user_location
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.executor import executor
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.random import random_state
from graphls.frontend.tensors.tensor import Symbol, Tensor, array_of
from graphls.frontend.trace.calls import Call, CellCall, Fork, Frame, Recorded
from graphls.frontend.trace.casting import in_dtype
from graphls.frontend.trace.states import Scratch, StateSymbol
from graphls.ir.build import Builder, Names
from graphls.ir.graph import Graph, Value
from graphls.ir.registry import Operation, lookup
from graphls.ir.sharding import Mesh, Sharding
from graphls.ir.types import DType, Type, type_of

MOST_ANSWERS = 10_000


@dataclass
class Aliases:
    """Values that alias others: results of `depend`, with their control edges, and of `logical_not`."""

    waiting: dict[Value, tuple[Value, tuple[Value, ...]]] = field(default_factory=dict)
    negated: dict[Value, Value] = field(default_factory=dict)

    def note(self, name: str, outputs: Sequence[Value], inputs: Sequence[Value], after: Sequence[Value]) -> None:
        """Record the alias that a new node of this name creates, if any."""
        if name == "depend":
            self.waiting[outputs[0]] = inputs[0], tuple(after)
        elif name == "logical_not":
            self.negated[outputs[0]] = inputs[0]

    def note_choice(self, value: Value, pair: tuple[Value, Value]) -> None:
        """Record that a choice between two values is their common original, where both come from `depend`s of it."""
        first, second = map(self.original, pair)
        if first is second:
            self.waiting[value] = first, ()

    def original(self, value: Value) -> Value:
        """The value behind all `depend`s."""
        while value in self.waiting:
            value = self.waiting[value][0]
        return value

    def awaited(self, value: Value) -> tuple[Value, ...]:
        """The values that a value waits for by `depend`, in order."""
        values: tuple[Value, ...] = ()
        while value in self.waiting:
            value, after = self.waiting[value]
            values = (*after, *values)
        return values

    def canonical(self, value: Value) -> tuple[Value, bool]:
        """The bool behind negations and `depend`s, and whether it is negated."""
        is_negated = False
        while value in self.waiting or value in self.negated:
            is_negated ^= value in self.negated
            value = self.negated[value] if value in self.negated else self.waiting[value][0]
        return value, is_negated


@dataclass
class Tracer:
    """One trace: the stack of calls, the current value of every state, and records of cells and values.

    `order` numbers values in the order of their definitions; `windows` has the token of the overflow window that is
    open on a status; `paths` has, for a cell that calls others, the paths to these.
    """

    is_trace: ClassVar[Literal[True]] = True

    name: str = "main"
    rewrites: bool = True
    """Whether functions of users run in their rewritten form."""
    mesh: Mesh | None = None
    """The devices among which shardings divide values."""
    stack: list[Call] = field(default_factory=lambda: [Call(Builder())])
    aliases: Aliases = field(default_factory=Aliases)
    order: dict[Value, int] = field(default_factory=dict)
    states: dict[Parameter, Value] = field(default_factory=dict)
    written: dict[Parameter, Value] = field(default_factory=dict)
    writes: list[tuple[Parameter, Value]] = field(default_factory=list)
    scratches: set[Parameter] = field(default_factory=set)
    """Parameters that do not outlive this step, like those of class `Scratch`."""
    windows: dict[Any, Value] = field(default_factory=dict)
    sites: Iterator[int] = field(default_factory=count)
    """Numbers of random call sites."""
    random_state: Parameter | None = None
    cells: dict[int, Any] = field(default_factory=dict)
    cell_calls: list[CellCall] = field(default_factory=list)
    recipes: dict[str, Any] = field(default_factory=dict)
    """The cells whose products have operands of few bits, by their scopes."""
    paths: dict[int, dict[int, str]] = field(default_factory=dict)
    functions: dict[Any, tuple[str, Any]] = field(default_factory=dict)
    """The Python functions that the graph calls, with their names, by their identities."""
    function_names: Names = field(default_factory=Names)
    times_decided: Counter[Value] = field(default_factory=Counter)
    end_callbacks: list[Callable[[], None]] = field(default_factory=list)
    """Functions that are called when the trace has ended, the last one first."""
    fork: Fork | None = None
    unbound: dict[str, GraphlsError] = field(default_factory=dict)

    # -- the stack of calls -----------------------------------------------------------------------------------

    @property
    def here(self) -> Call:
        """The running call, with the settings for nodes that are emitted now."""
        return self.stack[-1]

    @property
    def builder(self) -> Builder:
        """The current builder: that of the graph, or of the region that is being traced."""
        return self.stack[-1].builder

    @contextmanager
    def inside(self, **changes: Any) -> Iterator[Call]:
        """Trace a block with other settings: fields of `Call`."""
        depth = len(self.stack)
        try:
            self.stack.append(replace(self.stack[-1], **changes))
            yield self.stack[-1]
        finally:
            del self.stack[depth:]  # and what a RecursionError, which leaves no room to end, has left above it

    def region(self, **changes: object) -> AbstractContextManager[Call]:
        """Trace a block into a new region."""
        here = self.here
        own = {"frame": Frame(), "records": (*here.records, []), "partial": dict(here.partial)}
        return self.inside(builder=Builder(here.builder.names), **own, **changes)

    def phase(self, name: str) -> AbstractContextManager[Call]:
        """A block whose nodes belong to another phase."""
        return self.inside(phase=name)

    def without_casts(self) -> AbstractContextManager[Call]:
        """A block in which no operand is cast."""
        return self.inside(casting=None)

    # -- values -----------------------------------------------------------------------------------------------

    def emit(
        self, primitive: Operation | str, inputs: Sequence[Value], attrs: Mapping[str, object], *,
        after: Sequence[Value] = (), regions: tuple[Graph, ...] = (), name: str | None = None,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Append a node, or replay it where a construct is traced again for another branch."""
        operation = lookup(primitive) if isinstance(primitive, str) else primitive
        here = self.here
        recorded = here.frame.replayed(operation.name)
        if recorded is not None:
            again: tuple[Value, ...] = recorded.outputs
            return again
        e = here.builder
        e.follow(here)
        e.loc = here.loc or user_location()
        outputs = e.emit(operation, inputs, attrs, after=after, regions=regions, name=name)
        here.frame.record(Recorded(operation.name, outputs))
        self.note(outputs)
        self.aliases.note(operation.name, outputs, inputs, after)
        return outputs

    def note(self, values: Iterable[Value]) -> None:
        """Record the order of new values."""
        for value in values:
            self.order[value] = len(self.order)

    def apply(self, name: str, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
        """Emit a primitive on tensors and numbers; returns a Symbol or a tuple of them."""
        operands = self.cast_operands(name, operands)
        dtype = dispatch.first_dtype(operands)
        values = tuple(self.value(o, dtype) for o in operands)
        outputs: tuple[Any, ...] = tuple(map(Symbol, self.emit(name, values, attrs)))
        casting = self.here.casting
        outputs = outputs if casting is None else casting.results(name, outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def cast_operands(self, name: str, operands: tuple[object, ...]) -> tuple[Any, ...]:
        """The operands in the dtype that the network computes this operation in."""
        casting = self.here.casting
        return operands if casting is None else casting.operands(name, operands)

    def value(self, operand: object, dtype: DType | None = None) -> Value:
        """The value of an operand in the graph: a symbol's own, a parameter's current one, or a constant."""
        if isinstance(operand, Symbol):
            return operand.graph_value
        if isinstance(operand, Parameter):
            return self.read(operand)
        if isinstance(operand, (Tensor, np.ndarray, np.generic)) or dtype is None:
            return self.constant(array_of(operand))
        return self.constant(np.asarray(operand, dtype.numpy))

    def constant(self, array: Any) -> Value:
        """A constant node; equal constants of one construct are made once."""
        frame = self.here.frame
        key = (type_of(array), array.tobytes())
        value = frame.constants.get(key)
        if value is None:
            array = np.array(array)
            array.flags.writeable = False
            (value,) = self.emit("constant", (), {"value": array}, name="c")
            frame.constants[key] = value
        return value

    # -- states -----------------------------------------------------------------------------------------------

    def state(self, parameter: Parameter) -> Value:
        """The state of a parameter, as it is before the step."""
        if isinstance(parameter, Scratch) or parameter in self.scratches:
            return self.zeros(parameter.type)
        if parameter not in self.states:
            name = self.builder.names.fresh(parameter.name)
            self.states[parameter] = Value(name, parameter.type, True, self.sharding_of(parameter))
        return self.states[parameter]

    def sharding_of(self, parameter: Parameter) -> Sharding | None:
        """The sharding of a state on the mesh; raises GraphValueError where the mesh cannot divide it so."""
        if self.mesh is None or not any(parameter.sharding):
            return None
        sharding = Sharding.of(*parameter.sharding)
        if (fault := sharding.fault(parameter.shape, self.mesh)) is not None:
            raise GraphValueError(f"Parameter {parameter.name!r} {fault}.")
        return sharding

    def current(self, parameter: Parameter) -> Value:
        """The value of a parameter at this point of the step."""
        written = self.written.get(parameter)
        return self.state(parameter) if written is None else written

    def scratch(self, name: str, type: Type) -> StateSymbol:
        """A new scratch tensor; the same one where a construct is traced again for another branch."""
        tensor = self.recorded("scratch", lambda: Scratch(np.zeros(type.shape, type.dtype.numpy), name))
        return StateSymbol(self, tensor, ())

    def recorded(self, kind: str, make: Callable[[], Any]) -> Any:
        """The result of `make`, called once: the same object where a construct is traced again for another branch."""
        frame = self.here.frame
        recorded = frame.replayed(kind)
        if recorded is None:
            recorded = Recorded(kind, make())
            frame.record(recorded)
        return recorded.outputs

    def read(self, parameter: Parameter) -> Value:
        """The current value as the running cell sees it: cast where the cell has `to_float`."""
        value = self.current(parameter)
        target = self.here.float_type
        if target is None or not value.type.dtype.is_float or value.type.dtype is target:
            return value
        return self.emit("cast", (value,), {"dtype": target}, name=parameter.name.rsplit(".", 1)[-1])[0]

    def write(self, parameter: Parameter, operand: object) -> Value:
        """Give a parameter a new value from here on; it is cast to the parameter's dtype.

        Raises GraphValueError where the shape differs.
        """
        value = self.value(operand, parameter.dtype)
        if value.type.shape != parameter.shape:
            message = f"Parameter {parameter.name!r} holds {parameter.type} and cannot take a {value.type}."
            raise GraphValueError(message)
        if value.type.dtype is not parameter.dtype:
            (value,) = self.emit("cast", (value,), {"dtype": parameter.dtype})
        self.state(parameter)
        self.set_written(parameter, value)
        return value

    def set_written(self, parameter: Parameter, value: Value) -> None:
        """Record the value that a parameter has from here on."""
        self.written[parameter] = value
        self.writes.append((parameter, value))

    def repeat_writes(self, writes: Iterable[tuple[Parameter, Value]]) -> None:
        """Repeat the writes of a call or a branch that is replayed."""
        for parameter, value in writes:
            self.set_written(parameter, value)

    def forget_writes(self, start: int) -> None:
        """Restore the states after the first `start` writes."""
        if start < len(self.writes):
            del self.writes[start:]
            self.written = dict(self.writes)

    def random(self, primitive: str, attrs: Mapping[str, object]) -> Symbol:
        """A random tensor that this call site draws anew in every step."""
        if self.random_state is None:
            self.random_state = random_state()
        site = self.here.frame.site(self.sites)
        return Symbol(self.emit(primitive, (self.state(self.random_state),), {**attrs, "site": site})[0])

    # -- calls ------------------------------------------------------------------------------------------------

    def note_owner(self, method: object) -> None:
        """Record the cell that a method belongs to, as the graph depends on its settings."""
        owner = getattr(method, "__self__", None)
        if hasattr(owner, "configuration"):
            self.cells[id(owner)] = owner

    def cast_input(self, leaf: Any) -> Any:
        """An input of the running cell, in its `to_float` type."""
        return leaf if isinstance(leaf, Parameter) else in_dtype(leaf, self.here.float_type)

    # -- branches ---------------------------------------------------------------------------------------------

    def decide(self, condition: Value) -> bool:
        """The answer to `if condition` on the path that is being traced."""
        value, is_negated = self.aliases.canonical(condition)
        answer = self.here.decided.get(value)
        if answer is None:
            self.fork = Fork(value, user_location())
            raise self.fork
        self.times_decided[value] += 1
        if self.times_decided[value] > MOST_ANSWERS:
            text = (
                f"This condition has been evaluated {MOST_ANSWERS} times and nothing has changed it; in a loop the "
                "body must give the tensor another value."
            )
            raise TraceError(text)
        return answer is not is_negated

    def zeros(self, type: Type) -> Value:
        """Zeros of a type."""
        zero = self.constant(np.zeros((), type.dtype.numpy))
        return self.emit("broadcast_to", (zero,), {"shape": type.shape})[0] if type.shape else zero


def current_tracer() -> Tracer | None:
    """The running tracer of this thread, if any."""
    here = executor()
    return here if isinstance(here, Tracer) else None


def in_micro_batch(number: int, count: int) -> AbstractContextManager[Any]:
    """A block whose nodes are for one of so many equal parts of the batch, or of the part that is running."""
    tracer = current_tracer()
    if tracer is None:
        return nullcontext()
    outer = tracer.here.micro or 0
    return tracer.inside(micro=outer * count + number)


def in_phase(name: str) -> AbstractContextManager[Any]:
    """A block whose nodes belong to a phase of the step."""
    tracer = current_tracer()
    return tracer.phase(name) if tracer is not None else nullcontext()
