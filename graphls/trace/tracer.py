"""The tracer: runs `construct` once on symbols and records what it does as a graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphls import dispatch
from graphls.ir.build import Builder
from graphls.ir.errors import GraphlsError, GraphValueError, TraceError
from graphls.ir.graph import Graph, Value
from graphls.ir.location import user_location
from graphls.ir.registry import lookup
from graphls.ir.types import DType, Type, type_of
from graphls.parameter import Parameter
from graphls.reports import Report
from graphls.tensor import Symbol, Tensor, array_of, is_tensor
from graphls.trace.branches import Fork, explore
from graphls.trace.casting import Casting, in_dtype
from graphls.trace.frames import Frame, Recorded
from graphls.trace.recompute import recomputed
from graphls.trace.states import Scratch, StateSymbol, copies
from graphls.tree import leaves, map_leaves

MOST_ANSWERS = 10_000


@dataclass
class CallRecord:
    """What a call of a cell saw and gave, so that a gradient can be taken of the forward that is there.

    `start` and `end` are the numbers of writes that had been made before and after it.
    """

    cell: Any
    inputs: tuple[Any, ...]
    outputs: Any
    start: int
    end: int


@dataclass(frozen=True)
class CellCall:
    """A call of a cell under its path of names: the class, and the values that it gave."""

    path: str
    kind: str
    values: tuple[Value, ...]


@dataclass
class Tracer:
    """One trace: a builder, the current value of every state, and the cells that are running."""

    name: str = "main"
    builder: Builder = field(default_factory=Builder)
    states: dict[Parameter, Value] = field(default_factory=dict)
    written: dict[Parameter, Value] = field(default_factory=dict)
    writes: list[tuple[Parameter, Value]] = field(default_factory=list)
    depends: dict[Value, Value] = field(default_factory=dict)
    waits: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    negations: dict[Value, Value] = field(default_factory=dict)
    random_site: int = 0
    random_state: Parameter | None = None
    frames: list[Frame] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)
    running: list[Any] = field(default_factory=list)
    paths: dict[int, dict[int, str]] = field(default_factory=dict)
    phases: list[str] = field(default_factory=lambda: ["forward"])
    float_types: list[DType | None] = field(default_factory=lambda: [None])
    castings: list[Casting | None] = field(default_factory=lambda: [None])
    calls: list[list[CallRecord]] = field(default_factory=lambda: [[]])
    decided: dict[Value, bool] = field(default_factory=dict)
    asked: Counter[Value] = field(default_factory=Counter)
    fork: Fork | None = None
    partial: dict[tuple[Value, bool], list[tuple[Any, Any]]] = field(default_factory=dict)
    unbound: dict[str, GraphlsError] = field(default_factory=dict)
    cells: dict[int, Any] = field(default_factory=dict)
    cell_calls: list[CellCall] = field(default_factory=list)
    made: dict[Value, int] = field(default_factory=dict)
    windows: dict[Any, Value] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    rewrites: bool = True
    """Whether functions of users run in their rewritten form."""
    loops: int = 0

    # -- values -----------------------------------------------------------------------------------------------

    def emit(
        self,
        primitive: Any,
        inputs: Sequence[Value],
        attrs: dict[str, Any],
        *,
        after: Sequence[Value] = (),
        regions: tuple[Graph, ...] = (),
        name: str | None = None,
    ) -> tuple[Value, ...]:
        """Append a node, or find it again where a construct is traced once more for another answer."""
        operation = lookup(primitive) if isinstance(primitive, str) else primitive
        frame = self.frames[-1]
        recorded = frame.replayed(operation.name)
        if recorded is not None:
            found: tuple[Value, ...] = recorded.outputs
            return found
        e = self.builder
        e.phase, e.scope, e.loc = self.phases[-1], ".".join(filter(None, self.scopes)), user_location()
        outputs = e.emit(operation, inputs, attrs, after=after, regions=regions, name=name)
        frame.record(Recorded(operation.name, outputs))
        self.note(outputs)
        if operation.name in ("depend", "logical_not"):
            (self.depends if operation.name == "depend" else self.negations)[outputs[0]] = inputs[0]
            self.waits[outputs[0]] = tuple(after)
        return outputs

    def note(self, values: Iterable[Value]) -> None:
        """Remember when these values were made."""
        for value in values:
            self.made[value] = len(self.made)

    def apply(self, name: str, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Emit a primitive on tensors and numbers; returns a Symbol or a tuple of them."""
        operands = self.cast_operands(name, operands)
        dtype = dispatch.first_dtype(operands)
        values = tuple(self.value(o, dtype) for o in operands)
        outputs: tuple[Any, ...] = tuple(map(Symbol, self.emit(name, values, attrs)))
        casting = self.castings[-1]
        outputs = outputs if casting is None else casting.results(name, outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def cast_operands(self, name: str, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """The operands in the dtype that the network computes this operation in."""
        casting = self.castings[-1]
        return operands if casting is None else casting.operands(name, operands)

    def value(self, operand: Any, dtype: DType | None = None) -> Value:
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
        frame = self.frames[-1]
        key = (type_of(array), array.tobytes())
        found = frame.constants.get(key)
        if found is None:
            array = np.array(array)
            array.flags.writeable = False
            (found,) = self.emit("constant", (), {"value": array}, name="c")
            frame.constants[key] = found
        return found

    # -- states -----------------------------------------------------------------------------------------------

    def state(self, parameter: Parameter) -> Value:
        """The state of a parameter, as it is before the step."""
        if isinstance(parameter, Scratch):
            return self.zeros(parameter.type)
        if parameter not in self.states:
            name = self.builder.names.fresh(parameter.name)
            self.states[parameter] = Value(name, parameter.type, is_state=True)
        return self.states[parameter]

    def current(self, parameter: Parameter) -> Value:
        """The value of a parameter at this point of the step."""
        written = self.written.get(parameter)
        return self.state(parameter) if written is None else written

    def scratch(self, name: str, type: Type) -> StateSymbol:
        """A new scratch tensor; the same one where a construct is traced once more for another answer."""
        made = self.kept("scratch", lambda: Scratch(np.zeros(type.shape, type.dtype.numpy), name))
        return StateSymbol(self, made, ())

    def kept(self, kind: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, once: the same object where a construct is traced once more for another answer."""
        frame = self.frames[-1]
        recorded = frame.replayed(kind)
        if recorded is None:
            recorded = Recorded(kind, make())
            frame.record(recorded)
        return recorded.outputs

    @contextmanager
    def inside_loop(self) -> Iterator[None]:
        """Trace one time of a loop, which is traced again where it writes states that are not carried yet."""
        self.loops += 1
        try:
            yield
        finally:
            self.loops -= 1

    def read(self, parameter: Parameter) -> Value:
        """The current value as the running cell sees it: cast where the cell has `to_float`."""
        value = self.current(parameter)
        wanted = self.float_types[-1]
        if wanted is None or not value.type.dtype.is_float or value.type.dtype is wanted:
            return value
        return self.emit("cast", (value,), {"dtype": wanted}, name=parameter.name.rsplit(".", 1)[-1])[0]

    def write(self, parameter: Parameter, operand: Any) -> Value:
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
        """Remember the value that a parameter has from here on."""
        self.written[parameter] = value
        self.writes.append((parameter, value))

    def forget_writes(self, start: int) -> None:
        """Go back to the states as they were after the first `start` writes."""
        if start < len(self.writes):
            del self.writes[start:]
            self.written = dict(self.writes)

    def depend(self, value: Any, expression: Any) -> Any:
        """`value`, made after everything in `expression`."""
        tensors = [leaf for leaf in leaves(expression) if isinstance(leaf, (Symbol, Parameter))]
        after = tuple(value for tensor in tensors for value in self.ends(tensor))
        if not after:
            return value

        def ordered(leaf: Any) -> Any:
            if isinstance(leaf, Parameter):
                return StateSymbol(self, leaf, after)
            if isinstance(leaf, StateSymbol):
                return StateSymbol(self, leaf.parameter, (*leaf.after, *after))
            if not is_tensor(leaf):
                return leaf
            of = self.value(leaf)
            return Symbol(self.emit("depend", (of,), {}, after=after, name=of.name)[0])

        return map_leaves(ordered, value)

    def ends(self, leaf: Any) -> tuple[Value, ...]:
        """What has run when a tensor is there: its value, or what a scratch tensor was made to depend on."""
        is_scratch = isinstance(leaf, StateSymbol) and isinstance(leaf.parameter, Scratch)
        return leaf.after if is_scratch else (self.value(leaf),)

    def awaited(self, item: Any) -> tuple[Value, ...]:
        """What a tensor was made to depend on by `depend`, the first things first."""
        if isinstance(item, StateSymbol):
            return item.after
        value, found = self.value(item), tuple[Value, ...]()
        while value in self.depends:
            value, found = self.depends[value], (*self.waits[value], *found)
        return found

    def random(self, primitive: str, attrs: dict[str, Any]) -> Symbol:
        """A random tensor that this call site draws anew in every step."""
        from graphls.random import random_state

        if self.random_state is None:
            self.random_state = random_state()
        site = self.frames[-1].site(self.next_site)
        return Symbol(self.emit(primitive, (self.state(self.random_state),), {**attrs, "site": site})[0])

    def next_site(self) -> int:
        """A number that no other random call site has."""
        self.random_site += 1
        return self.random_site - 1

    # -- calls ------------------------------------------------------------------------------------------------

    def call(self, cell: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a cell's construct inside the trace."""
        frame, start = self.frames[-1], len(self.writes)
        recorded = frame.replayed("call")
        if recorded is not None:
            for parameter, value in recorded.writes:
                self.set_written(parameter, value)
            self.remember(cell, args, options, recorded.outputs, start)
            return copies(recorded.outputs)
        self.cells[id(cell)] = cell
        first, scope = len(self.builder.nodes), self.scope_of(cell)
        with self.inside(cell, scope):
            outputs = explore(self, lambda: self.constructed(cell, args, options))
            if cell._is_recomputed:
                made, nodes = outputs, self.builder.nodes[first:]
                outputs = explore(self, lambda: recomputed(self, nodes, made))
        self.rename(cell, outputs)
        self.note_call(cell, scope, outputs)
        frame.record(Recorded("call", copies(outputs), tuple(self.writes[start:])))
        self.remember(cell, args, options, outputs, start)
        return outputs

    def scope_of(self, cell: Any) -> str:
        """The path to a cell from the one that is running, through lists of cells and others that do not run."""
        if not self.running:
            return ""
        caller, name = self.running[-1], str(cell._scope_name)
        if caller._cells.get(name) is cell:
            return name
        if id(caller) not in self.paths:
            self.paths[id(caller)] = {id(inner): path for path, inner in caller.cells_and_names()}
        return self.paths[id(caller)].get(id(cell), name)

    def note_call(self, cell: Any, scope: str, outputs: Any) -> None:
        """Remember that a cell with a name has run, for those who ask what each cell does."""
        if scope or not self.scopes:
            path = ".".join(filter(None, (*self.scopes, scope)))
            values = tuple(leaf.graph_value for leaf in leaves(outputs) if type(leaf) is Symbol)
            self.cell_calls.append(CellCall(path, type(cell).__name__, values))

    def note_owner(self, method: Any) -> None:
        """Remember the cell that a method belongs to: the graph depends on its settings."""
        owner = getattr(method, "__self__", None)
        if hasattr(owner, "configuration"):
            self.cells[id(owner)] = owner

    def remember(self, cell: Any, args: tuple[Any, ...], options: dict[str, Any], outputs: Any, start: int) -> None:
        """Take note of a call of which a gradient may be taken."""
        if not options:
            self.calls[-1].append(CallRecord(cell, copies(args), copies(outputs), start, len(self.writes)))

    @contextmanager
    def inside(self, cell: Any, scope: str) -> Iterator[None]:
        """Scope, phase and dtypes of a cell."""
        self.scopes.append(scope)
        self.running.append(cell)
        self.phases.append(cell._phase or self.phases[-1])
        self.float_types.append(cell._float_type)
        self.castings.append(None if cell._float_type else cell._casting or self.castings[-1])
        try:
            yield
        finally:
            self.scopes.pop()
            self.running.pop()
            self.phases.pop()
            self.float_types.pop()
            self.castings.pop()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What is emitted inside belongs to another phase."""
        self.phases.append(name)
        try:
            yield
        finally:
            self.phases.pop()

    def constructed(self, cell: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What a cell's construct gives, between casts of what goes in and comes out."""
        given = map_leaves(self.cast_input, copies((args, options)))
        outputs, wanted = cell._trace_construct(*given[0], **given[1]), cell._output_type
        return outputs if wanted is None else map_leaves(lambda leaf: in_dtype(leaf, wanted), outputs)

    def cast_input(self, leaf: Any) -> Any:
        """An input of the running cell, in its `to_float` type."""
        return leaf if isinstance(leaf, Parameter) else in_dtype(leaf, self.float_types[-1])

    def rename(self, cell: Any, outputs: Any) -> None:
        """A cell's result is named after the cell, where the node's name says nothing."""
        scope = cell._scope_name
        if not isinstance(outputs, Symbol) or isinstance(outputs, StateSymbol) or not scope or not self.scopes:
            return
        value = outputs.graph_value
        made_here = self.builder.nodes and value in self.builder.nodes[-1].outputs
        if made_here and re.fullmatch(rf"{self.builder.nodes[-1].primitive.name}(_\d+)?", value.name):
            self.builder.names.taken.discard(value.name)
            value.name = self.builder.names.fresh(scope.lstrip("_"))

    # -- branches ---------------------------------------------------------------------------------------------

    def decide(self, symbol: Symbol) -> bool:
        """The answer to `if symbol` on the path that is being traced."""
        value, negated = self.canonical(symbol.graph_value)
        if value not in self.decided:
            self.fork = Fork(self.frames[-1], value, user_location())
            raise self.fork
        self.asked[value] += 1
        if self.asked[value] > MOST_ANSWERS:
            text = (
                f"This condition has been asked {MOST_ANSWERS} times and nothing has changed it; in a loop the body "
                "must give the tensor another value."
            )
            raise TraceError(text)
        return self.decided[value] is not negated

    def note_choice(self, value: Value, pair: tuple[Value, Value]) -> None:
        """Remember that a value, either of two, is the same as one before them where both only wait for something."""
        first, second = (self.behind_depends(Symbol(item)) for item in pair)
        if first is second:
            self.depends[value], self.waits[value] = first, ()

    def canonical(self, value: Value) -> tuple[Value, bool]:
        """The bool behind negations, and whether it is negated."""
        negated = False
        while value in self.negations or value in self.depends:
            negated ^= value in self.negations
            value = self.negations.get(value) or self.depends[value]
        return value, negated

    def zeros(self, type: Type) -> Value:
        """Zeros of a type."""
        zero = self.constant(np.zeros((), type.dtype.numpy))
        return self.emit("broadcast_to", (zero,), {"shape": type.shape})[0] if type.shape else zero

    def behind_depends(self, item: Any) -> Any:
        """The value that a symbol stands for, apart from `depend`; anything else as it is."""
        if isinstance(item, StateSymbol):
            return item.parameter
        if not isinstance(item, Symbol):
            return item
        value = item.graph_value
        while value in self.depends:
            value = self.depends[value]
        return value
