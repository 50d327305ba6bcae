"""Globals and closure variables of a function, which its graph contains as constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from graphls.ir.compare import constant_key

PLAIN = (bool, int, float, str, bytes, type(None))
FIXED_MODULES = ("graphls", "mindspore", "numpy")
MOST_FUNCTIONS = 64


class Reference(NamedTuple):
    """A global, a variable of an outer function or the object of a method, with the attributes that are read of it."""

    holder: Any
    name: str
    attributes: tuple[str, ...]

    def value(self) -> Any:
        """The current object."""
        if isinstance(self.holder, dict):
            return self.holder.get(self.name)
        try:
            return self.holder.cell_contents
        except ValueError:  # the variable has no value yet
            return None


class ClosureVariables:
    """The outer variables that a function, and the user's functions that it calls, read.

    `key()` changes when a number or a text in one, or in an attribute of its object, has another value, and when the
    object is another one; not when a list or a dict changes. Changes of cells are noticed by compiled steps.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.references: list[Reference] = []
        self.refresh()

    def refresh(self) -> None:
        """Find the references again, as they change where a function has been replaced."""
        self.references = list({(id(r.holder), r.name, r.attributes): r for r in _references(self.function)}.values())

    def key(self) -> tuple[Any, ...]:
        """A key of the referenced objects, as far as a graph depends on them."""
        return tuple([_key(reference.value(), reference.attributes) for reference in self.references])

    def values(self) -> list[Any]:
        """The referenced objects; as long as they are retained, no other object has their identity."""
        return [reference.value() for reference in self.references]

    def changed(self, before: tuple[object, ...]) -> str:
        """The names of the references whose objects differ from those of an earlier key."""
        pairs = zip(self.references, before, self.key(), strict=False)
        return " and ".join(reference.name for reference, old, new in pairs if old != new)


def is_cell(item: object) -> bool:
    """Whether an object is a cell."""
    return hasattr(type(item), "configuration")


def _key(value: object, attributes: tuple[str, ...]) -> Any:
    if type(value) in PLAIN:
        return constant_key(value)
    if isinstance(value, (FunctionType, type)) or _is_fixed(value) or is_cell(value):
        return id(value)
    inner = getattr(value, "__dict__", None)
    return (id(value), *((name, _key(inner[name], ())) for name in attributes if name in inner)) if inner else id(value)


def _is_fixed(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] in FIXED_MODULES


def _references(function: object) -> Iterator[Reference]:
    waiting, seen = [function], set[int]()
    while waiting and len(seen) < MOST_FUNCTIONS:
        item, owner = _unwrapped(waiting.pop())
        if not isinstance(item, FunctionType) or id(item) in seen:
            continue
        seen.add(id(item))
        names = tuple(dict.fromkeys(_names(item.__code__)))
        if owner is not None:
            yield Reference({"self": owner}, "self", names)
        if not str(item.__globals__.get("__name__")).startswith("graphls."):
            for reference in _outer_references(item, names):
                yield reference
                waiting.append(reference.value())


def _unwrapped(item: Any) -> tuple[Any, Any]:
    """The function behind a method, a decorated or a gradient function, and the object of the method."""
    owner = None
    while True:
        if isinstance(item, MethodType):
            item, owner = item.__func__, item.__self__
        elif "__wrapped__" in getattr(item, "__dict__", ()):
            item = item.__dict__["__wrapped__"]
        else:
            return item, owner


def _outer_references(function: FunctionType, names: tuple[str, ...]) -> Iterator[Reference]:
    yield from (Reference(function.__globals__, name, names) for name in names if name in function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield Reference(cell, name, names)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
