"""Higher-order functions: dispatch on the kinds of the arguments, and maps over pytrees of tensors.

They run while a cell is traced; the graph contains only the operations of the functions themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bound
from numbers import Number
from types import FunctionType
from typing import Any

import numpy as np

from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.rewriting.functions import in_trace
from graphls.ir.registry import nearest
from graphls.ops.arrays.creation import ones_like, zeros_like
from graphls.ops.arrays.scattering import RowTensor
from graphls.ops.gradients import GradOperation
from graphls.ops.linear_algebra.norms import clip_by_global_norm, clip_by_norm
from graphls.ops.math.elementwise import clip_by_value
from graphls.ops.primitive import Primitive
from graphls.ops.record import OPERATORS, operation

__all__ = [
    "GradOperation", "HyperMap", "Map", "MultitypeFuncGraph", "Partial", "clip_by_global_norm", "clip_by_norm",
    "clip_by_value", "ones_like", "partial", "zeros_like",
]  # fmt: skip

Function = Callable[..., Any]
Kind = type | tuple[type, ...]


class _Absent:
    """The kind of values that graphls has no class for."""


KINDS: dict[str, Kind] = {
    "Tensor": (Tensor, np.ndarray),
    "Parameter": Parameter,
    "Ref": Parameter,
    "Bool": bool,
    "Int": int,
    "Float": float,
    "Number": Number,
    "String": str,
    "Tuple": tuple,
    "List": list,
    "Dict": dict,
    "Dictionary": dict,
    "Slice": slice,
    "None": type(None),
    "Function": (FunctionType, Primitive),
    "Int64": int,
    "Float32": float,
    **dict.fromkeys(("Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32", "UInt64"), _Absent),
    **dict.fromkeys(("Float16", "BFloat16", "Float64"), _Absent),
    "RowTensor": RowTensor,
    "COOTensor": _Absent,
    "CSRTensor": _Absent,
    "MapTensor": _Absent,
}
"""The names of kinds, as MindSpore writes them.

Python numbers are of the kinds Int64 and Float32, as in MindSpore's graphs; nothing is a number of another dtype,
or a sparse tensor.
"""


@operation
class MultitypeFuncGraph:
    """A function with several implementations, chosen by the kinds of the arguments.

    `@name.register("Tensor", "Tensor")` adds a function for arguments of these kinds: names of `KINDS`, or classes. A
    call runs the function whose kinds fit best: of "Bool", "Int" and "Number", True takes the first. Raises
    GraphTypeError, with all that is registered, where no function fits.

    Examples:
        >>> from graphls import ops, tensor
        >>> double = ops.MultitypeFuncGraph("double")
        >>> @double.register("Tensor")
        ... def _double_tensor(x):
        ...     return x * 2
        >>> @double.register("Number")
        ... def _double_number(x):
        ...     return x + x
        >>> double(tensor([1.0])), double(3)
        (Tensor(shape=[1], dtype=Float32, value=[2.]), 6)
    """

    def __init__(self, name: str, read_value: bool = False, doc_url: str = "") -> None:
        if not isinstance(name, str):
            raise GraphTypeError(f"The name of a MultitypeFuncGraph is a string, not {name!r}.")
        self.name = name
        self.entries: dict[tuple[Any, ...], Function] = {}

    def register(self, *type_names: object) -> Callable[[Function], Function]:
        """Add the decorated function for arguments of these kinds, in place of an earlier one.

        Raises GraphKeyError for a name that is not a kind, GraphTypeError for anything but names and classes.
        """
        for kind in type_names:
            _check_kind(kind)

        def add(function: Function) -> Function:
            self.entries[type_names] = function
            return function

        return add

    def __call__(self, *args: Any) -> Any:
        distances = {kinds: _distances(kinds, args) for kinds in self.entries}
        fitting = {distance: self.entries[kinds] for kinds, distance in distances.items() if distance is not None}
        if not fitting:
            raise GraphTypeError(
                f"{self.name!r} has no function for {_listed(map(_kind_of, args))}; registered are "
                f"{', '.join(map(_listed, self.entries)) or 'none'}.",
            )
        return in_trace(fitting[min(fitting)])(*args)

    def __repr__(self) -> str:
        return f"MultitypeFuncGraph({self.name!r})"


def _check_kind(kind: Any) -> None:
    if isinstance(kind, str) and kind not in KINDS:
        message = f"There is no kind {kind!r}{nearest(kind, KINDS)}; the kinds are {', '.join(KINDS)}."
        raise GraphKeyError(message)
    if not isinstance(kind, (str, type)):
        raise GraphTypeError(f"A function is registered for names of kinds and classes, not {kind!r}.")


def _distances(kinds: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The distance of each argument's class from the registered kind; None where one does not fit."""
    if len(kinds) != len(args):
        return None
    classes = (KINDS[kind] if isinstance(kind, str) else kind for kind in kinds)
    distances = tuple(map(_distance, classes, args))
    return None if -1 in distances else distances


def _distance(kind: Kind, arg: TensorLike) -> int:
    """The number of base classes between an argument and a kind; -1 where it is not of that kind."""
    if not isinstance(arg, kind):
        return -1
    classes = kind if isinstance(kind, tuple) else (kind,)
    ancestors = type(arg).__mro__
    return min((ancestors.index(c) for c in classes if c in ancestors), default=len(ancestors))


def _kind_of(arg: TensorLike) -> str:
    distances = {name: _distance(kind, arg) for name, kind in KINDS.items()}
    fitting = {name: distance for name, distance in distances.items() if distance >= 0}
    return min(fitting, key=fitting.__getitem__) if fitting else type(arg).__name__


def _listed(kinds: Any) -> str:
    return f"({', '.join(kind if isinstance(kind, str) else kind.__name__ for kind in kinds)})"


@operation
class Map:
    """Applies a function to the elements of one sequence, or elementwise to those of several.

    `Map(function)(*sequences)` and `Map()(function, *sequences)` are the same. The result is a tuple, or a list of a
    list, or a dict of dicts. With `reverse` the last elements come first; their positions do not change. Raises
    GraphTypeError for anything but sequences, GraphValueError where the sequences differ.
    """

    nested = False

    def __init__(self, ops: Function | None = None, reverse: bool = False) -> None:
        if ops is not None and not callable(ops):
            raise GraphTypeError(f"{type(self).__name__} takes a function, not {ops!r}.")
        self.ops = ops
        self.reverse = reverse

    def __call__(self, *args: Any) -> Any:
        function, pytrees = (self.ops, args) if self.ops is not None else (args[0] if args else None, args[1:])
        if not callable(function) or not pytrees:
            name = type(self).__name__
            raise GraphTypeError(f"{name} takes a function and the sequences to apply it to.")
        if _keys(pytrees[0]) is None and not self.nested:
            raise GraphTypeError(f"Map takes sequences, not {pytrees[0]!r}.")
        return self._mapped(in_trace(function), pytrees)

    def _mapped(self, function: Function, pytrees: tuple[Any, ...]) -> Any:
        keys = _keys(pytrees[0])
        if any(_keys(pytree) != keys for pytree in pytrees):
            raise GraphValueError(_differing(type(self).__name__, pytrees))
        if keys is None:
            return function(*pytrees)
        inner = partial(self._mapped, function) if self.nested else lambda items: function(*items)
        order = list(keys)[::-1] if self.reverse else keys
        results = {key: inner(tuple(pytree[key] for pytree in pytrees)) for key in order}
        return _like(pytrees[0], [results[key] for key in keys])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.ops is None else self.ops})"


@operation
class HyperMap(Map):
    """Applies a function to all leaves of nested tuples, lists and dicts, or to those of several pytrees.

    As Map, but descends into pytrees inside of pytrees, and calls the function itself with anything but a pytree.
    """

    nested = True


def _keys(item: object) -> Any:
    """The keys or indices of a pytree's elements; None for anything but a pytree."""
    if isinstance(item, dict):
        return item.keys()
    return range(len(item)) if isinstance(item, (tuple, list)) else None


def _like(pytree: TensorLike, results: list[Any]) -> Any:
    if isinstance(pytree, dict):
        return dict(zip(pytree, results, strict=True))
    if isinstance(pytree, tuple):
        return type(pytree)(*results) if hasattr(pytree, "_fields") else tuple(results)
    return results


def _differing(name: str, pytrees: tuple[Any, ...]) -> str:
    shown = [f"{type(n).__name__} of {len(n)}" if _keys(n) is not None else _kind_of(n) for n in pytrees]
    return f"{name} takes pytrees of one structure, and these differ: {', '.join(shown)}."


@operation
class Partial(Primitive):
    """`Partial()(function, *arguments)` is the function with its first arguments bound."""

    def __call__(self, func: Any, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        return partial(func, *args, **options)

    def __repr__(self) -> str:
        return "Partial()"


OPERATORS.makers["Partial"] = lambda: Partial


@operation
def partial(func: Any, *args: object, **options: object) -> Any:
    """The function with its first arguments bound; raises GraphTypeError for something that is not callable."""
    if not callable(func):
        raise GraphTypeError(f"partial takes a function and its first arguments, not {func!r}.")
    return bound(func, *args, **options)
