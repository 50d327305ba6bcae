"""The line of the user's file that is running."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any, TypeVar

from graphls.ir.errors import GraphlsError, GraphMemoryError, GraphRecursionError
from graphls.ir.graph import Location

Result = TypeVar("Result")

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_location() -> Location | None:
    """The innermost line on the stack that is not graphls's own; None where there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_own(file):
            return _location(file, frame.f_lineno)
        frame = frame.f_back
    return None


def location_of(code: CodeType) -> Location:
    """The line on which a function begins."""
    return _location(code.co_filename, code.co_firstlineno)


def line_of(error: BaseException) -> Location | None:
    """The user's innermost line that an error went through; None where there is none."""
    traceback, found = error.__traceback__, None
    while traceback is not None:
        found = found if is_own(traceback.tb_frame.f_code.co_filename) else traceback
        traceback = traceback.tb_next
    return None if found is None else _location(found.tb_frame.f_code.co_filename, found.tb_lineno)


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
    """`function(*arguments)`, whose error gets the user's line; want of memory becomes a GraphMemoryError.

    A depth beyond Python's limit becomes a GraphRecursionError.
    """
    try:
        return function(*arguments)
    except GraphlsError as error:
        raise located(error) from None
    except MemoryError as error:
        raise GraphMemoryError(f"The memory is too small: {error}.", user_location()) from None
    except RecursionError as error:
        raise too_deep(error) from None


def too_deep(error: RecursionError) -> GraphRecursionError:
    """The error for code that came to Python's limit of nested calls."""
    return GraphRecursionError(
        f"This goes deeper than the {sys.getrecursionlimit()} nested calls that Python allows: it calls itself without "
        "end, or raise the limit with sys.setrecursionlimit for cells that are nested so deep.",
        line_of(error) or user_location(),
    )


@lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a file is graphls's own, or one that only calls others."""
    return (
        file.startswith((_PACKAGE, "<frozen"))
        or os.path.basename(file) in ("contextlib.py", "functools.py", "threading.py")
        or os.path.basename(os.path.dirname(file)) in ("importlib", "multiprocessing")
    )


@lru_cache(maxsize=65536)
def _location(file: str, line: int) -> Location:
    try:
        folder = os.getcwd() + os.sep
    except FileNotFoundError:  # somebody has deleted it
        return Location(file, line)
    return Location(file.removeprefix(folder), line)
