"""Names of `mindspore.ops` that graphls has under another name, or that mean little where Python is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls import ops
from graphls.tensor import Tensor

RENAMED = {
    "FastGelu": "FastGeLU",
    "Gelu": "GeLU",
    "TensorAdd": "Add",
}
"""Operators of MindSpore 1.0 by their later names."""

__all__ = ["constexpr", "is_tensor", *RENAMED]


def constexpr(
    fn: Callable[..., Any] | None = None,
    get_instance: bool = True,
    name: str | None = None,
    reuse_result: bool = True,
    check: bool = True,
) -> Any:
    """The function itself, `@constexpr` or `@constexpr(...)`: what it computes of constants is a constant."""
    return (lambda function: function) if fn is None else fn


def is_tensor(obj: Any) -> bool:
    """Whether something is a tensor."""
    return isinstance(obj, Tensor)


def __getattr__(name: str) -> Any:
    if name not in RENAMED:
        raise AttributeError(name)
    return getattr(ops, RENAMED[name])
