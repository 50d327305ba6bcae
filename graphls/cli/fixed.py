"""Inputs of a model that are the same for all data, as the command line says them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.files.files import parse_json


def add_fixed(parser: argparse._ActionsContainer) -> None:
    """Add the option to a command."""
    parser.add_argument("--fixed", action="append", default=[], metavar="NAME=VALUE", help="what an input always is")


def fixed_values(settings: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The values of inputs by their names; raises GraphValueError for what is no number and no list of them."""
    found = {}
    for text in settings:
        name, _, value = text.partition("=")
        try:
            found[name] = np.asarray(parse_json(value))
        except ValueError:
            found[name] = np.asarray(None)
        if found[name].dtype.kind not in "fib":
            example = "a number or a list, such as size=[2,2]"
            raise GraphValueError(f"--fixed takes name=value with {example}, not {text!r}.")
    return found
