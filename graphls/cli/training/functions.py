"""Functions of the user, named on the command line as `module:function`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from graphls.base.errors import GraphImportError, GraphTypeError, GraphValueError
from graphls.ir.registry import nearest

_NAME = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


def is_function(text: str) -> bool:
    """Whether a text names a function, as `module:function`."""
    return _NAME.fullmatch(text) is not None


def function_of(text: str, option: str) -> Callable[..., Any]:
    """The function that a text names, of a module of Python or of the working directory.

    Raises GraphImportError for a module that is not there, GraphValueError and GraphTypeError for a name that is none.
    """
    module, function = text.split(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        message = f"There is no module {module!r} for {option} {text}"
        raise GraphImportError(f"{message}; run the command in its folder, or set PYTHONPATH.") from None
    value = getattr(found, function, None)
    if value is None:
        raise GraphValueError(f"The module {module} has no function {function!r}{nearest(function, vars(found))}.")
    if not callable(value):
        raise GraphTypeError(f"{option} takes a function, and {text} is of type {type(value).__name__}.")
    return value  # type: ignore[no-any-return]
