"""Warnings at the user's line, of deprecated names too; errors for full memory, deep recursion, missing packages."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import isclass, isfunction
from typing import Any, TypeVar

from graphls.base.errors import (
    GraphIndexError,
    GraphlsError,
    GraphMemoryError,
    GraphRecursionError,
    GraphRuntimeError,
    GraphTypeError,
    GraphValueError,
)
from graphls.base.location import Location, is_own, line_of, user_location
from graphls.base.tracebacks import are_full, chain

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])


def warn(message: str, location: Location | None = None, kind: type[Warning] = UserWarning) -> None:
    """Warn at the user's line; `location` is the one that the message names, unless it is the same."""
    frame: Any = sys._getframe(1)
    depth = 2
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame, depth = frame.f_back, depth + 1
    line = location or user_location()
    warnings.warn(f"{message} ({line})" if line else message, kind, stacklevel=depth)


def deprecated(since: str, removal: str, instead: str) -> Callable[[Function], Function]:
    """A decorator for a public function or class: each call warns (DeprecationWarning) at the user's line.

    `since` is the minor version that warns first, such as "1.2", `removal` the major version that drops the name, such
    as "2.0", and `instead` what to use; the result has the versions as `deprecation`. docs/releases.md has the rules.
    """

    def decorate(item: Function) -> Function:
        function: Any = item.__init__ if isclass(item) else item
        text = f"{item.__qualname__} is deprecated since graphls {since} and leaves with {removal}; use {instead}."

        @wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            warn(text, kind=DeprecationWarning)
            return function(*args, **options)

        result: Any = called
        if isclass(item):
            result = item
            result.__init__ = called
        result.deprecation = since, removal
        return result  # type: ignore[no-any-return]

    return decorate


def checked(function: Callable[..., Result], *arguments: object) -> Result:
    """Call `function(*arguments)`; exhausted memory becomes a GraphMemoryError.

    A depth beyond Python's limit becomes a GraphRecursionError.
    """
    try:
        return function(*arguments)
    except GraphlsError:
        raise
    except MemoryError as error:
        raise GraphMemoryError(f"The memory is too small: {error}.") from None
    except RecursionError as error:
        raise recursion_error(error) from None


def load_package(name: str, subject: str, install: str) -> Any:
    """Import a module of an optional package.

    Raises GraphRuntimeError, whose message begins with `subject` and ends with `install`, where it is missing or cannot
    be loaded; KeyboardInterrupt for a Ctrl-C, which extension modules turn into an ImportError.
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


def was_interrupted(error: BaseException) -> bool:
    """Whether an error was caused by a Ctrl-C."""
    return any(isinstance(each, KeyboardInterrupt) for each in chain(error))


RAW: dict[Any, type[GraphlsError]] = {
    MemoryError: GraphMemoryError,
    IndexError: GraphIndexError,
    (TypeError, AttributeError): GraphTypeError,
    (ValueError, LookupError, ArithmeticError): GraphValueError,
}
"""The GraphlsError for each error of Python or NumPy that a wrong argument raises within graphls."""


def guarded(function: Function, behind: Callable[[Any, Any], None] | None = None) -> Function:
    """The function, in which errors of Python and NumPy about its arguments are those of graphls, with the user's line.

    Errors of user code that it calls stay as they are. Where tracebacks are full, they show the original error.
    `behind` is called after it, with the result of this and with the first argument: by another wrapper, cells could be
    nested less deep.
    """

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            result = function(*args, **options)
            if behind is not None:
                behind(called, args[0])
            return result
        except Exception as error:
            if isinstance(error, (GraphlsError, RecursionError)) or not _is_within(error):
                raise
            kind = next((kind for kinds, kind in RAW.items() if isinstance(error, kinds)), None)
            if kind is None:
                raise
            name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
            cause = error if are_full() else None
            raise kind(f"{name} does not take these arguments: {error}.") from cause

    return called  # type: ignore[return-value]


def guard_functions(namespace: dict[str, Any]) -> None:
    """Guard the public functions that a module defines, whose `globals()` are given (see `guarded`)."""
    for name, item in list(namespace.items()):
        if isfunction(item) and name[0] != "_" and item.__module__ == namespace["__name__"]:
            namespace[name] = guarded(item)


def _is_within(error: BaseException) -> bool:
    """Whether every frame of an error is of graphls, the standard library or NumPy, and none of the user."""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not (is_own(file) or file.startswith("<__array") or _NUMERIC.search(file)):
            return False
        trace = trace.tb_next
    return True


_NUMERIC = re.compile(r"site-packages.(numpy|ml_dtypes|scipy)\b")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of a runtime reports that it is out of memory."""
    return isinstance(error, MemoryError) or re.search("[Ff]ailed to allocate|bad_alloc", str(error)) is not None


def out_of_memory() -> GraphMemoryError:
    """The error for a step whose engine is out of memory."""
    return GraphMemoryError("The memory is too small for this step; give smaller sizes, or a smaller batch.")


def recursion_error(error: RecursionError) -> GraphRecursionError:
    """The error for code that has reached Python's limit of nested calls."""
    return GraphRecursionError(
        f"This goes deeper than the {sys.getrecursionlimit()} nested calls that Python allows: it calls itself without "
        "end, or raise the limit with sys.setrecursionlimit for cells that are nested so deep.",
        line_of(error) or user_location(),
    )
