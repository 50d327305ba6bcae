"""Whether a hook looks on and gives nothing, or gives what is computed on with: as its code says, without a call."""

from __future__ import annotations

import builtins
import dis
import inspect
from collections import deque
from collections.abc import Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

LOOKING: dict[type, tuple[str, ...]] = {
    list: ("append", "extend", "insert"),
    deque: ("append", "appendleft", "extend"),
    dict: ("update", "__setitem__"),
    set: ("add", "update"),
}
"""Methods of containers that give nothing."""
KEEPING = {"setattr", "setdefault", *(name for names in LOOKING.values() for name in names)}
STORING = ("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL", "STORE_SUBSCR")
"""Names and instructions in code that keeps something."""
SILENT = ("CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "MAKE_CELL", "NOP", "PRECALL", "PUSH_NULL", "RESUME")
"""Instructions that no expression of the program stands for, and which versions of Python have in different places."""
Steps = Sequence[dis.Instruction]


def gives_nothing(hook: object) -> bool:
    """Whether every call of a hook is known to give None.

    That is so for a function without a `return` of anything, and for a lambda that puts something into a list, a dict
    or a set, or prints. It is False where nobody knows, as of functions of C.
    """
    function = function_of(hook)
    if function is None or inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return False
    steps = [step for step in dis.get_instructions(function) if step.opname not in SILENT]
    ends = [i for i, step in enumerate(steps) if step.opname in ("RETURN_VALUE", "RETURN_CONST")]
    return all(_gives_none(steps, end) for end in ends) or _looks_on(function, steps, ends)


def function_of(hook: Any) -> FunctionType | None:
    """The function in Python that a call of a hook runs."""
    while isinstance(hook, partial):
        hook = hook.func
    if not isinstance(hook, (FunctionType, MethodType)):
        hook = inspect.getattr_static(type(hook), "__call__", None)
    found = getattr(hook, "__func__", hook)
    return found if isinstance(found, FunctionType) else None


def keeps(hook: object) -> bool:
    """Whether a hook may put something where others find it: into a variable, an attribute or a container."""
    function = function_of(hook)
    steps = () if function is None else dis.get_instructions(function)
    return any(step.opname in STORING or (isinstance(step.argval, str) and step.argval in KEEPING) for step in steps)


def _gives_none(steps: Steps, end: int) -> bool:
    """Whether a return gives the constant None, wherever the program comes from."""
    if steps[end].opname == "RETURN_CONST":
        return steps[end].argval is None
    before = steps[end - 1]
    return not steps[end].is_jump_target and before.opname == "LOAD_CONST" and before.argval is None


def _looks_on(function: FunctionType, steps: Steps, ends: Sequence[int]) -> bool:
    """Whether all that a function does is to call `print`, or a method of a container that gives nothing."""
    is_one = len(ends) == 1 and not any(step.is_jump_target for step in steps)
    if not is_one or len(steps) < 3 or not steps[-2].opname.startswith("CALL"):
        return False
    held = _value(function, steps[0])
    for step in steps[1:]:
        if held is builtins.print or step.argval in LOOKING.get(type(held), ()):
            return True
        if step.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return False
        held = getattr(held, "__dict__", {}).get(step.argval)
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
    except ValueError:  # a variable that is not set yet
        return None
