"""Warnings at the user's line, and what Python's limits and packages that are missing become."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from graphls.ir.errors import GraphlsError, GraphMemoryError, GraphRecursionError, GraphRuntimeError
from graphls.ir.location import Location, is_own, line_of, user_location

Result = TypeVar("Result")


def warn(message: str, location: Location | None = None) -> None:
    """Warn (UserWarning) at the user's line; `location` is the one that the message names, unless it is the same."""
    frame: Any = sys._getframe(1)
    depth = 2
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame, depth = frame.f_back, depth + 1
    place = location or user_location()
    warnings.warn(f"{message} ({place})" if place else message, UserWarning, stacklevel=depth)


def checked(function: Callable[..., Result], *arguments: object) -> Result:
    """`function(*arguments)`, in which want of memory becomes a GraphMemoryError.

    A depth beyond Python's limit becomes a GraphRecursionError.
    """
    try:
        return function(*arguments)
    except GraphlsError:
        raise
    except MemoryError as error:
        raise GraphMemoryError(f"The memory is too small: {error}.") from None
    except RecursionError as error:
        raise too_deep(error) from None


def load_package(name: str, subject: str, install: str) -> Any:
    """A module of a package that graphls can do without.

    Raises GraphRuntimeError where it is missing, of which `subject` is the beginning and `install` the end, and where
    it is there and cannot be loaded; KeyboardInterrupt for a Ctrl-C, which extension modules make an ImportError.
    """
    try:
        return import_module(name)
    except Exception as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from None
        is_missing = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")
        fault = "is not installed" if is_missing else "is installed and cannot be loaded"
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise GraphRuntimeError(f"{subject} {fault} ({reason}); run {install}.") from None


def was_interrupted(error: BaseException | None) -> bool:
    """Whether an error goes back to a Ctrl-C."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def wants_memory(error: BaseException) -> bool:
    """Whether what a runtime raised says that it found no memory."""
    return isinstance(error, MemoryError) or re.search("[Ff]ailed to allocate|bad_alloc", str(error)) is not None


def too_large() -> GraphMemoryError:
    """The error for a step whose engine found no memory."""
    return GraphMemoryError("The memory is too small for this step; give smaller sizes, or a smaller batch.")


def too_deep(error: RecursionError) -> GraphRecursionError:
    """The error for code that came to Python's limit of nested calls."""
    return GraphRecursionError(
        f"This goes deeper than the {sys.getrecursionlimit()} nested calls that Python allows: it calls itself without "
        "end, or raise the limit with sys.setrecursionlimit for cells that are nested so deep.",
        line_of(error) or user_location(),
    )
