"""Checks that arrays fit the parameters of a network, converts them, and checks the arguments of public functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.matching import Match, Rename, check_rename
from graphls.interop.parameter_mapping import ParameterMapping
from graphls.interop.sources import Array
from graphls.ir.types import DType, type_of
from graphls.nn.cell import Cell

SHOWN = 8
"""The number of names that an error lists."""


def check_network(function: str, net: object) -> None:
    """Raise GraphTypeError for anything but a network."""
    if not isinstance(net, Cell):
        raise GraphTypeError(f"For {function!r}, the argument 'net' is a Cell, not {net!r}.")


def check_pattern(function: str, pattern: object) -> str | None:
    """A regular expression or None; raises GraphTypeError or GraphValueError for anything else."""
    if pattern is not None and not isinstance(pattern, str):
        raise GraphTypeError(f"For {function!r}, 'transposed' is a regular expression, not {pattern!r}.")
    check_rename(function, {pattern: ""} if pattern else {})
    return pattern


Matches = Sequence[tuple[ParameterMapping, Match]]


def distinct_matches(matches: Matches) -> Matches:
    """One match for each parameter; raises GraphValueError if a shared one would get different tensors."""
    first: dict[int, tuple[ParameterMapping, Match]] = {}
    for mapping, match in matches:
        other = first.setdefault(id(mapping.parameter), (mapping, match))[1]
        if other.names != match.names and not np.array_equal(other.array, match.array):
            text = f"{other.names[0]!r} and {match.names[0]!r} differ, and both are for {mapping.path!r}"
            raise GraphValueError(f"{text}, one parameter that cells of the network share.")
    return list(first.values())


def misfit(parameter: Parameter, path: str, match: Match) -> str:
    """The difference of an array from a parameter in shape or kind of numbers; "" if it fits."""
    shape, source = match.array.shape, " + ".join(map(repr, match.names))
    if shape != parameter.shape:
        is_other = shape[::-1] == parameter.shape and len(shape) == 2
        advice = f"; its transpose fits: transposed={match.names[0]!r}" if is_other else ""
        return f"{path!r} has the shape {parameter.shape} and {source} has {shape}{advice}"
    dtype = type_of(match.array).dtype
    same = dtype.is_float if parameter.dtype.is_float else _kind(dtype) == _kind(parameter.dtype)
    return "" if same else f"{path!r} holds {parameter.dtype!r} and {source} {dtype!r}"


def _kind(dtype: DType) -> str:
    return "int" if dtype.kind == "uint" else dtype.kind


def cast_changes(parameter: Parameter, match: Match) -> Iterator[str]:
    """The change of an array whose dtype differs from the parameter's, for the report."""
    if match.array.dtype != parameter.dtype.numpy:
        yield f"from {match.array.dtype}"


def converted(parameter: Parameter, match: Match) -> Array:
    """A copy of the array in the dtype of the parameter."""
    return np.array(match.array, parameter.dtype.numpy, order="C")


def outward_names(rows: Iterable[ParameterMapping], renames: Rename) -> dict[str, ParameterMapping]:
    """Mappings by name in PyTorch after renames; raises GraphValueError if two would have one name."""
    mappings: dict[str, ParameterMapping] = {}
    for mapping in rows:
        name = mapping.name
        for old, new in renames.items():
            name = re.sub(old, new, name)
        if name in mappings:
            raise GraphValueError(f"Two parameters of the network are called {name!r} in PyTorch; change the rename.")
        mappings[name] = mapping
    return mappings


def outward(mapping: ParameterMapping, array: Array, name: str, pattern: str | None) -> Array:
    """A parameter's array, or one of its shape, in PyTorch's layout."""
    array = array.squeeze(2) if mapping.has_axis else array
    is_other = mapping.is_matrix and pattern is not None and re.search(pattern, name)
    return np.ascontiguousarray(array.T) if is_other else array


def listed(texts: Iterable[str]) -> str:
    """Texts with commas between them, of many only the first."""
    each = [*texts]
    more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
    return ", ".join(each[:SHOWN]) + more
