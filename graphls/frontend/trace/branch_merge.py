"""Branch merge: the results of two branches become one `cond` whose outputs are the values that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphNameError, TraceError
from graphls.base.location import Location
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, structure
from graphls.frontend.tensors.tensor import Symbol, Tensor, array_of, is_tensor
from graphls.frontend.trace.host_calls import Shown, show_here
from graphls.frontend.trace.states import Scratch, StateSymbol, copies
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.types import DType

Template = Callable[[Sequence[Symbol]], Any]
"""What makes the joined object out of the outputs of the cond."""

KINDS = {"bool": 0, "uint": 1, "int": 1, "float": 2}


class Unbound:
    """Stands for the value of a variable that has none."""

    def __repr__(self) -> str:
        return "no value"


UNBOUND = Unbound()


class Unjoinable(Exception):
    """Two objects that are no outputs of one cond; the text says why, with a gap for a name."""


class NotJoined(TraceError):
    """The answers of one condition have results that no cond has; without a join each may be gone on with alone."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a branch or a loop: its result, and the values of variables and containers at its end.

    `unbound` says why a variable has no value any more; `partial` is what it has where the condition is as in the key;
    `objects` are containers and symbols that may hold something else by now, by their numbers in `values`.
    """

    result: Any
    values: dict[Any, Any]
    unbound: dict[str, GraphlsError] = field(default_factory=dict)
    partial: dict[bool, dict[str, Any]] = field(default_factory=dict)
    objects: Sequence[object] = ()

    def value_of(self, item: object) -> Any:
        """The value of an object at this end, whatever it was given since."""
        number = next((number for number, each in enumerate(self.objects) if each is item), None)
        return item if number is None else self.values[number]

    def copied(self) -> Outcome:
        """The same with new symbols of the same values."""
        parts = {answer: copies(held) for answer, held in self.partial.items()}
        return replace(self, result=copies(self.result), values=copies(self.values), partial=parts)


@dataclass
class BranchResult:
    """The trace of one branch: a region, its results, a pytree, the states it wrote, and what it shows."""

    builder: Builder
    results: Any
    states: dict[Parameter, Value]
    shown: list[Shown]


def merge_branches(
    tracer: Tracer, condition: Value, loc: Location | None, first: BranchResult, second: BranchResult
) -> Any:
    """Merge the results of both branches into one `cond`; the states that they wrote are written."""
    join = _Join(tracer, loc, (first, second))
    try:
        if isinstance(first.results, Outcome):
            template = join.outcomes(first.results, second.results)
        else:
            template = join.pair(first.results, second.results)
    except Unjoinable as error:
        raise NotJoined(str(error).format(name=""), loc) from None
    written = list(dict.fromkeys((*first.states, *second.states)))
    # A state that only one answer writes is, after the other, what it was before both.
    states = [join.output(*(e.states.get(p) or tracer.current(p) for e in join.endings)) for p in written]
    shown = [join.shown(item, i) for i, ending in enumerate(join.endings) for item in ending.shown]
    outputs = join.emitted(condition)
    for item in shown:
        show_here(tracer, item(outputs))
    for parameter, state in zip(written, states, strict=True):
        tracer.set_written(parameter, state(outputs).graph_value)
    return template(outputs)


@dataclass
class _Join:
    tracer: Tracer
    loc: Location | None
    endings: tuple[BranchResult, BranchResult]
    differing: dict[tuple[Value, Value], int] = field(default_factory=dict)

    # -- what is joined ---------------------------------------------------------------------------------------

    def outcomes(self, first: Outcome, second: Outcome) -> Template:
        """Both results must join; a variable that does not has no value behind the branches."""
        result = self.pair(first.result, second.result)
        values: dict[Any, Template] = {}
        unbound = {**first.unbound, **second.unbound}
        partial: dict[bool, dict[str, Template]] = {True: {}, False: {}}
        returned = [outcome.values.get("@returned") is True for outcome in (first, second)]
        for key, a in first.values.items():
            b = second.values[key]
            if (a is UNBOUND and returned[0]) or (b is UNBOUND and returned[1]):  # nobody reads it there any more
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
        except Unjoinable as error:
            if is_own:
                raise
            unbound[key] = NotJoined(str(error).format(name=f" {key!r}"), self.loc)
            return lambda _: UNBOUND

    def pair(self, a: Any, b: Any) -> Template:
        """Two pytrees of one structure; raises Unjoinable for others."""
        if a is b:
            return lambda _: a
        a, b = self._value_of(0, a), self._value_of(1, b)
        a, b = _as_flag(a, b), _as_flag(b, a)
        if isinstance(a, (tuple, list, dict)) or isinstance(b, (tuple, list, dict)):
            if type(a) is not type(b) or structure(a) != structure(b):
                raise Unjoinable("Both answers of a condition must give{name} results of the same structure.")
            return self._rebuilt(a, [self.pair(*items) for items in zip(_items(a), _items(b), strict=True)])
        return self._leaf(_resolved(a), _resolved(b))

    def _value_of(self, index: int, item: object) -> Any:
        """The value of an object where one of the answers ended."""
        results = self.endings[index].results
        return results.value_of(item) if isinstance(results, Outcome) else item

    def one_sided(self, a: object, b: object) -> Template:
        """A pytree that only one answer gives: the other one has zeros, which nobody reads."""
        if a is b:
            return lambda _: a
        given, index = (b, 1) if a is UNBOUND else (a, 0)
        given = self._value_of(index, given)
        if isinstance(given, (tuple, list, dict)):
            parts = [self.one_sided(*((UNBOUND, item) if index else (item, UNBOUND))) for item in _items(given)]
            return self._rebuilt(given, parts)
        given = _resolved(given)
        if not is_tensor(given) or isinstance(given, Parameter):
            return lambda _: given
        value = self._value(self.endings[index], given)
        zero = np.zeros((), value.type.dtype.numpy)
        pair = (value, self.endings[1 - index].builder.fill(zero, value.type.shape))
        return self.output(*(pair[::-1] if index else pair))

    def shown(self, item: Shown, index: int) -> Callable[[Sequence[Symbol]], Shown]:
        """The prints of one branch, moved behind the cond: where the other one is taken, its guard is false."""
        own, other = self.endings[index].builder, self.endings[1 - index].builder
        made = {value for node in own.nodes for value in node.outputs}

        def merged(value: Value, instead: Value) -> Template:
            return self.output(*((instead, value) if index else (value, instead)))

        guard = merged(item.guard or own.fill(np.array(True), item.loops), other.fill(np.array(False), item.loops))
        values: list[Template] = []
        for value in item.values:
            if value in made:
                zeros = other.fill(np.zeros((), value.type.dtype.numpy), value.type.shape)
                values.append(merged(value, zeros))
            else:
                values.append(self.output(value, value))

        def behind(outputs: Sequence[Symbol]) -> Shown:
            found = tuple(value(outputs).graph_value for value in values)
            return replace(item, guard=guard(outputs).graph_value, values=found)

        return behind

    def _rebuilt(self, like: object, parts: Sequence[Template]) -> Template:
        if isinstance(like, dict):
            return lambda outputs: {key: part(outputs) for key, part in zip(like, parts, strict=True)}
        if hasattr(like, "_fields"):
            return lambda outputs: type(like)(*(part(outputs) for part in parts))
        return lambda outputs: (list if isinstance(like, list) else tuple)(part(outputs) for part in parts)

    def _leaf(self, a: object, b: object) -> Template:
        if a is b or (not is_tensor(a) and type(a) is type(b) and a == b):
            return lambda _: a
        if not (_is_number(a) or is_tensor(a)) or not (_is_number(b) or is_tensor(b)):
            raise Unjoinable(_difference(a, b).replace("{", "{{").replace("}", "}}").replace("{{name}}", "{name}"))
        dtypes = _number_dtype(a, b), _number_dtype(b, a)
        values = [self._value(e, item, dtype) for e, item, dtype in zip(self.endings, (a, b), dtypes, strict=True)]
        if values[0].type != values[1].type:
            kinds = f"{values[0].type} and {values[1].type}"
            raise Unjoinable(f"Both answers of a condition must give{{name}} the same type, not {kinds}.")
        return self.output(*values)

    def _value(self, ending: BranchResult, item: object, dtype: DType | None = None) -> Value:
        """A leaf as a value that the region of an ending has."""
        if isinstance(item, Parameter):
            return ending.states.get(item) or self.tracer.current(item)
        if isinstance(item, Symbol):
            return item.graph_value
        return ending.builder.constant(array_of(item, dtype))

    # -- the cond ---------------------------------------------------------------------------------------------

    def output(self, a: Value, b: Value) -> Template:
        """The symbol of a value that both answers give, or of the output of the cond that is one or the other."""
        if a is b:
            return lambda _: Symbol(a)
        index = self.differing.setdefault((a, b), len(self.differing))
        return lambda outputs: Symbol(outputs[index].graph_value)

    def emitted(self, condition: Value) -> list[Symbol]:
        """The outputs of the cond, which is made if there is something to choose."""
        if not self.differing:
            return []
        tracer, pairs = self.tracer, list(self.differing)
        regions = tuple(
            Graph("region", (), (), tuple(ending.builder.nodes), (), tuple(pair[i] for pair in pairs))
            for i, ending in enumerate(self.endings)
        )
        e = tracer.builder
        phases = {n.phase for region in regions for n in region.nodes}
        phase = phases.pop() if len(phases) == 1 else "update" if "update" in phases else tracer.here.phase
        e.phase, e.scope, e.loc = phase, tracer.here.scope, self.loc
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
    """A parameter itself where it stands behind `depend`: it is read after the join. Scratch tensors stay symbols."""
    if not isinstance(leaf, StateSymbol):
        return leaf
    return leaf.parameter if not isinstance(leaf.parameter, Scratch) else leaf


def _as_flag(given: Any, other: object) -> Any:
    """Beside a bool, what an optimizer gives, a tuple of bools, is whether all of these are true."""
    flags = leaves(given) if isinstance(given, tuple) and isinstance(other, bool) else []
    return all(flags) if flags and all(isinstance(flag, bool) for flag in flags) else given


def _is_number(item: object) -> bool:
    return isinstance(item, (bool, int, float))


def _number_dtype(item: Any, other: object) -> DType | None:
    """The dtype that a Python number takes beside another leaf: that of a tensor or of a number of a higher kind."""
    if not _is_number(item):
        return None
    own, beside = Tensor(item).dtype, other.dtype if isinstance(other, Tensor) else Tensor(array_of(other)).dtype
    return beside if KINDS[beside.kind] >= KINDS[own.kind] else own


def _difference(a: object, b: object) -> str:
    bad = [item for item in (a, b) if not (_is_number(item) or is_tensor(item))]
    if len(bad) == 2:
        return f"Both answers of a condition must give{{name}} the same, not {a!r} and {b!r}."
    return f"Both answers of a condition must give{{name}} tensors, not {bad[0]!r} in one of them."
