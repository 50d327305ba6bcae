"""What is known of a tensor without its data: Python objects, also while a cell is traced."""

from __future__ import annotations

from typing import Any

from graphls.ir.types import DType
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation, tensor_method
from graphls.tensors.tensor import Tensor


@operation(classes="Shape", method=False)
def shape(x: Any) -> tuple[int, ...]:
    """The sizes of the axes."""
    return tensor_of(x).shape


@operation(classes="DType", method=False)
def dtype(x: Any) -> DType:
    """The element type; that of a parameter in a cell with `to_float` is the one it computes in."""
    return tensor_of(x).dtype


@operation(classes="Rank")
def rank(x: Any) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


@operation(classes="Size", method=False)
def size(x: Any) -> int:
    """The number of elements."""
    return tensor_of(x).size


@tensor_method()
def dim(x: Any) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


@tensor_method()
def ndimension(x: Any) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


@tensor_method()
def nelement(x: Any) -> int:
    """The number of elements."""
    return tensor_of(x).size


@tensor_method()
def numpy(x: Any) -> Any:
    """The data as a NumPy array; waits for the step that makes it."""
    return x.asnumpy()


@tensor_method()
def clone(x: Any) -> Tensor:
    """A tensor with the same data."""
    copy: Tensor = x.copy()
    return copy


@tensor_method()
def contiguous(x: Any) -> Any:
    """The tensor itself: its elements are in order in memory."""
    return x
