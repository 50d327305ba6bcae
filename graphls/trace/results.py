"""What a traced function may give: tensors and constants in tuples, lists and dicts."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any

from graphls.ir.errors import TraceError
from graphls.ir.location import Location, location_of
from graphls.tensors.pytree import leaves


def check_results(function: Callable[..., object], results: object, has_effect: bool) -> None:
    """Raise TraceError, with the line of the function, for results that no step can give.

    They are what runs only later, such as generators, and None where the function has no effect: it writes no
    parameter and calls no Python.
    """
    for leaf in leaves(results):
        if isinstance(leaf, (Iterator, Coroutine, AsyncGenerator)):
            if isinstance(leaf, Coroutine):
                leaf.close()
            text = f"{_named(function)} gives {_with_article(leaf)}, and a step runs to its end; {_advice(leaf)}."
            raise TraceError(text, _line(function))
    if results is None and not has_effect:
        text = f"{_named(function)} gives None and writes no parameter, so there is nothing to compute"
        raise TraceError(f"{text}; end it with `return` and a tensor.", _line(function))


def _with_article(thing: object) -> str:
    kind = type(thing).__name__.replace("_", " ")
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _advice(leaf: object) -> str:
    if isinstance(leaf, (Coroutine, AsyncGenerator)):
        return "write it with `def`, without `async`"
    return "return the tensors in a tuple or a list"


def _code_of(function: Callable[..., object]) -> Any:
    construct = getattr(type(function), "construct", None)
    return getattr(inspect.unwrap(construct or function), "__code__", None)


def _named(function: Callable[..., object]) -> str:
    if hasattr(type(function), "construct"):
        return f"The construct of {type(function).__name__}"
    return f"The function {getattr(function, '__name__', type(function).__name__)}"


def _line(function: Callable[..., object]) -> Location | None:
    code = _code_of(function)
    return None if code is None else location_of(code)
