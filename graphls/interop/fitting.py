"""How arrays that were found fit the parameters of a network, and checks of what functions are given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.matching import Found, Rename, check_rename
from graphls.interop.parameter_mapping import Place
from graphls.interop.sources import Array
from graphls.ir.types import DType, type_of
from graphls.nn.cell import Cell

SHOWN = 8
"""How many names of one kind an error lists."""


def check_network(function: str, net: object) -> None:
    """Raise GraphTypeError for what is no network."""
    if not isinstance(net, Cell):
        raise GraphTypeError(f"For {function!r}, the argument 'net' is a Cell, not {net!r}.")


def check_pattern(function: str, pattern: object) -> str | None:
    """A regular expression or None; raises GraphTypeError or GraphValueError for anything else."""
    if pattern is not None and not isinstance(pattern, str):
        raise GraphTypeError(f"For {function!r}, 'transposed' is a regular expression, not {pattern!r}.")
    check_rename(function, {pattern: ""} if pattern else {})
    return pattern


Chosen = Sequence[tuple[Place, Found]]


def chosen_rows(found: Chosen) -> Chosen:
    """One row for each parameter; raises GraphValueError where one that is shared would get different tensors."""
    first: dict[int, tuple[Place, Found]] = {}
    for place, each in found:
        kept = first.setdefault(id(place.parameter), (place, each))[1]
        if kept.names != each.names and not np.array_equal(kept.array, each.array):
            raise GraphValueError(
                f"{kept.names[0]!r} and {each.names[0]!r} differ, and both are for {place.path!r}, one parameter that "
                "cells of the network share.",
            )
    return list(first.values())


def misfit(parameter: Parameter, path: str, found: Found) -> str:
    """How an array differs from a parameter in shape or kind of numbers; "" where it fits."""
    shape, source = found.array.shape, " + ".join(map(repr, found.names))
    if shape != parameter.shape:
        is_other = shape[::-1] == parameter.shape and len(shape) == 2
        advice = f"; its transpose fits: transposed={found.names[0]!r}" if is_other else ""
        return f"{path!r} has the shape {parameter.shape} and {source} has {shape}{advice}"
    dtype = type_of(found.array).dtype
    same = dtype.is_float if parameter.dtype.is_float else _kind(dtype) == _kind(parameter.dtype)
    return "" if same else f"{path!r} holds {parameter.dtype!r} and {source} {dtype!r}"


def _kind(dtype: DType) -> str:
    return "int" if dtype.kind == "uint" else dtype.kind


def cast_changes(parameter: Parameter, found: Found) -> Iterator[str]:
    """What is said of an array whose dtype is another one than the parameter's."""
    if found.array.dtype != parameter.dtype.numpy:
        yield f"from {found.array.dtype}"


def converted(parameter: Parameter, found: Found) -> Array:
    """An array of its own in the dtype of the parameter."""
    return np.array(found.array, parameter.dtype.numpy, order="C")


def outward_names(rows: Iterable[Place], renames: Rename) -> dict[str, Place]:
    """Places by their names in PyTorch after renames; raises GraphValueError where two would have one name."""
    found: dict[str, Place] = {}
    for place in rows:
        name = place.name
        for old, new in renames.items():
            name = re.sub(old, new, name)
        if name in found:
            raise GraphValueError(f"Two parameters of the network are called {name!r} in PyTorch; change the rename.")
        found[name] = place
    return found


def outward(place: Place, array: Array, name: str, pattern: str | None) -> Array:
    """A parameter's array, or one of its shape, in the layout that PyTorch has under a name."""
    array = array.squeeze(2) if place.has_axis else array
    is_other = place.is_matrix and pattern is not None and re.search(pattern, name)
    return np.ascontiguousarray(array.T) if is_other else array


def listed(texts: Iterable[str]) -> str:
    """Texts in a row, the first of them where they are many."""
    each = [*texts]
    more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
    return ", ".join(each[:SHOWN]) + more
