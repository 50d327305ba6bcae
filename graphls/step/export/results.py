"""The structure of a step's results as JSON: {"output": index} for tensors, lists, {"items": ...} for dicts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError


def structure_of(tree: object, is_tensor: Callable[[object], bool]) -> Any:
    """The structure of a result; a named tuple is a list. Raises GraphTypeError for what JSON does not hold."""
    indices = count()

    def walk(item: Any) -> Any:
        if is_tensor(item):
            return {"output": next(indices)}
        if isinstance(item, (tuple, list)):
            return [walk(part) for part in item]
        if isinstance(item, dict):
            return {"items": {str(key): walk(part) for key, part in item.items()}}
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        raise GraphTypeError(f"A bundle keeps tensors, numbers and texts in results, not {type(item).__name__}.")

    return walk(tree)


def tree_of(structure: Any, tensor: object) -> Any:
    """A result of that structure with `tensor` for every tensor; raises GraphValueError for another structure."""
    if isinstance(structure, list):
        return tuple(tree_of(part, tensor) for part in structure)
    if not isinstance(structure, dict):
        return structure
    if isinstance(structure.get("output"), int):
        return tensor
    if isinstance(structure.get("items"), dict):
        return {key: tree_of(part, tensor) for key, part in structure["items"].items()}
    raise GraphValueError("what it says under 'results' is no structure of a result")
