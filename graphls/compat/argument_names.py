"""Wraps functions to accept the argument names of PyTorch, for `mindspore.mint`, or NumPy, for `mindspore.numpy`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any

from graphls.base.errors import GraphAttributeError
from graphls.frontend.tensors.tensor import TensorLike
from graphls.ir.registry import nearest
from graphls.ops.record import ALSO, FUNCTIONS

SPELLINGS = {
    "dim": ("dim", "axis", "dims"),
    "dims": ("dims", "axis"),
    "keepdim": ("keepdim", "keepdims", "keep_dims"),
    "end_dim": ("end_dim",),
}
POSITIONS = {"input": 0, "A": 0, "self": 0, "other": 1, "mat2": 1, "vec2": 1, "exponent": 1}


NUMPY_SPELLINGS = {"axis": ("dims", "dim"), "axes": ("perm", "input_perm", "dims", "axis"), "k": ("diagonal",)}


@cache
def with_numpy_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with NumPy's argument names and a `dtype` for its result."""
    names = inspect.signature(function).parameters

    @wraps(function)
    def called(*args: TensorLike, **options: object) -> Any:
        dtype = options.pop("dtype", None) if "dtype" not in names else None
        others = {key: next((o for o in NUMPY_SPELLINGS.get(key, ()) if o in names), key) for key in options}
        renamed = {key if key in names else others[key]: value for key, value in options.items()}
        result = function(*args, **renamed)
        return result if dtype is None else FUNCTIONS["cast"](result, dtype)

    return called


def with_torch_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with PyTorch's argument names besides its own; positions stay the same."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def called(*args: TensorLike, **options: object) -> Any:
        renamed = {}
        for name, value in options.items():
            if name in names:
                renamed[name] = value
            elif name in SPELLINGS:
                renamed[next((other for other in SPELLINGS[name] if other in names), name)] = value
            elif name in POSITIONS and len(args) <= POSITIONS[name] < len(names):
                renamed[names[POSITIONS[name]]] = value
            else:
                renamed[name] = value
        return function(*args, **renamed)

    return called


def offering(path: str, own: Iterable[str] = (), same: Iterable[str] = ()) -> tuple[Callable[[str], Any], list[str]]:
    """`__getattr__` and `__all__` of a module of graphls that provides the names of one of MindSpore.

    The module has functions of its `own`, those whose records name it, and the `same` as `graphls.ops` has.
    """
    functions = {**{name: FUNCTIONS[name] for name in same}, **ALSO[path]}
    names = sorted({*functions, *own})

    @cache
    def get(name: str) -> Any:
        if name not in functions:
            hint = "" if name.startswith("__") else nearest(name, names)
            raise GraphAttributeError(f"graphls does not offer mindspore.{path}.{name}{hint}.")
        return with_torch_names(functions[name])

    return get, names
