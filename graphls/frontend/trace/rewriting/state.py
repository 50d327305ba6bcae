"""State that a branch or a loop may change: variables, attributes, containers and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from types import CellType
from typing import Any

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Symbol
from graphls.frontend.trace.branch_merge import UNBOUND, Outcome
from graphls.frontend.trace.tracer import Tracer

Attributes = Sequence[tuple[Callable[[], Any], str]]


class State:
    """Variables by name, attributes by their path, and by number the lists, dicts and symbols that functions can reach.

    All of these can be read, and set to old values or to those after a `cond` or a loop.
    """

    def __init__(self, variables: Any, functions: Iterable[Any], attributes: Attributes = ()) -> None:
        self.cells: dict[str, CellType] = dict(_cells(variables))
        self.attributes = dict(_attribute_owners(attributes))
        self.reached = {name: cell for f in functions for name, cell in _cells(f)}
        self.objects = list(_mutable(_content(cell) for _, cell in sorted(self.reached.items())))

    def read(self) -> dict[Any, Any]:
        """The current values of everything."""
        contents: dict[Any, Any] = {name: _content(cell) for name, cell in self.cells.items()}
        contents.update({key: vars(owner).get(name, UNBOUND) for key, (owner, name) in self.attributes.items()})
        contents.update({number: _copied(item) for number, item in enumerate(self.objects)})
        return contents

    def ended(self, result: object) -> Outcome:
        """The outcome: a result, and the current values of everything."""
        return Outcome(result, self.read(), objects=self.objects)

    def write(self, contents: Mapping[object, object]) -> None:
        """Set variables, attributes and containers to these contents."""
        for name, cell in self.cells.items():
            if name in contents:
                set_cell(cell, contents[name])
        for key, (owner, name) in self.attributes.items():
            if contents.get(key, UNBOUND) is not UNBOUND:
                vars(owner)[name] = contents[key]
            elif key in contents:
                vars(owner).pop(name, None)
        for number, item in enumerate(self.objects):
            if number in contents:
                _fill(item, contents[number])

    def changes(self, before: Mapping[object, object], after: Mapping[object, object]) -> dict[Any, Any]:
        """The variables and containers whose value has changed."""
        return {key: item for key, item in after.items() if not _is_same(before[key], item)}

    def take(self, outcome: Outcome, tracer: Tracer) -> Any:
        """Write the values of an outcome; returns its result."""
        self.write(outcome.values)
        tracer.unbound.update(outcome.unbound)
        return outcome.result


def set_cell(cell: CellType, value: object) -> None:
    """Bind a variable, or unbind it."""
    if value is not UNBOUND:
        cell.cell_contents = value
    elif _content(cell) is not UNBOUND:
        del cell.cell_contents


def is_empty(cell: CellType) -> bool:
    """Whether a variable is unbound."""
    return _content(cell) is UNBOUND


def _cells(function: Any) -> Iterator[tuple[str, CellType]]:
    if function is not None:
        yield from zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def _attribute_owners(attributes: Attributes) -> Iterator[tuple[str, tuple[Any, str]]]:
    """The assigned attributes with their owners, without parameters, whose writes a trace records."""
    for i, (owner_of, name) in enumerate(attributes):
        try:
            owner = owner_of()
        except (AttributeError, NameError):
            continue
        if isinstance(getattr(owner, "__dict__", None), dict) and not isinstance(vars(owner).get(name), Parameter):
            yield f"{name}.{i}", (owner, name)


def _mutable(items: Iterable[object]) -> Iterator[Any]:
    """The lists, dicts and symbols in a pytree, each once."""
    seen: set[int] = set()
    waiting = list(items)[::-1]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, (list, dict, tuple)) and type(item) is not Symbol:
            continue
        if id(item) in seen:
            continue
        seen.add(id(item))
        if not isinstance(item, tuple):
            yield item
        if not isinstance(item, Symbol):
            waiting.extend(reversed(list(item.values() if isinstance(item, dict) else item)))


def _copied(item: Any) -> Any:
    if isinstance(item, Symbol):
        return Symbol(item.graph_value)
    return dict(item) if isinstance(item, dict) else list(item)


def _fill(item: Any, content: Any) -> None:
    if isinstance(item, Symbol):
        item._value = content.graph_value
    elif isinstance(item, dict):
        item.clear()
        item.update(content)
    else:
        item[:] = content


def _is_same(before: Any, after: Any) -> bool:
    """Whether two contents are the same object, containers of the same objects, or symbols of the same value."""
    if before is after:
        return True
    if type(before) is Symbol and type(after) is Symbol:
        return before.graph_value is after.graph_value
    if type(before) is not type(after) or not isinstance(before, (list, dict)) or len(before) != len(after):
        return False
    if isinstance(before, dict):
        return all(key in after and before[key] is after[key] for key in before)
    return all(map(is_, before, after))
