"""`if` on a traced bool: both answers are traced, and their endings joined in one `cond`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphls.ir.build import Builder
from graphls.ir.errors import TraceError
from graphls.ir.graph import Graph, Location, Value
from graphls.parameter import Parameter
from graphls.tensor import Symbol, array_of, is_tensor
from graphls.tree import leaves, rebuild, structure

if TYPE_CHECKING:
    from graphls.trace.tracer import Tracer

MOST_PATHS = 64


class Fork(BaseException):
    """A path has come to a condition that it has no answer for."""

    def __init__(self, frame: Frame, condition: Value, loc: Location | None) -> None:
        self.frame, self.condition, self.loc = frame, condition, loc


@dataclass(frozen=True)
class Recorded:
    """One thing that a construct did: a node it made, or a cell it called and the states that this wrote."""

    kind: str
    outputs: Any
    writes: tuple[tuple[Parameter, Value], ...] = ()


@dataclass
class Frame:
    """One run of a construct: what it has done so far, and how much of that is being repeated."""

    log: list[Recorded] = field(default_factory=list)
    cursor: int = 0
    constants: dict[Any, Value] = field(default_factory=dict)
    sites: list[int] = field(default_factory=list)
    sites_used: int = 0

    def replayed(self, kind: str) -> Recorded | None:
        """What was recorded at this point of an earlier run; None where this run goes on alone."""
        if self.cursor >= len(self.log):
            return None
        recorded = self.log[self.cursor]
        if recorded.kind != kind:
            raise TraceError(
                f"A construct that branches on a tensor must do the same each time, but did {kind} where it "
                f"did {recorded.kind} before; do not let it depend on what changes between two runs."
            )
        self.cursor += 1
        return recorded

    def record(self, entry: Recorded) -> None:
        """Remember what was done."""
        self.log.append(entry)
        self.cursor += 1

    def site(self, fresh: Callable[[], int]) -> int:
        """The number of a random call site, the same in every run."""
        if self.sites_used == len(self.sites):
            self.sites.append(fresh())
        self.sites_used += 1
        return self.sites[self.sites_used - 1]

    def branch(self) -> Frame:
        """The frame of a run that repeats everything so far and then goes on alone."""
        return Frame(list(self.log), sites=list(self.sites))


def explore(tracer: Tracer, run: Callable[[], Any], frame: Frame | None = None, count: list[int] | None = None) -> Any:
    """The results of `run()`, in which every condition on a traced bool has been joined by `cond`."""
    frame = frame or Frame()
    count = count if count is not None else [1]
    start, calls = len(tracer.writes), len(tracer.calls[-1])
    depth = len(tracer.frames)
    tracer.frames.append(frame)
    try:
        return run()
    except Fork as fork:
        count[0] += 1
        if count[0] > MOST_PATHS:
            raise TraceError(
                f"This construct takes more than {MOST_PATHS} paths through its conditions on tensors; "
                "use ops.where, ops.cond or ops.while_loop, or move conditions into cells of their own.",
                fork.loc,
            ) from None
        del tracer.frames[depth:]
        tracer.forget_writes(start)
        made = tracer.calls[-1][calls:]
        del tracer.calls[-1][calls:]
        results = _both(tracer, run, frame, fork, count)
        tracer.calls[-1] += made
        return results
    finally:
        del tracer.frames[depth:]


@dataclass
class _Ending:
    """Where one answer leads: a region, the results as they nest and as values, and the states it wrote."""

    builder: Builder
    results: Any
    values: list[Any]
    states: dict[Parameter, Value]


def _both(tracer: Tracer, run: Callable[[], Any], frame: Frame, fork: Fork, count: list[int]) -> Any:
    first, second = endings = [_one(tracer, run, frame.branch(), fork, answer, count) for answer in (True, False)]
    if structure(first.results) != structure(second.results):
        raise TraceError("Both answers of a condition must give results of the same structure.", fork.loc)
    written = list(dict.fromkeys((*first.states, *second.states)))
    pairs = [_read(tracer, endings, pair) for pair in zip(first.values, second.values, strict=True)]
    pairs += [tuple(e.states.get(p) or tracer.current(p) for e in endings) for p in written]
    joined = _join(tracer, fork, endings, pairs)
    results = joined[: len(first.values)]
    for parameter, value in zip(written, joined[len(results) :], strict=True):
        tracer.set_written(parameter, value)
    return rebuild(first.results, [Symbol(v) if isinstance(v, Value) else v for v in results])


def _one(
    tracer: Tracer, run: Callable[[], Any], frame: Frame, fork: Fork, answer: bool, count: list[int]
) -> _Ending:
    """Trace one answer to its end, in a region of its own."""
    outer, decided, start = tracer.builder, tracer.decided, len(tracer.writes)
    tracer.builder = Builder(outer.names)
    tracer.decided = {**decided, fork.condition: answer}
    tracer.calls.append([])
    tracer.frames.append(Frame())
    try:
        results = explore(tracer, run, frame, count)
        values = [_ending_value(tracer, leaf) for leaf in leaves(results)]
        return _Ending(tracer.builder, results, values, dict(tracer.writes[start:]))
    finally:
        tracer.frames.pop()
        tracer.calls.pop()
        tracer.forget_writes(start)
        tracer.builder, tracer.decided = outer, decided


def _ending_value(tracer: Tracer, leaf: Any) -> Any:
    """What a path ends with: a value, a parameter that is read after the join, or a Python object."""
    parameter = getattr(leaf, "parameter", leaf) if isinstance(leaf, Symbol) else leaf
    if isinstance(parameter, Parameter):
        return parameter
    return tracer.value(leaf) if is_tensor(leaf) else leaf


def _read(tracer: Tracer, endings: list[_Ending], pair: tuple[Any, Any]) -> tuple[Any, ...]:
    """A pair in which parameters are read, unless both paths end with the same one."""
    if pair[0] is pair[1]:
        return pair
    return tuple(
        (e.states.get(item) or tracer.current(item)) if isinstance(item, Parameter) else item
        for e, item in zip(endings, pair, strict=True)
    )


def _join(tracer: Tracer, fork: Fork, endings: list[_Ending], pairs: list[Any]) -> list[Any]:
    """One value for each pair: itself where both answers agree, an output of the cond where they differ."""
    pairs = [_as_values(endings, pair, fork) for pair in pairs]
    differing = list(dict.fromkeys(p for p in pairs if isinstance(p[0], Value) and p[0] is not p[1]))
    if not differing:
        return [p[0] for p in pairs]
    regions = tuple(
        Graph("region", (), (), tuple(e.builder.nodes), (), tuple(p[i] for p in differing))
        for i, e in enumerate(endings)
    )
    e = tracer.builder
    phases = {n.phase for region in regions for n in region.nodes}
    phase = phases.pop() if len(phases) == 1 else "update" if "update" in phases else tracer.phases[-1]
    e.phase, e.scope, e.loc = phase, ".".join(filter(None, tracer.scopes)), fork.loc
    names = [p[0].name for p in differing]
    outputs = e.emit("cond", (_truth(e, fork.condition),), {}, regions=regions)
    tracer.note(outputs)
    for value, name in zip(outputs, names, strict=True):
        e.names.taken.discard(value.name)
        value.name = e.names.fresh(name)
    found = dict(zip(differing, outputs, strict=True))
    return [found[p] if p in found else p[0] for p in pairs]


def _truth(e: Builder, value: Value) -> Value:
    """What Python takes a tensor of one element for: a bool without axes."""
    if value.type.dtype.kind != "bool":
        value = e.not_equal(value, 0)
    return e.emit("reshape", (value,), {"shape": ()})[0] if value.type.shape else value


def _as_values(endings: list[_Ending], pair: tuple[Any, Any], fork: Fork) -> tuple[Any, Any]:
    """A pair of leaves as values of one type, or as one Python object."""
    first, second = pair
    if not isinstance(first, Value) and not isinstance(second, Value):
        if first is second or (type(first) is type(second) and first == second):
            return pair
        if not all(isinstance(item, (bool, int, float)) for item in pair):
            raise TraceError(f"Both answers of a condition must give the same, not {first!r} and {second!r}.", fork.loc)
    first, second = (
        item if isinstance(item, Value) else _constant(ending, item, fork)
        for item, ending in zip(pair, endings, strict=True)
    )
    if first.type != second.type:
        raise TraceError(
            f"Both answers of a condition must give the same type, not {first.type} and {second.type}.", fork.loc
        )
    return first, second


def _constant(ending: _Ending, number: Any, fork: Fork) -> Value:
    if not isinstance(number, (bool, int, float)):
        raise TraceError(f"Both answers of a condition must give tensors, not {number!r} in one of them.", fork.loc)
    return ending.builder.constant(array_of(number))
