"""Names of `mindspore.ops` for constant functions, flags, signatures and registration of operators."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from graphls.base.errors import GraphAttributeError
from graphls.frontend.tensors.tensor import Tensor
from graphls.ops.primitive import (
    Primitive,
    PrimitiveWithCheck,
    PrimitiveWithInfer,
    prim_arg_register,
    prim_attr_register,
)

__all__ = [
    "AiCPURegOp", "CpuRegOp", "CustomRegOp", "Primitive", "PrimitiveWithCheck", "PrimitiveWithInfer", "TBERegOp",
    "_get_cache_prim", "_primexpr", "add_flags", "constexpr", "core", "is_tensor", "make_sig", "prim_arg_register",
    "prim_attr_register",
]  # fmt: skip


def constexpr(
    fn: Callable[..., Any] | None = None, get_instance: bool = True, name: str | None = None, reuse_result: bool = True,
    check: bool = True,
) -> Any:  # fmt: skip
    """The function itself, `@constexpr` or `@constexpr(...)`: tracing evaluates it on constants."""
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
    """The class itself: the creation of an operator needs no cache."""
    return cls


def make_sig(
    name: str = "var", rw: object = None, kind: object = None, default: object = None, dtype: object = None
) -> SimpleNamespace:
    """The signature of an input of a script's operator, such as its name and dtype; it has no effect."""
    return SimpleNamespace(name=name, rw=rw, kind=kind, default=default, dtype=dtype)


class CustomRegOp:
    """The registration of a script's own operator: every method records its arguments and returns the object."""

    def __init__(self, op_name: str = "Custom") -> None:
        self._info: dict[str, Any] = {"op_name": op_name}

    def __getattr__(self, name: str) -> Callable[..., CustomRegOp]:
        if name.startswith("_"):
            raise GraphAttributeError(f"A {type(self).__name__} has no {name!r}.")
        return lambda *args, **options: self._with(name, (*args, *options.values()))

    def _with(self, name: str, values: tuple[Any, ...]) -> CustomRegOp:
        self._info.setdefault(name, []).append(values)
        return self

    def get_op_info(self) -> dict[str, Any]:
        """The recorded arguments, by the names of the methods."""
        return {"fusion_type": "OPAQUE", **self._info}


AiCPURegOp = CpuRegOp = TBERegOp = CustomRegOp


def is_tensor(obj: object) -> bool:
    """Tells whether an object is a tensor."""
    return isinstance(obj, Tensor)
