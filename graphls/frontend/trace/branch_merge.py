"""Branch merge: the results of two branches become one `cond` whose outputs are the values that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphNameError, TraceError
from graphls.base.location import Location
from graphls.frontend.tensors.dispatch import covers
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, structure
from graphls.frontend.tensors.tensor import Symbol, Tensor, array_of, is_number, is_tensor
from graphls.frontend.trace.host_calls import Shown, show_here
from graphls.frontend.trace.states import Scratch, StateSymbol, copies
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.types import DType

Template = Callable[[Sequence[Symbol]], Any]
"""A function that builds the merged object from the outputs of the cond."""


class Unbound:
    """The placeholder for the value of an unbound variable."""

    def __repr__(self) -> str:
        return "no value"


UNBOUND = Unbound()


class Unmergeable(Exception):
    """Two objects that cannot be merged; the text is the reason, with a gap for a name."""


class MergeError(TraceError):
    """The branches of a condition have results that no cond can yield; traced to the end, each may still work alone."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a branch or a loop: its result, and the values of variables and containers at its end.

    `unbound` has the reason why a variable has no value any more; `partial` its value where the condition has the
    answer of the key; `objects` are the containers and symbols whose contents are in `values`, by their numbers.
    """

    result: Any
    values: dict[Any, Any]
    unbound: dict[str, GraphlsError] = field(default_factory=dict)
    partial: dict[bool, dict[str, Any]] = field(default_factory=dict)
    objects: Sequence[object] = ()

    def value_of(self, item: object) -> Any:
        """The value of an object at this end, before any later assignment."""
        number = next((number for number, each in enumerate(self.objects) if each is item), None)
        return item if number is None else self.values[number]

    def copied(self) -> Outcome:
        """The outcome with new symbols of the same values."""
        parts = {answer: copies(values) for answer, values in self.partial.items()}
        return replace(self, result=copies(self.result), values=copies(self.values), partial=parts)


@dataclass
class BranchResult:
    """The trace of one branch: its region, its results as a pytree, the states that it wrote, and its prints."""

    builder: Builder
    results: Any
    states: dict[Parameter, Value]
    shown: list[Shown]


def merge_branches(
    tracer: Tracer, condition: Value, loc: Location | None, first: BranchResult, second: BranchResult
) -> Any:
    """Merge the results of both branches into one `cond`; the states that they wrote are written."""
    merge = _Merge(tracer, loc, (first, second))
    try:
        if isinstance(first.results, Outcome):
            template = merge.outcomes(first.results, second.results)
        else:
            template = merge.pair(first.results, second.results)
    except Unmergeable as error:
        raise MergeError(str(error).format(name=""), loc) from None
    written = list(dict.fromkeys((*first.states, *second.states)))
    # A state that only one branch writes keeps, after the other one, its value from before both.
    states = [merge.output(*(e.states.get(p) or tracer.current(p) for e in merge.branches)) for p in written]
    shown = [merge.shown(item, i) for i, branch in enumerate(merge.branches) for item in branch.shown]
    outputs = merge.emitted(condition)
    for item in shown:
        show_here(tracer, item(outputs))
    for parameter, state in zip(written, states, strict=True):
        tracer.set_written(parameter, state(outputs).graph_value)
    return template(outputs)


@dataclass
class _Merge:
    tracer: Tracer
    loc: Location | None
    branches: tuple[BranchResult, BranchResult]
    differing: dict[tuple[Value, Value], int] = field(default_factory=dict)

    # -- results ----------------------------------------------------------------------------------------------

    def outcomes(self, first: Outcome, second: Outcome) -> Template:
        """Merge two outcomes: both results must merge; a variable that does not is unbound after the branches."""
        result = self.pair(first.result, second.result)
        values: dict[Any, Template] = {}
        unbound = {**first.unbound, **second.unbound}
        partial: dict[bool, dict[str, Template]] = {True: {}, False: {}}
        returned = [outcome.values.get("@returned") is True for outcome in (first, second)]
        for key, a in first.values.items():
            b = second.values[key]
            if (a is UNBOUND and returned[0]) or (b is UNBOUND and returned[1]):  # never read after the return
                values[key] = self.one_sided(a, b)
            else:
                values[key] = self._variable(key, a, b, unbound, partial)
        return lambda outputs: Outcome(
            result(outputs),
            {key: template(outputs) for key, template in values.items()},
            unbound,
            {answer: {key: t(outputs) for key, t in parts.items()} for answer, parts in partial.items()},
            first.objects,
        )

    def _variable(
        self, key: Any, a: object, b: object, unbound: dict[str, GraphlsError], partial: dict[bool, dict[str, Template]]
    ) -> Template:
        if a is UNBOUND and b is UNBOUND:
            return lambda _: UNBOUND
        is_own = not isinstance(key, str) or key.startswith("@")
        if a is UNBOUND or b is UNBOUND:
            template = self.one_sided(a, b)
            if is_own:
                return template
            answer = b is UNBOUND
            text = f"{key!r} has no value where this condition is {not answer}; give it one before."
            unbound[key] = GraphNameError(text, self.loc)
            partial[answer][key] = template
            return lambda _: UNBOUND
        try:
            return self.pair(a, b)
        except Unmergeable as error:
            if is_own:
                raise
            unbound[key] = MergeError(str(error).format(name=f" {key!r}"), self.loc)
            return lambda _: UNBOUND

    def pair(self, a: Any, b: Any) -> Template:
        """Merge two pytrees of one structure; raises Unmergeable for others."""
        if a is b:
            return lambda _: a
        a, b = self._value_of(0, a), self._value_of(1, b)
        a, b = _as_flag(a, b), _as_flag(b, a)
        if isinstance(a, (tuple, list, dict)) or isinstance(b, (tuple, list, dict)):
            if type(a) is not type(b) or structure(a) != structure(b):
                raise Unmergeable("Both branches of a condition must give{name} results of the same structure.")
            return self._rebuilt(a, [self.pair(*items) for items in zip(_items(a), _items(b), strict=True)])
        return self._leaf(_resolved(a), _resolved(b))

    def _value_of(self, index: int, item: object) -> Any:
        """The value of an object at the end of one branch."""
        results = self.branches[index].results
        return results.value_of(item) if isinstance(results, Outcome) else item

    def one_sided(self, a: object, b: object) -> Template:
        """Merge a pytree that only one branch has: the other one yields zeros, which are never read."""
        if a is b:
            return lambda _: a
        present, index = (b, 1) if a is UNBOUND else (a, 0)
        present = self._value_of(index, present)
        if isinstance(present, (tuple, list, dict)):
            parts = [self.one_sided(*((UNBOUND, item) if index else (item, UNBOUND))) for item in _items(present)]
            return self._rebuilt(present, parts)
        present = _resolved(present)
        if not is_tensor(present) or isinstance(present, Parameter):
            return lambda _: present
        value = self._value(self.branches[index], present)
        zero = np.zeros((), value.type.dtype.numpy)
        pair = (value, self.branches[1 - index].builder.fill(zero, value.type.shape))
        return self.output(*(pair[::-1] if index else pair))

    def shown(self, item: Shown, index: int) -> Callable[[Sequence[Symbol]], Shown]:
        """The prints of one branch, moved after the cond; their guard is false where the other branch runs."""
        own, other = self.branches[index].builder, self.branches[1 - index].builder
        own_values = {value for node in own.nodes for value in node.outputs}

        def merged(value: Value, instead: Value) -> Template:
            return self.output(*((instead, value) if index else (value, instead)))

        guard = merged(item.guard or own.fill(np.array(True), item.loops), other.fill(np.array(False), item.loops))
        values: list[Template] = []
        for value in item.values:
            if value in own_values:
                zeros = other.fill(np.zeros((), value.type.dtype.numpy), value.type.shape)
                values.append(merged(value, zeros))
            else:
                values.append(self.output(value, value))

        def moved(outputs: Sequence[Symbol]) -> Shown:
            current = tuple(value(outputs).graph_value for value in values)
            return replace(item, guard=guard(outputs).graph_value, values=current)

        return moved

    def _rebuilt(self, like: object, parts: Sequence[Template]) -> Template:
        if isinstance(like, dict):
            return lambda outputs: {key: part(outputs) for key, part in zip(like, parts, strict=True)}
        if hasattr(like, "_fields"):
            return lambda outputs: type(like)(*(part(outputs) for part in parts))
        return lambda outputs: (list if isinstance(like, list) else tuple)(part(outputs) for part in parts)

    def _leaf(self, a: object, b: object) -> Template:
        if a is b or (not is_tensor(a) and type(a) is type(b) and a == b):
            return lambda _: a
        if not (is_number(a) or is_tensor(a)) or not (is_number(b) or is_tensor(b)):
            raise Unmergeable(_difference(a, b).replace("{", "{{").replace("}", "}}").replace("{{name}}", "{name}"))
        dtypes = _number_dtype(a, b), _number_dtype(b, a)
        values = [self._value(e, item, dtype) for e, item, dtype in zip(self.branches, (a, b), dtypes, strict=True)]
        if values[0].type != values[1].type:
            kinds = f"{values[0].type} and {values[1].type}"
            raise Unmergeable(f"Both branches of a condition must give{{name}} the same type, not {kinds}.")
        return self.output(*values)

    def _value(self, branch: BranchResult, item: object, dtype: DType | None = None) -> Value:
        """A leaf as a value in the region of a branch."""
        if isinstance(item, Parameter):
            return branch.states.get(item) or self.tracer.current(item)
        if isinstance(item, Symbol):
            return item.graph_value
        return branch.builder.constant(array_of(item, dtype))

    # -- the cond ---------------------------------------------------------------------------------------------

    def output(self, a: Value, b: Value) -> Template:
        """The symbol of a value that both branches have, or of the output of the cond that chooses between two."""
        if a is b:
            return lambda _: Symbol(a)
        index = self.differing.setdefault((a, b), len(self.differing))
        return lambda outputs: Symbol(outputs[index].graph_value)

    def emitted(self, condition: Value) -> list[Symbol]:
        """Emit the cond, if anything differs; returns its outputs."""
        if not self.differing:
            return []
        tracer, pairs = self.tracer, list(self.differing)
        regions = tuple(
            Graph("region", (), (), tuple(branch.builder.nodes), (), tuple(pair[i] for pair in pairs))
            for i, branch in enumerate(self.branches)
        )
        e = tracer.builder
        phases = {n.phase for region in regions for n in region.nodes}
        phase = phases.pop() if len(phases) == 1 else "update" if "update" in phases else tracer.here.phase
        e.follow(tracer.here, phase)
        e.loc = self.loc
        names = [pair[0].name for pair in pairs]
        outputs = e.emit("cond", (truth(e, condition),), {}, regions=regions)
        tracer.note(outputs)
        for value, name, pair in zip(outputs, names, pairs, strict=True):
            e.names.taken.discard(value.name)
            value.name = e.names.fresh(name)
            tracer.aliases.note_choice(value, pair)
        return list(map(Symbol, outputs))


def truth(e: Builder, value: Value) -> Value:
    """The truth value of a tensor of one element: a bool without axes."""
    if value.type.dtype.kind != "bool":
        value = e.not_equal(value, 0)
    return e.emit("reshape", (value,), {"shape": ()})[0] if value.type.shape else value


def _items(tree: Any) -> list[Any]:
    return list(tree.values()) if isinstance(tree, dict) else list(tree)


def _resolved(leaf: object) -> Any:
    """The parameter of a symbol of a state, which is read after the merge; scratch tensors stay symbols."""
    if not isinstance(leaf, StateSymbol):
        return leaf
    return leaf.parameter if not isinstance(leaf.parameter, Scratch) else leaf


def _as_flag(item: Any, other: object) -> Any:
    """A tuple of bools, as optimizers return it, beside a bool: whether all of them are true."""
    flags = leaves(item) if isinstance(item, tuple) and isinstance(other, bool) else []
    return all(flags) if flags and all(isinstance(flag, bool) for flag in flags) else item


def _number_dtype(item: Any, other: object) -> DType | None:
    """The dtype that a Python number takes beside another leaf: that of a tensor or of a number of a higher kind."""
    if not is_number(item):
        return None
    own, other_dtype = Tensor(item).dtype, other.dtype if isinstance(other, Tensor) else Tensor(array_of(other)).dtype
    return other_dtype if covers(other_dtype, own) else own


def _difference(a: object, b: object) -> str:
    bad = [item for item in (a, b) if not (is_number(item) or is_tensor(item))]
    if len(bad) == 2:
        return f"Both branches of a condition must give{{name}} the same, not {a!r} and {b!r}."
    return f"Both branches of a condition must give{{name}} tensors, not {bad[0]!r} in one of them."
