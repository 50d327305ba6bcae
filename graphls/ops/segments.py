"""Sums, products and extremes of the slices that have the same number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.ir.checks import integer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DType, bool_, int64
from graphls.ops.arithmetic import largest_number
from graphls.ops.creation import full
from graphls.ops.elementwise import cast
from graphls.ops.joins import OF_SLICES
from graphls.ops.logic import greater_equal, less, logical_or, where
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import cut, reshape
from graphls.tensors.tensor import Tensor


@operation(classes="UnsortedSegmentSum")
def unsorted_segment_sum(input_x: Any, segment_ids: Any, num_segments: Any) -> Tensor:
    """The sums of the slices of x that have the same number, one for each number below `num_segments`.

    `segment_ids` are integers for the first axes of x, or all of them; a slice with any other number is left out, and
    the sum of none is 0. Raises GraphTypeError for other dtypes, GraphValueError for other shapes.
    """
    return _joined("unsorted_segment_sum", "add", input_x, segment_ids, num_segments, lambda dtype: 0)


@operation(classes="UnsortedSegmentProd")
def unsorted_segment_prod(x: Any, segment_ids: Any, num_segments: Any) -> Tensor:
    """The products of the slices that have the same number, 1 for none; see `unsorted_segment_sum`."""
    return _joined("unsorted_segment_prod", "mul", x, segment_ids, num_segments, lambda dtype: 1)


@operation(classes="UnsortedSegmentMax")
def unsorted_segment_max(x: Any, segment_ids: Any, num_segments: Any) -> Tensor:
    """The largest elements of the slices that have the same number, for none the least number of the dtype.

    Otherwise as `unsorted_segment_sum`.
    """
    return _joined("unsorted_segment_max", "max", x, segment_ids, num_segments, lambda dtype: _limits(dtype)[0])


@operation(classes="UnsortedSegmentMin")
def unsorted_segment_min(x: Any, segment_ids: Any, num_segments: Any) -> Tensor:
    """The smallest elements of the slices that have the same number, for none the largest number of the dtype.

    Otherwise as `unsorted_segment_sum`.
    """
    return _joined("unsorted_segment_min", "min", x, segment_ids, num_segments, lambda dtype: _limits(dtype)[1])


def _limits(dtype: DType) -> tuple[Any, Any]:
    if dtype.is_float:
        return -largest_number(dtype), largest_number(dtype)
    return np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max


def _joined(name: str, join: str, x: Any, segment_ids: Any, num_segments: Any, start: Callable[[DType], Any]) -> Tensor:
    x, numbers = tensor_of(x), tensor_of(segment_ids)
    count = integer(name, "num_segments", num_segments.item() if isinstance(num_segments, Tensor) else num_segments)
    _check(name, x, numbers, count)
    inner = x.shape[numbers.ndim :]
    is_other = logical_or(less(numbers, 0), greater_equal(numbers, count))
    places = reshape(cast(where(is_other, count, numbers), int64), (-1,))
    begin = full((count + 1, *inner), Tensor(start(x.dtype), x.dtype))
    slices = reshape(x, (numbers.size, *inner))
    return cut(OF_SLICES[join](begin, places, slices, 0) if x.size else begin, 0, 0, count)


def _check(name: str, x: Tensor, numbers: Tensor, count: int) -> None:
    if numbers.dtype.kind not in ("int", "uint") or x.dtype is bool_:
        message = f"{name} takes numbers and integers that name segments, not {x.type} and {numbers.type}."
        raise GraphTypeError(message)
    if not numbers.ndim or x.shape[: numbers.ndim] != numbers.shape or count < 1:
        message = f"{name} cannot make {count} segments of {x.type} by numbers {numbers.type}."
        raise GraphValueError(message)
