"""`mindspore._extends.parse.standard_method`: methods of tensors and numbers as functions."""

from __future__ import annotations

from typing import Any

from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ops.operands import tensor_of

__all__ = ["bool_", "enumerate_", "hasnext", "ms_len", "ms_max", "ms_min", "ms_sum", "size_", "while_cond"]


def bool_(x: TensorLike) -> Any:
    """The truth value of an object, for a tensor that of its one element."""
    return (tensor_of(x) != 0).reshape(()) if is_tensor(x) else bool(x)


while_cond = bool_


def ms_len(x: Tensor) -> int:
    """The number of items; for a tensor, the size of its first axis."""
    return len(x)


def ms_sum(*args: Tensor) -> Any:
    """The sum of items."""
    return sum(*args)


def ms_max(*args: Tensor) -> Any:
    """The largest item."""
    return max(*args)


def ms_min(*args: Tensor) -> Any:
    """The smallest item."""
    return min(*args)


def enumerate_(xs: Tensor, start: int = 0) -> tuple[tuple[int, Any], ...]:
    """Pairs of numbers and items."""
    return tuple(enumerate(xs, start))


def hasnext(items: Tensor) -> bool:
    """Tells whether there are any items."""
    return len(items) > 0


def size_(x: TensorLike) -> int:
    """The number of elements."""
    return int(tensor_of(x).size)
