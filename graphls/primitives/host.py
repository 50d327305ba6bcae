"""Primitives that call Python with arrays in the middle of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.location import Location
from graphls.ir.types import TOKEN, Type, bool_, parse_type, type_of
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Primitive
from graphls.primitives.printed import show_printed


class HostFunction(str):
    """The name of a function in the text of a graph, which has the function itself, and the line that calls it.

    A graph that was parsed has the name only.
    """

    __slots__ = ("function", "location")

    function: Callable[..., Any]
    location: Location | None

    def __new__(cls, name: str, function: Callable[..., Any], location: Location | None = None) -> HostFunction:
        made = super().__new__(cls, name)
        made.function, made.location = function, location
        return made

    def __deepcopy__(self, memo: Mapping[int, object]) -> HostFunction:
        return self  # copies of a step call the same function, whatever object it is a method of


def call(name: str, arrays: tuple[Array, ...], types: tuple[Type, ...]) -> tuple[Array, ...]:
    """What a function gives for arrays, which it cannot change, as arrays of these types, which may be its own.

    What it raises comes out as it is. Raises GraphRuntimeError for a function that is not known, and GraphTypeError and
    GraphValueError, with the line of the call, where it gives something else than these types.
    """
    if not isinstance(name, HostFunction):
        raise GraphRuntimeError(
            f"The function {name!r} is not known: a graph from a text has only its name; trace the step again."
        )
    given = name.function(*map(_read_only, arrays))
    results = given if isinstance(given, (tuple, list)) else () if given is None and not types else (given,)
    if len(results) != len(types):
        text = f"{name} gives {_counted(len(results))}, and {_counted(len(types))} are declared"
        raise GraphTypeError(f"{text}: {', '.join(map(str, types))}.", name.location)
    return tuple(_fitted(name, r, t) for r, t in zip(results, types, strict=True))


def _counted(count: int) -> str:
    return f"{count} result{'s' * (count != 1)}"


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _fitted(name: HostFunction, result: object, wanted: Type) -> Array:
    """A result as an array; Python's numbers take the type that is declared."""
    if isinstance(result, (bool, int, float)) and not isinstance(result, np.generic):
        kinds = {bool: ("bool", "int", "uint", "float"), int: ("int", "uint", "float"), float: ("float",)}
        if not wanted.shape and wanted.dtype.kind in kinds[type(result)]:
            return _number(name, result, wanted)
    try:
        array = np.asarray(result)
        kind = type_of(array)
    except (GraphTypeError, ValueError):
        text = f"{name} gives {type(result).__name__} where {wanted} is declared."
        raise GraphTypeError(text, name.location) from None
    if kind != wanted:
        error = GraphTypeError if kind.dtype is not wanted.dtype else GraphValueError
        raise error(f"{name} gives {kind} where {wanted} is declared; declare that or convert it.", name.location)
    return array


def _number(name: HostFunction, result: float, wanted: Type) -> Array:
    try:
        return np.array(result, wanted.dtype.numpy)
    except OverflowError:
        text = f"{name} gives {result}, which does not fit the {wanted} that is declared."
        raise GraphValueError(text, name.location) from None


def _declared(results: tuple[str, ...]) -> tuple[Type, ...]:
    types = tuple(map(parse_type, results))
    if any(t == TOKEN or t.stacked for t in types):
        raise GraphTypeError(f"A function gives arrays, not {', '.join(results)}.")
    return types


class HostCall(Primitive, abstract=True):
    """A call of Python with arrays."""

    half = "native"
    calls_python = True

    def run(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        """The results, which may be arrays of the function's own; who keeps them copies them before the next call."""
        raise NotImplementedError

    def evaluate(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        return tuple(np.array(result) for result in self.run(arrays, attrs, types))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """None that anybody knows of."""
        return 0


class PureCallback(HostCall):
    """What a function without effects gives for arrays; `results` are the types of what it gives.

    It may be called as often as anybody likes, or not at all.
    """

    def infer(self, *types: Type, function: str, results: tuple[str, ...]) -> tuple[Type, ...]:
        return _declared(results)

    def run(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        return call(attrs["function"], arrays, types)

    def onnx(self, e: Emitter, *arrays: str, function: str, results: tuple[str, ...]) -> Any:
        raise _no_model(function)


class Effect(HostCall, abstract=True):
    """A call that does something, once in each step. With `guarded`, only where its first operand is true.

    `loops` are the numbers of iterations of loops around it: then it is done once in each, on the rows of its operands.
    """

    has_effect = True

    def token(self, types: tuple[Type, ...], guarded: bool, loops: tuple[int, ...]) -> Type:
        """The type of the first result; raises GraphTypeError where the guard is no bool, or rows are missing."""
        if guarded and types[:1] != (Type(bool_, loops),):
            raise GraphTypeError(f"The first operand of a guarded {self.name} is a {Type(bool_, loops)}.")
        if any(t.shape[: len(loops)] != loops for t in types):
            raise GraphTypeError(f"The operands of {self.name} have rows for loops of {list(loops)} iterations.")
        return TOKEN

    def run(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        if not attrs.get("guarded") and not attrs.get("loops"):
            return (_DONE, *self.act(arrays, attrs, types[1:]))
        for index in np.ndindex(*attrs.get("loops", ())):
            rows = tuple(np.asarray(array[index]) for array in arrays)
            if not attrs.get("guarded"):
                self.act(rows, attrs, ())
            elif rows[0]:
                self.act(rows[1:], attrs, ())
        return (_DONE,)

    def act(self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Array, ...]:
        """Do it; returns what is left behind the token."""
        raise NotImplementedError


_DONE = np.zeros((), np.int32)


class PyFunc(Effect):
    """What a function with effects gives for arrays, behind a token; `results` are the types of what it gives."""

    def infer(
        self, *types: Type, function: str, results: tuple[str, ...] = (), guarded: bool = False,
        loops: tuple[int, ...] = (),
    ) -> tuple[Type, ...]:  # fmt: skip
        if (guarded or loops) and results:
            raise GraphTypeError("A py_func that is guarded or in loops has no results.")
        return (self.token(types, guarded, loops), *_declared(results))

    def act(self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Array, ...]:
        return call(attrs["function"], arrays, types)

    def onnx(self, e: Emitter, *arrays: str, function: str, results: tuple[str, ...] = (), **attrs: Any) -> str:
        # Nothing is computed from what has no results, so a model is whole without it.
        if results:
            raise _no_model(function)
        return ""


class Print(Effect):
    """Prints texts and arrays, each on lines of its own; `parts` are the texts, and None where an operand stands."""

    def infer(
        self, *types: Type, parts: tuple[str | None, ...], guarded: bool = False, loops: tuple[int, ...] = ()
    ) -> Type:
        if parts.count(None) != len(types) - guarded:
            text = f"print takes an operand for each of the {parts.count(None)} places, not {len(types) - guarded}."
            raise GraphTypeError(text)
        return self.token(types, guarded, loops)

    def act(self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Array, ...]:
        show_printed(attrs["parts"], arrays)
        return ()

    def onnx(self, e: Emitter, *arrays: str, **attrs: Any) -> str:
        return ""


def _no_model(function: str) -> GraphValueError:
    text = f"A model cannot hold {function!r}, which is Python; save a step that does not call it."
    return GraphValueError(text, getattr(function, "location", None))
