"""Argument checks for cells and functions; messages name the callee and the argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError

Check = Callable[[str, str, Any], Any]
"""From the name of a cell or function, the name of an argument and its value, returns the checked value, or raises."""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _described(value: object) -> str:
    return f"{str(value)!r} with type {type(value).__name__!r}"


def _no_number(cell: str, name: str, value: object) -> GraphTypeError:
    kind = type(value).__name__
    return GraphTypeError(
        f"For {cell!r}, the type of {name!r} should be 'float', but got type {kind!r}: {value!r} is not a number.",
    )


def positive_int(cell: str, name: str, value: object) -> int:
    """An integer of 1 or more; raises GraphTypeError or GraphValueError otherwise."""
    return _int_from(cell, name, value, 1, "> 0")


def not_negative_int(cell: str, name: str, value: object) -> int:
    """An integer of 0 or more; raises GraphTypeError or GraphValueError otherwise."""
    return _int_from(cell, name, value, 0, ">= 0")


def _int_from(cell: str, name: str, value: object, least: int, bound: str) -> int:
    text = f"For {cell!r}, the {name!r} must be int and must {bound}, but got {_described(value)}."
    if isinstance(value, bool) or not isinstance(value, int):
        raise GraphTypeError(text)
    if value < least:
        raise GraphValueError(text)
    return value


def not_negative(cell: str, name: str, value: Any) -> float:
    """A number of 0 or more as a float; raises GraphTypeError or GraphValueError otherwise."""
    text = f"For {cell!r}, the {name!r} must be float and must >= 0, but got {_described(value)}."
    if not _is_number(value):
        raise GraphTypeError(text)
    if not value >= 0 or math.isinf(value):
        raise GraphValueError(text)
    return float(value)


def positive(cell: str, name: str, value: Any) -> float:
    """A number above 0 as a float; raises GraphTypeError or GraphValueError otherwise."""
    if not _is_number(value):
        raise _no_number(cell, name, value)
    if not 0 < value < math.inf:
        raise GraphValueError(f"For {cell!r}, the {name!r} must be greater than 0, but got {value!r}.")
    return float(value)


def positive_float(cell: str, name: str, value: object) -> float:
    """A float above 0; raises GraphTypeError, also for an integer, or GraphValueError otherwise."""
    return _float_with(cell, name, value, "> 0", isinstance(value, float) and 0 < value < math.inf)


def not_negative_float(cell: str, name: str, value: object) -> float:
    """A float of 0 or more; raises GraphTypeError, also for an integer, or GraphValueError otherwise."""
    return _float_with(cell, name, value, ">= 0", isinstance(value, float) and 0 <= value < math.inf)


def _float_with(cell: str, name: str, value: Any, bound: str, fits: bool) -> float:
    if not fits:
        error = GraphValueError if isinstance(value, float) else GraphTypeError
        text = f"For {cell!r}, the {name!r} must be float and must {bound}, but got {_described(value)}."
        raise error(text)
    return float(value)


def fraction(cell: str, name: str, value: Any) -> float:
    """A number between 0 and 1, without both; raises GraphTypeError or GraphValueError otherwise."""
    if not _is_number(value):
        raise _no_number(cell, name, value)
    if not 0 < value < 1:
        raise GraphValueError(f"For {cell!r}, the {name!r} must be in (0, 1), but got {value!r}.")
    return float(value)


def boolean(cell: str, name: str, value: object) -> bool:
    """A bool; raises GraphTypeError otherwise."""
    if not isinstance(value, bool):
        raise GraphTypeError(f"For {cell!r}, the {name!r} must be bool, but got {value!r}.")
    return value


def number(cell: str, name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """A number between two others as a float; raises GraphTypeError or GraphValueError otherwise."""
    if not _is_number(value):
        raise _no_number(cell, name, value)
    if not least <= value <= most:
        bounds = f"at least {least:g}" + (f" and at most {most:g}" if most < math.inf else "")
        raise GraphValueError(f"For {cell!r}, the {name!r} must be {bounds}, but got {value!r}.")
    return float(value)


def integer(cell: str, name: str, value: object) -> int:
    """An integer, also one of NumPy; raises GraphTypeError otherwise."""
    if isinstance(value, (bool, float)) or not hasattr(value, "__index__"):
        raise GraphTypeError(f"For {cell!r}, the {name!r} must be int, but got {value!r}.")
    return int(value.__index__())


def float_number(cell: str, name: str, value: object) -> float:
    """A float; raises GraphTypeError otherwise, also for an integer, where MindSpore takes no other."""
    if not isinstance(value, float):
        raise GraphTypeError(
            f"For {cell!r}, the type of {name!r} should be 'float', but got type {type(value).__name__!r}.",
        )
    return value


def check_format(name: str, data_format: object, known: str) -> None:
    """Raise GraphValueError unless the channels come before the axes of the image."""
    if data_format != known:
        raise GraphValueError(
            f"For {name!r}, the 'data_format' must be {known!r}, but got {data_format!r}; transpose the input.",
        )


def between(least: float, most: float = math.inf) -> Check:
    """The check for a number from one to another, see `number`."""
    return partial(number, least=least, most=most)


probability = between(0, 1)
"""The check for a number from 0 to 1."""


def at_least(least: int) -> Check:
    """The check for an integer, of Python or NumPy, that is not below a number."""

    def check(cell: str, name: str, value: Any) -> int:
        index = integer(cell, name, value)
        if index < least:
            raise GraphValueError(f"For {cell!r}, the {name!r} must be at least {least}, but got {value!r}.")
        return index

    return check


def optional(check: Check) -> Check:
    """The check for an argument that may also be None."""
    return lambda cell, name, value: None if value is None else check(cell, name, value)


def python_number(cell: str, name: str, value: Any) -> Any:
    """A Python number as it is: a bool, an int or a float; raises GraphTypeError otherwise."""
    if not isinstance(value, (bool, int, float)):
        raise GraphTypeError(f"For {cell!r}, the {name!r} must be a Python number, but got {value!r}.")
    return value
