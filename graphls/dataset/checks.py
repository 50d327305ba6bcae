"""Checks of the arguments of datasets; each raises with the user's line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.registry import nearest

MOST_WORKERS = 1024
"""More threads or processes than this help no machine, and would take minutes to start."""


def wrong_type(name: str, value: Any, wanted: str) -> GraphTypeError:
    """The error for an argument of another type than those wanted, with the phrases that tests of scripts look for."""
    message = f"Argument {name} with value {value!r} is not of type [{wanted}], but got {type(value)}."
    return GraphTypeError(message)


def flag(name: str, value: Any) -> bool:
    """A bool; raises GraphTypeError otherwise."""
    if not isinstance(value, bool):
        raise wrong_type(name, value, "<class 'bool'>")
    return value


def integer(name: str, value: Any, low: int) -> int:
    """An integer of `low` or more; raises GraphTypeError or GraphValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, value, "<class 'int'>")
    if value < low:
        message = f"Input {name} is not within the required interval of [{low}, 2147483647], but {value}."
        raise GraphValueError(message)
    return value


def optional_integer(name: str, value: Any, low: int) -> int | None:
    """None or an integer of `low` or more."""
    return None if value is None else integer(name, value, low)


def workers(value: Any) -> int | None:
    """None or a number of workers from 1 to MOST_WORKERS; raises GraphTypeError or GraphValueError otherwise."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise wrong_type("num_parallel_workers", value, "<class 'int'>")
    if value is not None and not 1 <= value <= MOST_WORKERS:
        message = f"num_parallel_workers exceeds the boundary between 1 and {MOST_WORKERS}! It is {value}."
        raise GraphValueError(message)
    return value


def names(name: str, value: Any) -> tuple[str, ...]:
    """Names of columns, or one; raises GraphTypeError for other things, GraphValueError for none and for doubles."""
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else None
    if found is None or not all(isinstance(item, str) for item in found):
        raise wrong_type(name, value, "<class 'list'>, <class 'str'>")
    if not found or not all(found):
        raise GraphValueError(f"{name} should not be empty, but got {value!r}.")
    if len(set(found)) < len(found):
        raise GraphValueError(f"{name} has a name twice: {list(found)}.")
    return found


def names_among(wanted: Sequence[str], known: Sequence[str], what: str) -> tuple[int, ...]:
    """The positions of names; raises GraphValueError for one that is missing."""
    for name in wanted:
        if name not in known:
            raise GraphValueError(
                f"{what} names {name!r}, and the columns here are {list(known)}{nearest(name, known)}."
            )
    return tuple(known.index(name) for name in wanted)


def function(name: str, value: Any) -> Any:
    """Something callable; raises GraphTypeError otherwise."""
    if not callable(value):
        raise GraphTypeError(f"{name} is a function, not {value!r}.")
    return value
