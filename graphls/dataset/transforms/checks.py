"""Checks of the arguments of data operations: TypeError for the kind, ValueError for the range, as in MindSpore."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError

Choice = TypeVar("Choice", bound=enum.Enum)
Item = TypeVar("Item")

LARGEST_INT = 2**31 - 1
LARGEST_SIZE = 2**24


def type_error(name: str, value: Any, wanted: str) -> GraphTypeError:
    """The error for an argument of the wrong kind."""
    return GraphTypeError(f"Argument {name} with value {value!r} is not {wanted}, but {type(value).__name__}.")


def value_error(text: str) -> GraphValueError:
    """A GraphValueError at the user's line."""
    return GraphValueError(text)


def instance(name: str, value: Any, kind: type | tuple[type, ...], wanted: str) -> Any:
    """A value of that kind; raises GraphTypeError otherwise, also for a bool where a number is wanted."""
    if not isinstance(value, kind):
        raise type_error(name, value, wanted)
    return value


def boolean(name: str, value: Any) -> bool:
    """A bool; raises GraphTypeError otherwise."""
    return bool(instance(name, value, bool, "a bool"))


def string(name: str, value: Any) -> str:
    """A string; raises GraphTypeError otherwise."""
    return str(instance(name, value, str, "a string"))


def choice(name: str, value: Any, kind: type[Choice]) -> Choice:
    """A member of an enumeration; raises GraphTypeError otherwise."""
    if not isinstance(value, kind):
        raise type_error(name, value, f"a member of {kind.__name__}")
    return value


def integer(name: str, value: Any, low: float = -(2**31), high: float = LARGEST_INT) -> int:
    """An integer in [low, high]; raises GraphTypeError, also for a bool, or GraphValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise type_error(name, value, "an integer")
    return int(_within(name, value, low, high))


def number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A number in [low, high]; raises GraphTypeError, also for a bool, or GraphValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise type_error(name, value, "a number")
    return float(_within(name, value, low, high))


def positive(name: str, value: Any, high: float = math.inf) -> float:
    """A number in (0, high]; raises GraphTypeError or GraphValueError otherwise."""
    if number(name, value, high=high) <= 0:
        raise value_error(f"Input {name} must be greater than 0, but got {value}.")
    return float(value)


def probability(name: str, value: Any) -> float:
    """A number in [0, 1]; raises GraphTypeError or GraphValueError otherwise."""
    return number(name, value, 0, 1)


def _within(name: str, value: Any, low: float, high: float) -> Any:
    if not low <= value <= high:
        raise value_error(f"Input {name} is not within the required interval of [{low}, {high}], but {value}.")
    return value


def sequence(name: str, value: Any, lengths: Sequence[int], check: Callable[[str, Any], Item]) -> tuple[Item, ...]:
    """A list or tuple of one of these lengths, each item checked; raises GraphTypeError otherwise."""
    wanted = f"a list or tuple of length {' or '.join(map(str, lengths))}"
    if not isinstance(value, (list, tuple)) or len(value) not in lengths:
        raise type_error(name, value, wanted)
    return tuple(check(f"{name}[{position}]", item) for position, item in enumerate(value))


def interval(name: str, value: Any, check: Callable[[str, Any], Item]) -> tuple[Item, Item]:
    """A (min, max) pair, both checked and in that order; raises GraphTypeError or GraphValueError otherwise."""
    low, high = sequence(name, value, [2], check)
    if low > high:  # type: ignore[operator]
        raise value_error(f"{name} should be in (min, max) format, but got ({low}, {high}).")
    return low, high


def size(name: str, value: Any) -> tuple[int, int]:
    """(height, width) of such a pair, or of one integer for both, each of 1 or more."""
    if isinstance(value, (list, tuple)):
        height, width = sequence(name, value, [2], _size)
        return height, width
    return _size(name, value), _size(name, value)


def _size(name: str, value: Any) -> int:
    return integer(name, value, 1, LARGEST_SIZE)


def byte(name: str, value: Any) -> int:
    """An integer of 0 to 255; raises GraphTypeError or GraphValueError otherwise."""
    return integer(name, value, 0, 255)


def dtype(name: str, value: Any) -> np.dtype[Any]:
    """The NumPy dtype for a dtype of graphls or NumPy, or its name; raises GraphTypeError otherwise."""
    from graphls.ir.types import DType

    if isinstance(value, DType):
        return value.numpy
    try:
        if value is None or isinstance(value, (int, float)):
            raise TypeError
        return np.dtype("str" if value == "string" else value)
    except TypeError:
        raise type_error(name, value, "a dtype") from None
