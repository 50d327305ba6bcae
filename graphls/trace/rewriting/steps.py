"""`for i in range(...)` where the graph computes a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CellType
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.tensors import dispatch
from graphls.tensors.tensor import Symbol, Tensor
from graphls.trace.rewriting.loops import Function, looped
from graphls.trace.rewriting.state import State
from graphls.trace.rewriting.truth import both
from graphls.trace.tracer import current_tracer


@dataclass(frozen=True)
class Steps:
    """A `range` of which the graph computes a bound."""

    start: Any
    stop: Any
    step: Any

    @classmethod
    def of(cls, bounds: Sequence[object]) -> Steps:
        """From the arguments of `range`; raises GraphTypeError for what is no integer."""
        for bound in bounds:
            kind = bound.dtype.kind if isinstance(bound, Tensor) else type(bound).__name__
            if kind not in ("int", "uint"):
                raise GraphTypeError(f"The bounds of a range are integers, not {bound!r}.")
        if len(bounds) > 2 and isinstance(bounds[2], int) and not bounds[2]:
            raise GraphValueError("The step of a range is not 0.")
        given = [bound.reshape(()) if isinstance(bound, Tensor) else bound for bound in bounds]
        start, stop = (0, given[0]) if len(given) == 1 else given[:2]
        dtype = next(b.dtype for b in given if isinstance(b, Tensor))
        return cls(Tensor(start, dtype) if isinstance(start, int) else start, stop, given[2] if len(given) > 2 else 1)

    def is_before(self, position: object) -> Any:
        """Whether a position is one of the range."""
        up, down = position < self.stop, position > self.stop
        if isinstance(self.step, int):
            return up if self.step > 0 else down
        up, down = (dispatch.apply("logical_and", *pair) for pair in ((self.step > 0, up), (self.step < 0, down)))
        return dispatch.apply("logical_or", up, down)


def counted(steps: Steps, body: Function, state: State, going_on: Callable[[], object], growing: Sequence[str]) -> None:
    """`for item in steps: body(item)`."""
    position = CellType(_symbol(steps.start))
    state.cells["@position"] = position

    def one() -> None:
        now = position.cell_contents
        body(now)
        position.cell_contents = dispatch.cast(now + steps.step, steps.start.dtype)

    looped(lambda: both(going_on(), lambda: steps.is_before(position.cell_contents)), one, state, growing)


def _symbol(tensor: Tensor) -> Symbol:
    tracer = current_tracer()
    assert tracer is not None
    return Symbol(tracer.value(tensor))
