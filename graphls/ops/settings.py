"""Checks of the settings of functions, with messages that name the function and the setting."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError


def number(name: str, argument: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """A number between two others; raises GraphTypeError or GraphValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise GraphTypeError(f"For {name!r}, the {argument!r} must be a number, but got {value!r}.")
    if not least <= value <= most:
        bounds = f"at least {least:g}" + (f" and at most {most:g}" if most < math.inf else "")
        raise GraphValueError(f"For {name!r}, the {argument!r} must be {bounds}, but got {value!r}.")
    return float(value)


def positive(name: str, argument: str, value: Any) -> float:
    """A number above 0; raises GraphTypeError or GraphValueError for anything else."""
    if number(name, argument, value) <= 0 or not math.isfinite(value):
        raise GraphValueError(f"For {name!r}, the {argument!r} must be greater than 0, but got {value!r}.")
    return float(value)


def integer(name: str, argument: str, value: Any) -> int:
    """An integer; raises GraphTypeError for anything else."""
    if isinstance(value, (bool, float)) or not hasattr(value, "__index__"):
        raise GraphTypeError(f"For {name!r}, the {argument!r} must be int, but got {value!r}.")
    return int(value.__index__())
