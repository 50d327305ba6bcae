"""Arguments that several commands take: functions as `module:function`, constant inputs of a model, and meshes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from graphls.base.errors import GraphImportError, GraphTypeError, GraphValueError
from graphls.base.files.files import parse_json
from graphls.ir.registry import nearest
from graphls.ir.sharding import Mesh

_NAME = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


def is_function(text: str) -> bool:
    """Tells whether a text names a function, as `module:function`."""
    return _NAME.fullmatch(text) is not None


def function_of(text: str, option: str) -> Callable[..., Any]:
    """The function that a text names, in an importable module or in one of the working directory.

    Raises GraphImportError for a missing module, GraphValueError for a missing name and GraphTypeError for a value that
    cannot be called.
    """
    name, function = text.split(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        message = f"There is no module {name!r} for {option} {text}"
        raise GraphImportError(f"{message}; run the command in its folder, or set PYTHONPATH.") from None
    value = getattr(module, function, None)
    if value is None:
        raise GraphValueError(f"The module {name} has no function {function!r}{nearest(function, vars(module))}.")
    if not callable(value):
        raise GraphTypeError(f"{option} takes a function, and {text} is of type {type(value).__name__}.")
    return value  # type: ignore[no-any-return]


def add_fixed(parser: argparse._ActionsContainer) -> None:
    """Add the option `--fixed` to a command."""
    parser.add_argument("--fixed", action="append", default=[], metavar="NAME=VALUE", help="a constant input")


def fixed_values(settings: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The values of inputs by their names; raises GraphValueError for anything but a number or a list of numbers."""
    values = {}
    for text in settings:
        name, _, value = text.partition("=")
        try:
            values[name] = np.asarray(parse_json(value))
        except ValueError:
            values[name] = np.asarray(None)
        if values[name].dtype.kind not in "fib":
            example = "a number or a list, such as size=[2,2]"
            raise GraphValueError(f"--fixed takes name=value with {example}, not {text!r}.")
    return values


def add_mesh(parser: argparse._ActionsContainer, mesh: str, zero: str) -> None:
    """Add the options `--mesh` and `--zero` to a command, with the help for one and a clause for that of the other."""
    parser.add_argument("--mesh", help=mesh)
    parser.add_argument("--zero", type=int, choices=range(4), help=f"on a mesh: the level of ZeRO, {zero}")


def mesh_of(text: str) -> Mesh:
    """The mesh of a text such as data=64,model=8; raises GraphValueError for another text."""
    parts = [re.fullmatch(r"\s*(\w+)\s*=\s*(\d{1,9})\s*", part) for part in text.split(",")]
    sizes = {match[1]: int(match[2]) for match in parts if match is not None}
    if len(sizes) != len(parts):
        raise GraphValueError(f"--mesh takes axes with numbers of devices, such as data=64,model=8, not {text!r}.")
    return Mesh(**sizes)
