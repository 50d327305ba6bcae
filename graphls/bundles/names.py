"""What the inputs and outputs of a step are called outside of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, signature
from typing import Any

from graphls.ir.errors import GraphValueError

NEXT = ":next"
"""What stands behind the name of a state in that of its value after the step."""

Names = str | tuple[str, ...]


def input_names(cell: object, given: Sequence[str]) -> list[str]:
    """The names of the inputs: those of the arguments that the network of a step has where the step takes any.

    `given` are the names in the graph, such as `inputs_0`.
    """
    own = _argument_names(cell, len(given))
    return own if len(own) == len(given) else list(given)


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
    """Everything that stands in a pytree, with names: of its items, or one that theirs begin with."""
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


def chosen(what: str, own: Sequence[str], wished: Sequence[str] | None) -> list[str]:
    """The names that the user wishes, or `own`; raises GraphValueError for too many, too few or double ones."""
    names = list(own if wished is None else wished)
    if len(names) != len(own):
        raise GraphValueError(f"The step has {len(own)} {what} ({', '.join(own)}), not {len(names)}.")
    double = [name for name, times in Counter(names).items() if times > 1]
    if double and wished is not None:
        raise GraphValueError(f"Two {what} cannot both be called {double[0]!r}.")
    return _numbered(names)


def _numbered(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that stand twice."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name] - 1}")
    return found
