"""Functions that are computed in one go where nothing is traced."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from graphls.frontend.registry import function as registered
from graphls.frontend.tensors.executor import executor

Function = TypeVar("Function", bound=Callable[..., Any])


def together(function: Function) -> Function:
    """The function, which outside of a trace runs as one session, where that pays, rather than operation by operation.

    For functions that are defined once and make of tensors and plain constants nothing but tensors, by what they are
    given alone. A cell that casts computes them operation by operation, since each of these decides its own dtype.
    """

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        here = executor()
        if here is None or not (here.is_trace or here.casts_any):
            return registered("compute_together")(function, args, options)
        return function(*args, **options)

    return called  # type: ignore[return-value]
