"""When two constants are the same for a graph."""

from __future__ import annotations

from typing import Any


def constant_key(constant: object) -> Any:
    """Equal for constants that a graph may mix: of one class and value, zeros of one sign, and one nan like another."""
    if isinstance(constant, float):
        return type(constant), constant.hex()
    if isinstance(constant, complex):
        return type(constant), constant.real.hex(), constant.imag.hex()
    return type(constant), constant
