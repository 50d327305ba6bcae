"""Host calls: primitives that call Python functions with arrays in the middle of a step."""

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
    """The name of a function in the text of a graph, with the function itself and the line that calls it.

    A parsed graph has only the name.
    """

    __slots__ = ("function", "location")

    function: Callable[..., Any]
    location: Location | None

    def __new__(cls, name: str, function: Callable[..., Any], location: Location | None = None) -> HostFunction:
        name_with_function = super().__new__(cls, name)
        name_with_function.function, name_with_function.location = function, location
        return name_with_function

    def __deepcopy__(self, memo: Mapping[int, object]) -> HostFunction:
        return self  # copies of a step call the same function, whatever object it is a method of


def call(name: str, arrays: tuple[Array, ...], types: tuple[Type, ...]) -> tuple[Array, ...]:
    """Call a function with read-only arrays; returns its results as arrays of these types, which may be its own.

    Its exceptions propagate unchanged. Raises GraphRuntimeError for an unknown function, and GraphTypeError and
    GraphValueError, with the line of the call, where its results are not of these types.
    """
    if not isinstance(name, HostFunction):
        raise GraphRuntimeError(
            f"The function {name!r} is not known: a graph from a text has only its name; trace the step again."
        )
    returned = name.function(*map(_read_only, arrays))
    results = returned if isinstance(returned, (tuple, list)) else () if returned is None and not types else (returned,)
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


def _fitted(name: HostFunction, result: object, declared: Type) -> Array:
    """A result as an array; Python numbers take the declared type."""
    if isinstance(result, (bool, int, float)) and not isinstance(result, np.generic):
        kinds = {bool: ("bool", "int", "uint", "float"), int: ("int", "uint", "float"), float: ("float",)}
        if not declared.shape and declared.dtype.kind in kinds[type(result)]:
            return _number(name, result, declared)
    try:
        array = np.asarray(result)
        kind = type_of(array)
    except (GraphTypeError, ValueError):
        text = f"{name} gives {type(result).__name__} where {declared} is declared."
        raise GraphTypeError(text, name.location) from None
    if kind != declared:
        error = GraphTypeError if kind.dtype is not declared.dtype else GraphValueError
        raise error(f"{name} gives {kind} where {declared} is declared; declare that or convert it.", name.location)
    return array


def _number(name: HostFunction, result: float, declared: Type) -> Array:
    try:
        return np.array(result, declared.dtype.numpy)
    except OverflowError:
        text = f"{name} gives {result}, which does not fit the {declared} that is declared."
        raise GraphValueError(text, name.location) from None


def _declared(results: tuple[str, ...]) -> tuple[Type, ...]:
    types = tuple(map(parse_type, results))
    if any(t == TOKEN or t.stacked for t in types):
        raise GraphTypeError(f"A function gives arrays, not {', '.join(results)}.")
    return types


class HostCall(Primitive, abstract=True):
    """A call of a Python function with arrays."""

    half = "native"
    calls_python = True

    def run(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        """The results, which may be arrays that the function owns: copy them to keep them beyond the next call."""
        raise NotImplementedError

    def evaluate(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        return tuple(np.array(result) for result in self.run(arrays, attrs, types))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """Unknown, so 0."""
        return 0


class PureCallback(HostCall):
    """The results of a Python function without effects; `results` are their types.

    It may be called any number of times, or not at all.
    """

    def infer(self, *types: Type, function: str, results: tuple[str, ...]) -> tuple[Type, ...]:
        return _declared(results)

    def run(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        return call(attrs["function"], arrays, types)

    def onnx(self, e: Emitter, *arrays: str, function: str, results: tuple[str, ...]) -> Any:
        raise _no_model(function)


class Effect(HostCall, abstract=True):
    """A host call with effects, once in each step. With `guarded`, only where its first operand is true.

    `loops` are the iteration counts of the loops around it: it then runs once per iteration, on rows of its operands.
    """

    has_effect = True

    def token(self, types: tuple[Type, ...], guarded: bool, loops: tuple[int, ...]) -> Type:
        """The type of the first result; raises GraphTypeError where the guard is not a bool, or rows are missing."""
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
        """Perform the effect; returns the results after the token."""
        raise NotImplementedError


_DONE = np.zeros((), np.int32)


class PyFunc(Effect):
    """The results of a Python function with effects, after a token; `results` are their types."""

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
        # Without results nothing depends on it, so the model is complete without it.
        if results:
            raise _no_model(function)
        return ""


class Print(Effect):
    """Prints texts and arrays, each on its own lines; `parts` are the texts, with None in place of each operand."""

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
