"""Functions of several operations that run as one session outside of a trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from graphls.frontend.registry import function as registered
from graphls.frontend.tensors.executor import executor

Function = TypeVar("Function", bound=Callable[..., Any])


def together(function: Function) -> Function:
    """A function that outside of a trace runs as one session, where that pays, instead of operation by operation.

    For module-level functions from tensors and plain constants to tensors, which depend on nothing else. A cell that
    casts computes them operation by operation, since each of these decides its own dtype.
    """

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        here = executor()
        if here is None or not (here.is_trace or here.casts_any):
            return registered("compute_together")(function, args, options)
        return function(*args, **options)

    return called  # type: ignore[return-value]
