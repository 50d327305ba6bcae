"""What is known of a tensor without its data: Python objects, also while a cell is traced."""

from __future__ import annotations

from typing import Any

from graphls.ir.types import DType
from graphls.ops.operands import tensor_of

__all__ = ["dtype", "rank", "shape", "size"]


def shape(x: Any) -> tuple[int, ...]:
    """The sizes of the axes."""
    return tensor_of(x).shape


def dtype(x: Any) -> DType:
    """The element type; that of a parameter in a cell with `to_float` is the one it computes in."""
    return tensor_of(x).dtype


def rank(x: Any) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


def size(x: Any) -> int:
    """The number of elements."""
    return tensor_of(x).size
