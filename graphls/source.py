"""The line of the user's file that is running."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from graphls.ir.errors import GraphlsError, GraphMemoryError
from graphls.ir.graph import Location

Result = TypeVar("Result")

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_location() -> Location | None:
    """The innermost line on the stack that is not graphls's own; None where there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_own(file):
            return location_of(file, frame.f_lineno)
        frame = frame.f_back
    return None


def warn(message: str, location: Location | None = None) -> None:
    """Warn (UserWarning) at the user's line; `location` is the one that the message names, unless it is the same."""
    frame: Any = sys._getframe(1)
    depth = 2
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame, depth = frame.f_back, depth + 1
    place = location or user_location()
    warnings.warn(f"{message} ({place})" if place else message, UserWarning, stacklevel=depth)


def located(error: GraphlsError) -> GraphlsError:
    """The same error with the user's line, if it has none yet."""
    if error.location is not None:
        return error
    return type(error)(str(error), user_location())


def checked(function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)`, whose error gets the user's line; want of memory becomes a GraphMemoryError."""
    try:
        return function(*arguments)
    except GraphlsError as error:
        raise located(error) from None
    except MemoryError as error:
        raise GraphMemoryError(f"The memory is too small: {error}.", user_location()) from None


@lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a file is graphls's own, or one that only calls others."""
    return (
        file.startswith((_PACKAGE, "<frozen"))
        or os.path.basename(file) in ("contextlib.py", "functools.py", "threading.py")
        or os.path.basename(os.path.dirname(file)) == "multiprocessing"
    )


@lru_cache(maxsize=65536)
def location_of(file: str, line: int) -> Location:
    """A line of a file, which is named from the working folder where it lies in it."""
    folder = os.getcwd() + os.sep
    return Location(file[len(folder) :] if file.startswith(folder) else file, line)
