"""What rewritten functions call: plain Python for Python's values, and parts of the graph for those of a trace."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import CellType
from typing import Any

from graphls.ir.graph import Value
from graphls.ir.location import user_location
from graphls.trace.branches import ending, explore
from graphls.trace.current import current_tracer
from graphls.trace.joining import Outcome, joined
from graphls.trace.regions import once
from graphls.trace.rewriting.loops import looped
from graphls.trace.rewriting.selection import element
from graphls.trace.rewriting.state import Attributes, State, is_empty, set_cell
from graphls.trace.rewriting.steps import Steps, counted
from graphls.trace.rewriting.truth import boolean, both, chain, condition_of, decided, either, opposite

__all__ = ["both", "branch", "callee", "chain", "each", "either", "element", "going_on", "loop", "opposite", "steps"]

Function = Callable[..., Any]


def callee(function: Any) -> Any:
    """What a call calls: a function of the user's in its form for a trace."""
    from graphls.trace.rewriting.functions import rewritten

    if current_tracer() is None:
        return function
    return boolean if function is bool else rewritten(function)


def branch(test: Any, yes: Function, no: Function, variables: Any = None, attributes: Attributes = ()) -> Any:
    """`yes()` or `no()` by a condition; both, joined by a `cond`, where the graph computes it."""
    value = condition_of(test)
    if value is None:
        return yes() if test else no()
    return _chosen(value, yes, no, lambda: State(variables, (yes, no), attributes))


def _chosen(value: Value, yes: Function, no: Function, state_of: Callable[[], State]) -> Any:
    known = decided(value)
    if known is not None:
        return yes() if known else no()
    tracer = current_tracer()
    assert tracer is not None
    value, is_negated = tracer.aliases.canonical(value)
    functions = {True: no, False: yes} if is_negated else {True: yes, False: no}
    state = state_of()
    revived = {answer: _revived(tracer, (value, answer), state) for answer in functions}
    outcome: Outcome = once(tracer, "if", lambda: _joined(tracer, value, functions, state, revived), Outcome.copied)
    for answer, parts in outcome.partial.items():
        found = [(state.cells[name], held) for name, held in parts.items()]
        revivable = tracer.here.partial
        revivable[value, answer] = [*revivable.get((value, answer), ()), *found]
    return state.take(outcome, tracer)


def _revived(tracer: Any, key: tuple[Value, bool], state: State) -> list[tuple[CellType, Any]]:
    """Variables that have got a value under this answer before, and have none without it."""
    found = []
    names = {id(cell): name for name, cell in state.reached.items()}
    for cell, held in tracer.here.partial.get(key, ()):
        if id(cell) in names and is_empty(cell):
            state.cells[names[id(cell)]] = cell
            found.append((cell, held))
    return found


def _joined(tracer: Any, value: Value, functions: Any, state: State, revived: Any) -> Outcome:
    before, loc = state.read(), user_location()

    def run(answer: bool) -> Outcome:
        state.write(before)
        for cell, held in revived[answer]:
            set_cell(cell, held)
        result = functions[answer]()
        return Outcome(result, state.read())

    endings = [
        ending(tracer, value, answer, loc, lambda answer=answer: explore(tracer, lambda: run(answer)))  # type: ignore[misc]
        for answer in (True, False)
    ]
    state.write(before)
    outcome: Outcome = joined(tracer, value, loc, *endings)
    return replace(outcome, values=state.changes(before, outcome.values))


# -- loops ----------------------------------------------------------------------------------------------------


def going_on(flags: Callable[[], Sequence[Any]]) -> Any:
    """Whether none of these jumps has happened."""
    jumped: Any = False
    for flag in flags():
        jumped = either(jumped, lambda flag=flag: flag)  # type: ignore[misc]
    return opposite(jumped)


def loop(
    test: Function,
    body: Function,
    variables: Any,
    stops: Callable[[], Sequence[Any]],
    growing: Sequence[str],
    attributes: Attributes = (),
) -> None:
    """`while test(): body()`, a `while_loop` from where the graph computes the condition; `stops` has its jumps."""

    def condition() -> Any:
        return both(going_on(stops), test)

    while True:
        answer = condition()
        value = condition_of(answer)
        if value is not None and decided(value) is not False:
            looped(condition, body, State(variables, (test, body), attributes), growing)
            return
        if value is not None or not answer:
            return
        body()


def each(
    items: Iterable[Any],
    body: Function,
    variables: Any,
    stops: Callable[[], Sequence[Any]],
    growing: Sequence[str],
    attributes: Attributes = (),
) -> None:
    """`for item in items: body(item)`; after a jump that the graph decides, the rest is guarded by conditions."""
    if isinstance(items, Steps):
        counted(items, body, State(variables, (body,), attributes), lambda: going_on(stops), growing)
        return
    for item in items:
        go = going_on(stops)
        value = condition_of(go)
        if value is None:
            body(item)
        else:
            _chosen(value, partial(body, item), _nothing, lambda: State(variables, (body,), attributes))
        go = going_on(stops)
        if condition_of(go) is None and not go:
            return


def steps(function: Any, *bounds: Any) -> Any:
    """`range(*bounds)`, of which the graph may compute the bounds."""
    if function is builtins.range and any(condition_of(bound) is not None for bound in bounds):
        return Steps.of(bounds)
    return callee(function)(*bounds)


def _nothing() -> None:
    return None
