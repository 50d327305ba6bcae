"""Checks of the arguments of datasets and of operations on rows: TypeError for the kind, ValueError for the range.

The sentences contain the phrases of MindSpore that tests of scripts match.
"""

from __future__ import annotations

import enum
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.distributed.world import devices_driven, devices_of_stage
from graphls.ir.registry import nearest
from graphls.ir.types import DType

Choice = TypeVar("Choice", bound=enum.Enum)
Item = TypeVar("Item")
Number = TypeVar("Number", bound="float | np.number[Any]")
Function = Callable[..., Any]
Check = Callable[[str, object], Item]
DTypeLike = DType | np.dtype[Any] | type | str

LARGEST_INT = 2**31 - 1
LARGEST_SIZE = 2**24
MOST_WORKERS = 1024
"""More threads or processes than this do not help, and would take minutes to start."""


def type_error(name: str, value: object, expected: str | Sequence[type]) -> GraphTypeError:
    """The error for an argument that is not `expected`, a description or a list of types."""
    expected = expected if isinstance(expected, str) else f"of type {list(expected)}"
    return GraphTypeError(f"Argument {name} with value {value!r} is not {expected}, but got {type(value)}.")


def instance(name: str, value: object, kind: type[Item], expected: str | Sequence[type]) -> Item:
    """A value of that kind; raises GraphTypeError otherwise."""
    if not isinstance(value, kind):
        raise type_error(name, value, expected)
    return value


def boolean(name: str, value: object) -> bool:
    """A bool; raises GraphTypeError otherwise."""
    return bool(instance(name, value, bool, [bool]))


def string(name: str, value: object) -> str:
    """A string; raises GraphTypeError otherwise."""
    return str(instance(name, value, str, [str]))


def path(name: str, value: object) -> str:
    """A path as a string; raises GraphTypeError otherwise."""
    if not isinstance(value, (str, os.PathLike)):
        raise type_error(name, value, "a path")
    return str(os.fspath(value))


def function(name: str, value: object) -> Function:
    """Something callable; raises GraphTypeError otherwise."""
    if not callable(value):
        raise type_error(name, value, "a function")
    return value


def functions(name: str, value: object) -> list[Function]:
    """A list of callables, one or more; raises GraphTypeError or GraphValueError otherwise."""
    if not isinstance(value, (list, tuple)):
        raise type_error(name, value, "a list of operations")
    for position, operation in enumerate(value):
        if not callable(operation):
            raise type_error(f"{name}[{position}]", operation, "an operation or a function")
    if not value:
        raise GraphValueError(f"The list {name} must not be empty.")
    return list(value)


def choice(name: str, value: object, kind: type[Choice]) -> Choice:
    """A member of an enumeration; raises GraphTypeError otherwise."""
    if not isinstance(value, kind):
        raise type_error(name, value, f"a member of {kind.__name__}")
    return value


def integer(name: str, value: object, low: float = -(2**31), high: float = LARGEST_INT) -> int:
    """An integer in [low, high]; raises GraphTypeError, also for a bool, or GraphValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise type_error(name, value, [int])
    return int(_check_range(name, value, low, high))


def optional_integer(name: str, value: object, low: float, high: float = LARGEST_INT) -> int | None:
    """None or an integer in [low, high]; raises GraphTypeError, also for a bool, or GraphValueError otherwise."""
    return None if value is None else integer(name, value, low, high)


def number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A number in [low, high]; raises GraphTypeError, also for a bool, or GraphValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise type_error(name, value, [int, float])
    return float(_check_range(name, value, low, high))


def _check_range(name: str, value: Number, low: float, high: float) -> Number:
    if not low <= value <= high:
        raise GraphValueError(f"Input {name} is not within the required interval of [{low}, {high}], but {value}.")
    return value


def positive(name: str, value: object, high: float = math.inf) -> float:
    """A number in (0, high]; raises GraphTypeError or GraphValueError otherwise."""
    checked = number(name, value, high=high)
    if checked <= 0:
        raise GraphValueError(f"Input {name} must be greater than 0, but got {value}.")
    return checked


def probability(name: str, value: object) -> float:
    """A number in [0, 1]; raises GraphTypeError or GraphValueError otherwise."""
    return number(name, value, 0, 1)


def byte(name: str, value: object) -> int:
    """An integer of 0 to 255; raises GraphTypeError or GraphValueError otherwise."""
    return integer(name, value, 0, 255)


def natural(name: str, value: object) -> int:
    """An integer of 0 or more; raises GraphTypeError or GraphValueError otherwise."""
    return integer(name, value, 0)


def magnitude(name: str, value: object) -> float:
    """A number of 0 to LARGEST_SIZE; raises GraphTypeError or GraphValueError otherwise."""
    return number(name, value, 0, LARGEST_SIZE)


def workers(value: object) -> int | None:
    """None or a number of workers from 1 to MOST_WORKERS; raises GraphTypeError or GraphValueError otherwise."""
    count = optional_integer("num_parallel_workers", value, -math.inf, math.inf)
    if count is not None and not 1 <= count <= MOST_WORKERS:
        raise GraphValueError(f"num_parallel_workers exceeds the boundary between 1 and {MOST_WORKERS}! It is {count}.")
    return count


def shard(num_shards: object, shard_id: object) -> tuple[int, int]:
    """The number of shards, and the index of one; raises GraphTypeError or GraphValueError for others."""
    count, index = integer("num_shards", num_shards, 1), integer("shard_id", shard_id, 0)
    if index >= count:
        raise GraphValueError(f"shard_id is below num_shards ({count}), not {index}.")
    return count, index


def joined_shards(count: int, index: int) -> int:
    """The number of shards of which this process reads the rows itself: all of them where it drives their devices.

    Stages of a pipeline read the same rows, so that there may be as many shards as a stage has devices.
    """
    return count if index == 0 and count in (devices_driven(), devices_of_stage()) else 1


def sequence(name: str, value: object, lengths: Sequence[int], check: Check[Item]) -> tuple[Item, ...]:
    """A list or tuple of one of these lengths, each item checked; raises GraphTypeError otherwise."""
    if not isinstance(value, (list, tuple)) or len(value) not in lengths:
        raise type_error(name, value, f"a list or tuple of length {' or '.join(map(str, lengths))}")
    return tuple(check(f"{name}[{position}]", item) for position, item in enumerate(value))


def interval(name: str, value: object, check: Check[Item]) -> tuple[Item, Item]:
    """A (min, max) pair, both checked and in that order; raises GraphTypeError or GraphValueError otherwise."""
    low, high = sequence(name, value, [2], check)
    return in_order(name, low, high)


def in_order(name: str, low: Item, high: Item) -> tuple[Item, Item]:
    """Two bounds, the first of which is not above the second; raises GraphValueError otherwise."""
    if low > high:  # type: ignore[operator]
        raise GraphValueError(f"{name} should be in (min, max) format, but got ({low}, {high}).")
    return low, high


def size(name: str, value: object) -> tuple[int, int]:
    """(height, width) of such a pair, or of one integer for both, each of 1 or more."""
    if isinstance(value, (list, tuple)):
        height, width = sequence(name, value, [2], _size)
        return height, width
    return _size(name, value), _size(name, value)


def _size(name: str, value: object) -> int:
    return integer(name, value, 1, LARGEST_SIZE)


def dtype(name: str, value: object) -> np.dtype[Any]:
    """The NumPy dtype for a dtype of graphls or NumPy, or its name; raises GraphTypeError otherwise."""
    if isinstance(value, DType):
        return value.numpy
    try:
        if value is None or isinstance(value, (int, float)):
            raise TypeError
        requested: Any = "str" if isinstance(value, str) and value == "string" else value
        result: np.dtype[Any] = np.dtype(requested)
    except TypeError:
        raise type_error(name, value, "a dtype") from None
    return result


def number_dtype(name: str, value: object) -> np.dtype[Any]:
    """The NumPy dtype of integers or floats; raises GraphTypeError for others."""
    result = dtype(name, value)
    if result.kind not in "iuf":
        raise type_error(name, value, "a dtype of numbers")
    return result


def names(name: str, value: object) -> tuple[str, ...]:
    """Names of columns, or one; raises GraphTypeError for other values, GraphValueError for none and for duplicates."""
    result = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else None
    if result is None or not all(isinstance(item, str) for item in result):
        raise type_error(name, value, [list, str])
    if not result or not all(result):
        raise GraphValueError(f"{name} should not be empty, but got {value!r}.")
    if len(set(result)) < len(result):
        raise GraphValueError(f"{name} has a name twice: {list(result)}.")
    return result


def names_among(requested: Sequence[str], known: Sequence[str], what: str) -> tuple[int, ...]:
    """The positions of names; raises GraphValueError for one that is missing."""
    for name in requested:
        if name not in known:
            near = nearest(name, known)
            raise GraphValueError(f"{what} names {name!r}, and the columns here are {list(known)}{near}.")
    return tuple(known.index(name) for name in requested)
