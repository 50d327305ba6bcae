"""Runtime helpers of rewritten functions: plain Python for Python values, graph control flow for traced ones."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import CellType
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.registry import function as registered
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Symbol, Tensor
from graphls.frontend.trace.rewriting.branching import branch, choose
from graphls.frontend.trace.rewriting.loops import Function, trace_loop
from graphls.frontend.trace.rewriting.selection import element
from graphls.frontend.trace.rewriting.state import Attributes, State
from graphls.frontend.trace.rewriting.truth import boolean, both, chain, condition_of, decided, either, opposite
from graphls.frontend.trace.tracer import current_tracer

__all__ = ["both", "branch", "callee", "chain", "each", "either", "element", "loop", "no_jump", "opposite", "steps"]


def callee(function: object) -> Any:
    """The callee of a call: a user's function in its rewritten form."""
    if current_tracer() is None:
        return function
    return boolean if function is bool else registered("rewritten")(function)


# -- loops ----------------------------------------------------------------------------------------------------


def no_jump(flags: Callable[[], Sequence[object]]) -> Any:
    """Whether none of these jumps has been taken."""
    jumped: Any = False
    for flag in flags():
        jumped = either(jumped, lambda flag=flag: flag)  # type: ignore[misc]
    return opposite(jumped)


def loop(
    test: Function, body: Function, variables: object, stops: Callable[[], Sequence[object]], growing: Sequence[str],
    attributes: Attributes = (),
) -> None:  # fmt: skip
    """`while test(): body()`, a `while_loop` from where the graph computes the condition; `stops` has its jumps."""

    def condition() -> Any:
        return both(no_jump(stops), test)

    while True:
        answer = condition()
        value = condition_of(answer)
        if value is not None and decided(value) is not False:
            trace_loop(condition, body, State(variables, (test, body), attributes), growing)
            return
        if value is not None or not answer:
            return
        body()


def each(
    items: Iterable[object], body: Function, variables: object, stops: Callable[[], Sequence[object]],
    growing: Sequence[str], attributes: Attributes = (),
) -> None:  # fmt: skip
    """`for item in items: body(item)`; after a jump that the graph decides, the rest is guarded by conditions."""
    if isinstance(items, Steps):
        counted(items, body, State(variables, (body,), attributes), lambda: no_jump(stops), growing)
        return
    for item in items:
        go = no_jump(stops)
        value = condition_of(go)
        if value is None:
            body(item)
        else:
            choose(value, partial(body, item), _nothing, lambda: State(variables, (body,), attributes))
        go = no_jump(stops)
        if condition_of(go) is None and not go:
            return


def steps(function: Any, *bounds: Any) -> Any:
    """`range(*bounds)`, whose bounds the graph may compute."""
    if function is builtins.range and any(condition_of(bound) is not None for bound in bounds):
        return Steps.of(bounds)
    return callee(function)(*bounds)


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Steps:
    """A `range` with a bound that the graph computes."""

    start: Any
    stop: Any
    step: Any

    @classmethod
    def of(cls, bounds: Sequence[object]) -> Steps:
        """The steps for arguments of `range`; raises GraphTypeError for one that is not an integer."""
        for bound in bounds:
            kind = bound.dtype.kind if isinstance(bound, Tensor) else type(bound).__name__
            if kind not in ("int", "uint"):
                raise GraphTypeError(f"The bounds of a range are integers, not {bound!r}.")
        if len(bounds) > 2 and isinstance(bounds[2], int) and not bounds[2]:
            raise GraphValueError("The step of a range is not 0.")
        items = [bound.reshape(()) if isinstance(bound, Tensor) else bound for bound in bounds]
        start, stop = (0, items[0]) if len(items) == 1 else items[:2]
        dtype = next(b.dtype for b in items if isinstance(b, Tensor))
        return cls(Tensor(start, dtype) if isinstance(start, int) else start, stop, items[2] if len(items) > 2 else 1)

    def is_before(self, position: object) -> Any:
        """Whether a position is inside the range."""
        up, down = position < self.stop, position > self.stop
        if isinstance(self.step, int):
            return up if self.step > 0 else down
        up, down = (dispatch.apply("logical_and", *pair) for pair in ((self.step > 0, up), (self.step < 0, down)))
        return dispatch.apply("logical_or", up, down)


def counted(steps: Steps, body: Function, state: State, no_jump: Callable[[], object], growing: Sequence[str]) -> None:
    """`for item in steps: body(item)`."""
    position = CellType(_symbol(steps.start))
    state.cells["@position"] = position

    def one() -> None:
        now = position.cell_contents
        body(now)
        position.cell_contents = dispatch.cast(now + steps.step, steps.start.dtype)

    trace_loop(lambda: both(no_jump(), lambda: steps.is_before(position.cell_contents)), one, state, growing)


def _symbol(tensor: Tensor) -> Symbol:
    tracer = current_tracer()
    assert tracer is not None
    return Symbol(tracer.value(tensor))
