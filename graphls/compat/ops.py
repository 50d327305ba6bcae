"""Names of `mindspore.ops` that graphls has under another name, or that mean little where Python is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ops.primitive import (
    Primitive,
    PrimitiveWithCheck,
    PrimitiveWithInfer,
    prim_arg_register,
    prim_attr_register,
)
from graphls.tensors.tensor import Tensor

__all__ = [
    "Primitive",
    "PrimitiveWithCheck",
    "PrimitiveWithInfer",
    "_get_cache_prim",
    "_primexpr",
    "add_flags",
    "constexpr",
    "core",
    "is_tensor",
    "prim_arg_register",
    "prim_attr_register",
]


def constexpr(
    fn: Callable[..., Any] | None = None,
    get_instance: bool = True,
    name: str | None = None,
    reuse_result: bool = True,
    check: bool = True,
) -> Any:
    """The function itself, `@constexpr` or `@constexpr(...)`: what it computes of constants is a constant."""
    return (lambda function: function) if fn is None else fn


_primexpr = constexpr


def add_flags(fn: Callable[..., Any] | None = None, **flags: object) -> Any:
    """The function itself, `@add_flags(...)`, with the flags as its attribute `_func_graph_flags`."""

    def marked(function: Callable[..., Any]) -> Callable[..., Any]:
        vars(function).setdefault("_func_graph_flags", {}).update(flags)
        return function

    return marked if fn is None else marked(fn)


def core(fn: Callable[..., Any] | None = None, **flags: object) -> Any:
    """The function itself, `@core` or `@core(...)`."""
    return add_flags(fn, core=True, **flags)


def _get_cache_prim(cls: type[Primitive]) -> type[Primitive]:
    """The class itself: making an operator costs nothing."""
    return cls


def is_tensor(obj: object) -> bool:
    """Whether something is a tensor."""
    return isinstance(obj, Tensor)
