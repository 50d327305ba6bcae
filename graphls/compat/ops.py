"""Names of `mindspore.ops` that mean little in graphls, which traces Python instead of compiling it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["constexpr"]


def constexpr(
    fn: Callable[..., Any] | None = None,
    get_instance: bool = True,
    name: str | None = None,
    reuse_result: bool = True,
    check: bool = True,
) -> Any:
    """The function itself, `@constexpr` or `@constexpr(...)`: what it computes of constants is a constant."""
    return (lambda function: function) if fn is None else fn
