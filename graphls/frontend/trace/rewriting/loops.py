"""Traced loops of rewritten functions: a `while_loop` that carries the variables changed by the body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphNameError, TraceError
from graphls.base.location import Location, user_location
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves, rebuild, structure
from graphls.frontend.tensors.tensor import Symbol, Tensor, array_of, is_number, is_tensor
from graphls.frontend.trace.branch_merge import UNBOUND, Outcome, Unmergeable
from graphls.frontend.trace.host_calls import warn_of_lost
from graphls.frontend.trace.regions import Run, is_random, once
from graphls.frontend.trace.rewriting.state import State
from graphls.frontend.trace.rewriting.truth import boolean
from graphls.frontend.trace.states import StateSymbol
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.graph import Graph, Value, walk
from graphls.ir.types import DType

Function = Callable[..., Any]
MOST_TRIALS = 50


def trace_loop(condition: Function, body: Function, state: State, growing: Sequence[str]) -> None:
    """Trace `while condition(): body()`; raises TraceError for variables that cannot be carried."""
    tracer = current_tracer()
    assert tracer is not None
    loop = _Loop(tracer, condition, body, state, growing, user_location())
    state.take(once(tracer, "while", loop.run, Outcome.copied), tracer)


@dataclass(frozen=True)
class Carried:
    """A carried leaf: its value at the start, and the Python number that it was before, if any."""

    start: Value
    number: Any = None


@dataclass
class _Loop:
    """A loop that is traced repeatedly, until all carried leaves are known."""

    tracer: Any
    condition: Function
    body: Function
    state: State
    growing: Sequence[str]
    loc: Location | None
    unbound: dict[str, GraphlsError] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()

    def run(self) -> Outcome:
        """Emit the loop; returns its outcome."""
        before = self.state.read()
        starts = {key: self._start(key, tree) for key, tree in before.items()}
        for _ in range(MOST_TRIALS):
            body = self._traced(starts, self.body)
            after: Outcome = body.run.result
            known = len(self.parameters)
            self.parameters = tuple(dict.fromkeys((*self.parameters, *body.run.states)))
            trial = {key: self._continued(key, start, after.values[key]) for key, start in starts.items()}
            if known == len(self.parameters) and all(trial[key] is starts[key] for key in starts):
                outputs = self._emitted(starts, body)
                self.state.write(before)
                contents = {key: _filled(start, outputs) for key, start in starts.items()}
                changes = self.state.changes(before, contents)
                return Outcome(None, changes, {**after.unbound, **self.unbound})
            # A changed leaf is carried in the next trial, where the body may treat it differently from a constant.
            starts = trial
        raise TraceError("What this loop changes has another type in each iteration.", self.loc)

    # -- carried leaves ---------------------------------------------------------------------------------------

    def _start(self, key: Any, tree: object) -> Any:
        """A pytree with the leaves marked that are surely carried; in containers none are marked yet."""
        if isinstance(key, int):
            return tree
        if key.startswith("@continued"):  # belongs to one iteration of the loop
            return UNBOUND
        is_counter = key in self.growing

        def marked(leaf: object) -> Any:
            if type(leaf) is Symbol:
                return Carried(leaf.graph_value)
            return self._number(leaf) if is_counter and is_number(leaf) else leaf

        return map_leaves(marked, tree)

    def _number(self, number: Any, dtype: DType | None = None) -> Carried:
        return Carried(self.tracer.constant(array_of(number, dtype)), number)

    def _continued(self, key: object, start: object, after: object) -> Any:
        """The start itself if the body preserves it or can carry it, else the start of the next trial."""
        if start is UNBOUND or after is UNBOUND:
            return self._unbound(key, start, after)
        try:
            if structure(start) != structure(after):
                kinds = f"{_described(start)} before its body and {_described(after)} after it"
                raise Unmergeable(f"This loop must keep the structure of{{name}}, which is {kinds}.")
            old = leaves(start)
            new = [self._leaf(*pair) for pair in zip(old, leaves(after), strict=True)]
        except Unmergeable as error:
            name = key.partition(".")[0] if isinstance(key, str) else None
            if name is None or name.startswith("@"):
                raise TraceError(str(error).format(name=" what it changes"), self.loc) from None
            self.unbound[name] = TraceError(str(error).format(name=f" {name!r}"), self.loc)
            return UNBOUND
        return start if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(start, new)

    def _unbound(self, key: Any, start: object, after: object) -> Any:
        """The start of a variable that is bound only before the loop or only after its body; results start as zeros."""
        if start is UNBOUND and after is not UNBOUND:
            if key == "@result":
                return map_leaves(self._zeros, after)
            text = f"{key!r} gets a value only in this loop, which may not run; give it one before."
            self.unbound.setdefault(key, GraphNameError(text, self.loc))
        return UNBOUND

    def _zeros(self, leaf: object) -> Any:
        if not is_tensor(leaf) or isinstance(leaf, Parameter):
            return leaf
        return Carried(self.tracer.zeros(leaf.type if isinstance(leaf, Tensor) else Tensor(leaf).type))

    def _leaf(self, start: object, after: object) -> Any:
        if not isinstance(start, Carried):
            return self._fixed(start, after)
        kind = start.start.type
        if is_number(after) and not kind.shape and dispatch.covers(kind.dtype, Tensor(after).dtype):
            return start
        if not is_tensor(after) and not is_number(after):
            raise Unmergeable(f"This loop must keep the type of{{name}}, {kind}, and gives something else.")
        kind_after = after.type if isinstance(after, Tensor) else Tensor(after).type
        if kind_after == kind:
            return start
        if start.number is not None and not kind_after.shape and dispatch.covers(kind_after.dtype, kind.dtype):
            return self._number(start.number, kind_after.dtype)
        raise Unmergeable(f"This loop must keep the type of{{name}}, {kind}, and gives {kind_after}.")

    def _fixed(self, start: object, after: object) -> Any:
        """The start of a leaf that has been constant so far."""
        if after is start or (type(start) is type(after) is Symbol and start.graph_value is after.graph_value):
            return start
        if not is_tensor(after) and type(after) is type(start) and after == start:
            return start
        if is_number(start) and (is_number(after) or is_tensor(after)):
            other_dtype = Tensor(after).dtype if not isinstance(after, Tensor) else after.dtype
            own = Tensor(start).dtype
            return self._number(start, other_dtype if dispatch.covers(other_dtype, own) else own)
        if is_tensor(start) and (is_tensor(after) or is_number(after)):
            return Carried(self.tracer.value(start))
        raise Unmergeable("This loop must keep{name}, which is neither a tensor nor a number.")

    # -- the regions ------------------------------------------------------------------------------------------

    def _traced(self, starts: Mapping[object, object], function: Function) -> _Region:
        """Trace the body or the condition once, on parameters for the carried values."""
        carried = [c for start in starts.values() for c in leaves(start) if isinstance(c, Carried)]
        values = [c.start for c in carried] + [self.tracer.current(p) for p in self.parameters]
        own = [Value(self.tracer.builder.names.fresh(v.name), v.type) for v in values]

        def once() -> Outcome:
            symbols = iter(map(Symbol, own))
            contents = {
                key: map_leaves(lambda leaf: next(symbols) if isinstance(leaf, Carried) else leaf, start)
                for key, start in starts.items()
            }
            self.state.write(contents)
            result = function()
            return self.state.ended(result)

        states = dict(zip(self.parameters, own[len(carried) :], strict=True))
        self.tracer.unbound.update(self.unbound)
        with self.tracer.inside(in_loop=True):
            run = Run.of(self.tracer, once, states)
        return _Region(run, carried, values, own)

    def _emitted(self, starts: Mapping[object, object], body: _Region) -> dict[int, Symbol]:
        """Emit the loop as a node; returns its outputs by the identity of the carried leaves."""
        tracer = self.tracer
        test = self._traced(starts, self._answer)
        if set(test.run.states) - set(self.parameters) or any(
            test.run.states[p] is not v for p, v in zip(self.parameters, test.own[len(test.carried) :], strict=True)
        ):
            raise TraceError("The condition of a loop cannot write parameters; write them in its body.", self.loc)
        yields = self._yields(starts, body)
        body.run.hoist(tracer, body.own)
        answer = test.run.result.result.graph_value
        test.run.hoist(tracer, test.own)
        # A loop-invariant condition is hoisted completely, and then never becomes false.
        if not test.run.nodes and answer not in test.own:
            text = "This loop does not end once it begins: its body changes nothing that its condition depends on."
            raise TraceError(text, self.loc)
        warn_of_lost([*body.run.shown, *test.run.shown])
        regions = (
            Graph("region", tuple(test.own), (), tuple(test.run.nodes), (), (answer,)),
            Graph("region", tuple(body.own), (), tuple(body.run.nodes), (), tuple(yields)),
        )
        if any(is_random(node) for region in regions for node in walk(region)):
            text = "A loop draws no random numbers where the graph decides how often it runs; use ops.while_loop with "
            raise TraceError(f"{text}max_iterations.", self.loc)
        outputs = tracer.emit("while_loop", body.values, {}, regions=regions)
        for parameter, value in zip(self.parameters, outputs[len(body.carried) :], strict=True):
            tracer.set_written(parameter, value)
        return {id(c): Symbol(v) for c, v in zip(body.carried, outputs, strict=False)}

    def _answer(self) -> Symbol:
        """The condition as a bool without axes."""
        answer = boolean(self.condition())
        symbol = Symbol(self.tracer.value(answer if isinstance(answer, Tensor) else Tensor(answer)))
        return dispatch.apply("reshape", symbol, shape=()) if symbol.shape else symbol

    def _yields(self, starts: Mapping[object, object], body: _Region) -> list[Value]:
        after: Outcome = body.run.result
        bound = [key for key, start in starts.items() if start is not UNBOUND]
        pairs = [p for key in bound for p in zip(leaves(starts[key]), leaves(after.values[key]), strict=True)]
        values = [self._value(mark, leaf, body) for mark, leaf in pairs if isinstance(mark, Carried)]
        return values + [body.run.states[p] for p in self.parameters]

    def _value(self, mark: Carried, leaf: object, body: _Region) -> Value:
        if is_number(leaf):
            number: Value = self.tracer.constant(np.asarray(leaf, mark.start.type.dtype.numpy))
            return number
        leaf = leaf.parameter if isinstance(leaf, StateSymbol) else leaf
        if isinstance(leaf, Parameter):
            return body.run.states.get(leaf) or self.tracer.current(leaf)
        value: Value = self.tracer.value(leaf)
        return value


@dataclass
class _Region:
    """A trace of the body or the condition, with the carried leaves and its parameters for them."""

    run: Run
    carried: list[Carried]
    values: list[Value]
    own: list[Value]


def _filled(start: Any, outputs: dict[int, Symbol]) -> Any:
    """A pytree with the outputs of the loop in place of the carried leaves."""
    return map_leaves(lambda leaf: outputs[id(leaf)] if isinstance(leaf, Carried) else leaf, start)


def _described(tree: object) -> str:
    """The top-level type of a pytree in words."""
    if tree is None or not isinstance(tree, (list, tuple, dict)):
        return "None" if tree is None else "one value"
    return f"a {type(tree).__name__} of {len(tree)}"
