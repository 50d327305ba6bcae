"""The registry of the function that rewrites, for callers below `functions.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_makers: list[Callable[[Any], Any]] = []


def register(maker: Callable[..., object]) -> None:
    """Have forms made by this."""
    _makers.append(maker)


def rewritten(function: object) -> Any:
    """The function as a trace runs it; see `functions.rewritten`."""
    return _makers[-1](function)
