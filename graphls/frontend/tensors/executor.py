"""The executor of tensor operations in a thread: a trace, a cell in eager mode, or NumPy.

Tensors and parameters import this module, so its protocols do not name them.
"""

from __future__ import annotations

from _thread import get_ident
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar, Literal, Protocol

from graphls.ir.graph import Value


class Executor(Protocol):
    """The interface shared by traces and by cells that run step by step."""

    def apply(self, name: str, operands: tuple[object, ...], attrs: dict[str, object]) -> Any:
        """Apply a primitive to tensors and numbers; returns a tensor or a tuple of them."""

    def cast_operands(self, name: str, operands: tuple[object, ...]) -> tuple[Any, ...]:
        """The operands in the dtype that the network computes this operation in."""

    def without_casts(self) -> AbstractContextManager[Any]:
        """A block in which no operand is cast."""


class Trace(Executor, Protocol):
    """The interface of a trace for tensors; implemented in `graphls.frontend.trace`."""

    is_trace: ClassVar[Literal[True]]

    def value(self, operand: object) -> Value:
        """The value of an operand in the graph."""

    def current(self, parameter: Any) -> Value:
        """The value of a parameter at this point of the step."""

    def decide(self, condition: Value) -> bool:
        """The answer to `if condition` on the path that is being traced."""


class Running(Executor, Protocol):
    """The interface of a cell that runs step by step for tensors; implemented in `graphls.nn`."""

    is_trace: ClassVar[Literal[False]]

    @property
    def casts_any(self) -> bool:
        """Whether operands are cast, by the cell's `to_float` or by its casting policy."""

    def casts(self, parameter: Any) -> bool:
        """Whether the cell sees the value of a parameter in another dtype."""

    def read(self, parameter: Any) -> Any:
        """The value of a parameter as the cell sees it."""


EXECUTOR: ContextVar[tuple[int, Trace | Running] | None] = ContextVar("graphls_executor", default=None)
"""The executor of operations, and its thread: other threads may have a copy of the context, as those of
`asyncio.to_thread` have, and must not use the executor.

Read it before a `try` and set it inside, so that `finally` restores it also after a Ctrl-C.
"""


def executor() -> Trace | Running | None:
    """The executor of this thread: a trace, or else a cell that runs step by step."""
    here = EXECUTOR.get()
    return here[1] if here is not None and here[0] == get_ident() else None


def execute_by(executor: Trace | Running) -> None:
    """Execute the operations of this thread by a trace, or by a cell in eager mode, from here on."""
    EXECUTOR.set((get_ident(), executor))


def current_tracer() -> Trace | None:
    """The running tracer of this thread, if any."""
    here = executor()
    return here if here is not None and here.is_trace is True else None


def running() -> Running | None:
    """The cell that runs step by step in this thread, if any and outside of a trace."""
    here = executor()
    return here if here is not None and here.is_trace is False else None
