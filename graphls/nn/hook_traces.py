"""Hooks that keep tensors while a graph is traced: what they keep is there for `construct`, and gone behind it."""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from graphls.base.errors import GraphlsError
from graphls.frontend.tensors.pytree import leaves
from graphls.frontend.tensors.tensor import Symbol
from graphls.frontend.trace.frames import Fork
from graphls.frontend.trace.tracer import Tracer
from graphls.nn.hook_kinds import function_of

Restore = Callable[[], None]


def keep_in_trace(tracer: Tracer, hook: Any, cell: object, given: tuple[object, ...]) -> None:
    """Call a hook with the symbols of a trace, which `construct` may find where the hook puts them.

    When the trace ends, containers, variables and attributes that the hook knows are as they were. A hook that reads
    numbers cannot have them here, and is called with them later.
    """
    tracer.endings += list(restoring(hook, cell))
    try:
        with suppress(GraphlsError):
            hook(cell, *given)
    except Fork:
        tracer.fork = None


def restoring(hook: Any, cell: object) -> Iterator[Restore]:
    """What puts back all that a hook can change: what it names, and the attributes of its object and of the cell."""
    held: list[Any] = []
    while isinstance(hook, partial):
        held += [*hook.args, *hook.keywords.values()]
        hook = hook.func
    function = function_of(hook)
    if function is not None:
        for name in {step.argval for step in dis.get_instructions(function) if step.opname == "STORE_GLOBAL"}:
            yield partial(_put_back, function.__globals__, name, dict(function.__globals__))
        held += [function.__globals__.get(name) for name in function.__code__.co_names]
        for variable in function.__closure__ or ():
            with suppress(ValueError):
                held.append(variable.cell_contents)
                yield partial(setattr, variable, "cell_contents", variable.cell_contents)
    owner = getattr(hook, "__self__", hook)
    for item in (cell, owner):
        if hasattr(item, "__dict__") and item is not function:
            held += vars(item).values()
            yield partial(_without_symbols, vars(item), dict(vars(item)))
    for item in held:
        if type(item) in (list, deque, set, dict):
            yield partial(_refill, item, item.copy())


@contextmanager
def kept_attributes(hook: Any, cell: object) -> Iterator[None]:
    """A block behind which attributes of the object of a hook and of the cell are what they were, but for symbols."""
    owners = [vars(item) for item in (cell, getattr(hook, "__self__", hook)) if hasattr(item, "__dict__")]
    before = [dict(attributes) for attributes in owners]
    try:
        yield
    finally:
        for attributes, old in zip(owners, before, strict=True):
            changed = [name for name, value in attributes.items() if value is not old.get(name)]
            for name in changed:
                if not _holds_symbols(attributes[name]):
                    _put_back(attributes, name, old)


def _holds_symbols(value: object) -> bool:
    return any(isinstance(leaf, Symbol) for leaf in leaves(value))


def _put_back(attributes: dict[str, Any], name: str, before: dict[str, Any]) -> None:
    attributes.pop(name, None)
    attributes.update({name: before[name]} if name in before else {})


def _refill(container: Any, before: Any) -> None:
    """Let a container hold what it held."""
    container.clear()
    (container.extend if isinstance(container, (list, deque)) else container.update)(before)


def _without_symbols(attributes: dict[str, Any], before: dict[str, Any]) -> None:
    """Put attributes back that hold symbols of a trace."""
    for name, value in list(attributes.items()):
        if value is not before.get(name) and _holds_symbols(value):
            _put_back(attributes, name, before)
