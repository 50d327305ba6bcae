"""Branches of rewritten functions: both sides are traced and merged into a `cond`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import CellType
from typing import Any

from graphls.base.location import user_location
from graphls.frontend.trace.branch_merge import Outcome, merge_branches
from graphls.frontend.trace.branches import explore, trace_branch
from graphls.frontend.trace.regions import once
from graphls.frontend.trace.rewriting.state import Attributes, State, is_empty, set_cell
from graphls.frontend.trace.rewriting.truth import condition_of, decided
from graphls.frontend.trace.tracer import Tracer, current_tracer
from graphls.ir.graph import Value

Function = Callable[..., Any]


def branch(test: object, yes: Function, no: Function, variables: object = None, attributes: Attributes = ()) -> Any:
    """`yes()` or `no()` by a condition; both, merged into a `cond`, where the graph computes it."""
    value = condition_of(test)
    if value is None:
        return yes() if test else no()
    return choose(value, yes, no, lambda: State(variables, (yes, no), attributes))


def choose(value: Value, yes: Function, no: Function, state_of: Callable[[], State]) -> Any:
    """`yes()` or `no()` by a value of the graph; both, merged, where no outer branch has decided it."""
    known = decided(value)
    if known is not None:
        return yes() if known else no()
    tracer = current_tracer()
    assert tracer is not None
    value, is_negated = tracer.aliases.canonical(value)
    # `if not p` is `if p` with the branches exchanged, so that both share what is known of p.
    functions = {True: no, False: yes} if is_negated else {True: yes, False: no}
    state = state_of()
    revived = {answer: _revived(tracer, (value, answer), state) for answer in functions}
    outcome: Outcome = once(tracer, "if", lambda: _merged(tracer, value, functions, state, revived), Outcome.copied)
    for answer, parts in outcome.partial.items():
        cells = [(state.cells[name], contents) for name, contents in parts.items()]
        revivable = tracer.here.partial
        revivable[value, answer] = [*revivable.get((value, answer), ()), *cells]
    return state.take(outcome, tracer)


def _revived(tracer: Tracer, key: tuple[Value, bool], state: State) -> list[tuple[CellType, Any]]:
    """Variables that an earlier branch with this answer has bound, and that are unbound otherwise."""
    revived = []
    names = {id(cell): name for name, cell in state.reached.items()}
    for cell, contents in tracer.here.partial.get(key, ()):
        if id(cell) in names and is_empty(cell):
            state.cells[names[id(cell)]] = cell
            revived.append((cell, contents))
    return revived


def _merged(tracer: Tracer, value: Value, functions: Any, state: State, revived: Any) -> Outcome:
    before, loc = state.read(), user_location()

    def run(answer: bool) -> Outcome:
        state.write(before)
        for cell, contents in revived[answer]:
            set_cell(cell, contents)
        result = functions[answer]()
        return state.ended(result)

    branches = [
        trace_branch(tracer, value, answer, loc, lambda answer=answer: explore(tracer, lambda: run(answer)))  # type: ignore[misc]
        for answer in (True, False)
    ]
    state.write(before)
    outcome: Outcome = merge_branches(tracer, value, loc, *branches)
    return replace(outcome, values=state.changes(before, outcome.values))
