"""What rewritten functions call: plain Python for Python's values, and parts of the graph for those of a trace."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from graphls.trace.rewriting.branching import branch, chosen
from graphls.trace.rewriting.forms import rewritten
from graphls.trace.rewriting.loops import looped
from graphls.trace.rewriting.selection import element
from graphls.trace.rewriting.state import Attributes, State
from graphls.trace.rewriting.steps import Steps, counted
from graphls.trace.rewriting.truth import boolean, both, chain, condition_of, decided, either, opposite
from graphls.trace.tracer import current_tracer

__all__ = ["both", "branch", "callee", "chain", "each", "either", "element", "going_on", "loop", "opposite", "steps"]

Function = Callable[..., Any]


def callee(function: object) -> Any:
    """What a call calls: a function of the user's in its form for a trace."""
    if current_tracer() is None:
        return function
    return boolean if function is bool else rewritten(function)


# -- loops ----------------------------------------------------------------------------------------------------


def going_on(flags: Callable[[], Sequence[object]]) -> Any:
    """Whether none of these jumps has happened."""
    jumped: Any = False
    for flag in flags():
        jumped = either(jumped, lambda flag=flag: flag)  # type: ignore[misc]
    return opposite(jumped)


def loop(
    test: Function,
    body: Function,
    variables: object,
    stops: Callable[[], Sequence[object]],
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
    items: Iterable[object],
    body: Function,
    variables: object,
    stops: Callable[[], Sequence[object]],
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
            chosen(value, partial(body, item), _nothing, lambda: State(variables, (body,), attributes))
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
