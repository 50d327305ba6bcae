"""Classification of hooks by their bytecode: observers, which return None, and hooks that return a replacement."""

from __future__ import annotations

import builtins
import dis
import inspect
from collections import deque
from collections.abc import Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

SILENT_METHODS: dict[type, tuple[str, ...]] = {
    list: ("append", "extend", "insert"),
    deque: ("append", "appendleft", "extend"),
    dict: ("update", "__setitem__"),
    set: ("add", "update"),
}
"""Methods of containers that return None."""
STORING_NAMES = {"setattr", "setdefault", *(name for names in SILENT_METHODS.values() for name in names)}
STORES = ("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL", "STORE_SUBSCR")
"""Names and instructions in code that stores something."""
SKIPPED_INSTRUCTIONS = ("CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "MAKE_CELL", "NOP", "PRECALL", "PUSH_NULL", "RESUME")
"""Instructions without an expression in the source, whose positions differ between versions of Python."""
Steps = Sequence[dis.Instruction]


def returns_none(hook: object) -> bool:
    """Returns whether every call of a hook is known to return None.

    True for a function that returns no value, and for a lambda that prints or adds something to a list, a dict or a
    set. False where the code is not known, as for functions of C.
    """
    function = function_of(hook)
    if function is None or inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return False
    steps = [step for step in dis.get_instructions(function) if step.opname not in SKIPPED_INSTRUCTIONS]
    ends = [i for i, step in enumerate(steps) if step.opname in ("RETURN_VALUE", "RETURN_CONST")]
    return all(_is_none_return(steps, end) for end in ends) or _only_prints_or_stores(function, steps, ends)


def function_of(hook: Any) -> FunctionType | None:
    """The Python function that a call of a hook runs; None for other callables."""
    while isinstance(hook, partial):
        hook = hook.func
    if not isinstance(hook, (FunctionType, MethodType)):
        hook = inspect.getattr_static(type(hook), "__call__", None)
    function = getattr(hook, "__func__", hook)
    return function if isinstance(function, FunctionType) else None


def stores(hook: object) -> bool:
    """Returns whether a hook may store something in a variable, an attribute or a container."""
    function = function_of(hook)
    steps = () if function is None else dis.get_instructions(function)
    return any(
        step.opname in STORES or (isinstance(step.argval, str) and step.argval in STORING_NAMES) for step in steps
    )


def _is_none_return(steps: Steps, end: int) -> bool:
    """Returns whether a return instruction returns the constant None, in the bytecode of any version."""
    if steps[end].opname == "RETURN_CONST":
        return steps[end].argval is None
    before = steps[end - 1]
    return not steps[end].is_jump_target and before.opname == "LOAD_CONST" and before.argval is None


def _only_prints_or_stores(function: FunctionType, steps: Steps, ends: Sequence[int]) -> bool:
    """Returns whether a function does nothing but call `print` or a container's method that returns None."""
    is_one = len(ends) == 1 and not any(step.is_jump_target for step in steps)
    if not is_one or len(steps) < 3 or not steps[-2].opname.startswith("CALL"):
        return False
    value = _value(function, steps[0])
    for step in steps[1:]:
        if value is builtins.print or step.argval in SILENT_METHODS.get(type(value), ()):
            return True
        if step.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return False
        value = getattr(value, "__dict__", {}).get(step.argval)
    return False


def _value(function: FunctionType, step: dis.Instruction) -> Any:
    """The global or outer variable that an instruction loads, if it does."""
    if step.opname == "LOAD_GLOBAL":
        return function.__globals__.get(step.argval, getattr(builtins, step.argval, None))
    names = function.__code__.co_freevars
    if step.opname != "LOAD_DEREF" or step.argval not in names or function.__closure__ is None:
        return None
    try:
        return function.__closure__[names.index(step.argval)].cell_contents
    except ValueError:  # not assigned yet
        return None
