"""Elements in order: the largest, the smallest, all of them.

Of equal ones the first comes first, and nan counts as infinity. Gradients flow through the elements, not through their
positions.
"""

from __future__ import annotations

from graphls.ir.checks import integer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import bool_, int32
from graphls.ops import shapes
from graphls.ops.elementwise import cast
from graphls.ops.operands import axis_of, tensor_of
from graphls.ops.record import operation, operator_class
from graphls.ops.shapes import cut, squeeze
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor, TensorLike


@operation(classes="TopK", settings="sorted")
def topk(
    input: TensorLike, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k largest, or smallest, elements along an axis (the last without), in order, and their int32 positions.

    They are in order also where `sorted` does not ask for it. Raises GraphTypeError for a k that is no integer,
    GraphValueError for one that is more than there are elements.
    """
    x = tensor_of(input)
    if isinstance(k, bool) or not isinstance(k, int):
        raise GraphTypeError(f"topk takes an integer as 'k', not {k!r}.")
    return _ordered(x, k, -1 if dim is None else dim, largest)


def _ordered(x: Tensor, k: int | None, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    if not x.ndim:
        raise GraphValueError("There is no order in a number; sort a tensor with axes.")
    at = axis_of(axis, x.ndim)
    numbers = cast(x, int32) if x.dtype is bool_ else x
    count = x.shape[at] if k is None else k
    values, positions = dispatch.apply("top_k", numbers, k=count, axis=at, largest=bool(largest))
    return cast(values, x.dtype) if x.dtype is bool_ else values, cast(positions, int32)


@operation(classes="Sort", settings="axis descending")
def sort(input_x: TensorLike, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The elements along an axis in order, the smallest first, or the largest, and their int32 positions."""
    return _ordered(tensor_of(input_x), None, axis, descending)


@operation
def argsort(input: TensorLike, axis: int = -1, descending: bool = False) -> Tensor:
    """The int32 positions of the elements along an axis in order, the smallest first, or the largest."""
    return sort(input, axis, descending)[1]


@operation
def msort(input: TensorLike) -> Tensor:
    """The elements along the first axis in order, the smallest first."""
    return sort(input, 0)[0]


@operation
def kthvalue(input: TensorLike, k: int, axis: int = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along an axis, counted from 1, and its int32 position.

    Raises GraphValueError for a k below 1 or above the number of elements.
    """
    x = tensor_of(input)
    at = axis_of(axis, x.ndim)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= x.shape[at]:
        message = f"kthvalue takes a 'k' from 1 to the {x.shape[at]} elements along axis {axis}, not {k!r}."
        raise GraphValueError(message)
    found = [cut(t, at, k - 1, k) for t in _ordered(x, k, axis, False)]
    values, positions = found if keepdims else (squeeze(t, at) for t in found)
    return values, positions


@operator_class("NthElement", "reverse")
def _nth_element(input: TensorLike, n: TensorLike, reverse: bool = False) -> Tensor:
    """The number that n others along the last axis are below, or above with `reverse`.

    Raises GraphValueError for an n out of range.
    """
    x = tensor_of(input)
    place = integer("NthElement", "n", tensor_of(n).item())
    if not x.ndim or not 0 <= place < x.shape[-1]:
        raise GraphValueError(f"NthElement has no element {place} along the last axis of {x.type}.")
    return shapes.gather(sort(x, -1, bool(reverse))[0], place, -1)
