"""Public names of the inputs and outputs of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from inspect import Parameter, signature
from typing import Any

from graphls.base.errors import GraphValueError

NEXT = ":next"
"""The suffix of a state's name in the name of its value after the step."""

Names = str | tuple[str, ...]


def input_names(cell: object, graph_names: Sequence[str]) -> list[str]:
    """The names of the inputs: those of the arguments that the network of a step has where the step takes any.

    `graph_names` are those in the graph, such as `inputs_0`.
    """
    own = _argument_names(cell, len(graph_names))
    return own if len(own) == len(graph_names) else list(graph_names)


def _argument_names(cell: object, count: int) -> list[str]:
    construct: Callable[..., Any] | None = getattr(type(cell), "construct", None)
    if construct is None:
        return []
    names: list[str] = []
    for parameter in list(signature(construct).parameters.values())[1:]:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            return names + _argument_names(getattr(cell, "network", None), count - len(names))
        if parameter.kind is not Parameter.VAR_KEYWORD:
            names.append(parameter.name)
    return names[:count]


def output_names(cell: object, is_tensor: Callable[[object], bool], tree: object) -> list[str]:
    """The names of the tensors of a result, in order: as the step cell says, else the keys and positions in it."""
    names: Names = getattr(cell, "_output_names", "output")
    return [name for name, leaf in _leaves(tree, names) if is_tensor(leaf)]


def _leaves(tree: Any, names: Names) -> Iterator[tuple[str, object]]:
    """All leaves of a pytree with their names, which begin with those of the containers around them."""
    if isinstance(tree, dict):
        items: list[tuple[object, Any]] = list(tree.items())
    elif isinstance(tree, (tuple, list)):
        items = list(zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True))
    else:
        yield names if isinstance(names, str) else names[0], tree
        return
    for i, (key, item) in enumerate(items):
        yield from _leaves(item, _name_of(i, key, names))


def _name_of(index: int, key: object, names: Names) -> str:
    if isinstance(names, tuple) and index < len(names):
        return names[index]
    if isinstance(key, str):
        return key if names == "output" else f"{names}.{key}"
    return f"{names if isinstance(names, str) else 'output'}_{key}"


def chosen(kind: str, own: Sequence[str], wished: Sequence[str] | None, reserved: Set[str]) -> list[str]:
    """The names of all inputs or outputs, as `kind` says: those that the user wishes, or `own`, made distinct.

    Raises GraphValueError for too many or too few wishes, for two that are equal, and for one that is `reserved`.
    """
    if wished is None:
        return _distinct(kind, own, reserved)
    if len(wished) != len(own):
        raise GraphValueError(f"The step has {len(own)} {kind}s ({', '.join(own)}), not {len(wished)}.")
    for i, name in enumerate(wished):
        if name in reserved:
            raise GraphValueError(f"The {kind} {name!r} needs another name, which a state or an input has.")
        if name in wished[:i]:
            raise GraphValueError(f"Two {kind}s cannot both be called {name!r}.")
    return list(wished)


def _distinct(kind: str, names: Sequence[str], reserved: Set[str]) -> list[str]:
    """Makes names distinct: one that is reserved gets the kind behind it, and one that repeats a number."""
    distinct: dict[str, int] = {}  # with the number that was asked of each last
    for name in names:
        wish = free = f"{name}_{kind}" if name in reserved else name
        while free in distinct:
            distinct[wish] += 1
            free = f"{wish}_{distinct[wish]}"
        distinct[free] = 0
    return list(distinct)
