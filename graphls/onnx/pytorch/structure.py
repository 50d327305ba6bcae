"""Nested arguments and results of modules of PyTorch: where their tensors are, and the same structure of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphls.base.errors import GraphTypeError, GraphValueError

Structure: TypeAlias = "Leaf | Constant | Items | Fields"
"""A tensor by its number, a value that is not a tensor, or a sequence or mapping of these."""


@dataclass(frozen=True)
class Leaf:
    """The tensor of this number."""

    number: int


@dataclass(frozen=True)
class Constant:
    """A value that is not a tensor, such as None or a flag."""

    value: Any


@dataclass(frozen=True)
class Items:
    """A tuple, or a list."""

    items: tuple[Structure, ...]
    is_list: bool = False


@dataclass(frozen=True)
class Fields:
    """A dict with strings or other plain keys, in its order."""

    fields: tuple[tuple[Any, Structure], ...]


def structure_of(value: object, is_leaf: Callable[[object], bool]) -> tuple[Structure, list[Any]]:
    """The structure of a value, with its tensors in the order of their numbers.

    Mappings, such as the outputs of Hugging Face, are dicts; named tuples are tuples.
    """
    leaves: list[Any] = []

    def walk(part: Any) -> Structure:
        if is_leaf(part):
            leaves.append(part)
            return Leaf(len(leaves) - 1)
        if isinstance(part, Mapping):
            return Fields(tuple((key, walk(each)) for key, each in part.items()))
        if isinstance(part, (tuple, list)):
            return Items(tuple(map(walk, part)), isinstance(part, list))
        return Constant(part)

    return walk(value), leaves


def filled(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The value of this structure whose tensors are these."""
    if isinstance(structure, Leaf):
        return leaves[structure.number]
    if isinstance(structure, Constant):
        return structure.value
    if isinstance(structure, Fields):
        return {key: filled(each, leaves) for key, each in structure.fields}
    parts = [filled(each, leaves) for each in structure.items]
    return parts if structure.is_list else tuple(parts)


def leaves_of(structure: Structure, value: Any, path: str) -> Iterator[Any]:
    """The tensors of a value of this structure, in their order; raises GraphlsError for a value of another one."""
    if isinstance(structure, Leaf):
        yield value
    elif isinstance(structure, Fields):
        if not isinstance(value, Mapping) or set(value) != {key for key, _ in structure.fields}:
            keys = ", ".join(repr(key) for key, _ in structure.fields)
            raise GraphTypeError(f"The input {path!r} is a dict with the keys {keys}, as in the example.")
        for key, each in structure.fields:
            yield from leaves_of(each, value[key], f"{path}[{key!r}]")
    elif isinstance(structure, Items):
        count = len(structure.items)
        if not isinstance(value, (tuple, list)) or len(value) != count:
            raise GraphValueError(f"The input {path!r} is a sequence of {count}, as in the example.")
        for number, (each, part) in enumerate(zip(structure.items, value, strict=True)):
            yield from leaves_of(each, part, f"{path}[{number}]")
