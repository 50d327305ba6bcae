"""Pytrees: flattening, mapping and rebuilding nested tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def leaves(tree: object) -> list[Any]:
    """The leaves of a pytree of tuples, lists and dicts, in order."""
    return list(_leaves(tree))


def _leaves(tree: object) -> Iterator[Any]:
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _leaves(item)
    else:
        yield tree


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same pytree with `function` applied to everything that stands in it."""
    if isinstance(tree, tuple):
        items = [map_leaves(function, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return [map_leaves(function, item) for item in tree]
    if isinstance(tree, dict):
        return {key: map_leaves(function, item) for key, item in tree.items()}
    return function(tree)


def rebuild(tree: object, values: Iterable[object]) -> Any:
    """The same pytree with its leaves exchanged for `values`, in order."""
    iterator = iter(values)
    return map_leaves(lambda _: next(iterator), tree)


def structure(tree: object) -> Any:
    """The structure of a pytree, which can be compared and hashed."""
    if isinstance(tree, (tuple, list)):
        return (type(tree).__name__, *map(structure, tree))
    if isinstance(tree, dict):
        return ("dict", *((key, structure(item)) for key, item in tree.items()))
    return "."
