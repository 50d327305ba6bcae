"""Segment reductions: sums, products, means and extremes of slices with the same segment number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.checks import integer
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import DType, bool_, int32, int64
from graphls.ops.arrays.creation import full, ones, zeros
from graphls.ops.arrays.joins import OF_SLICES
from graphls.ops.arrays.scattering import tensor_scatter_add
from graphls.ops.arrays.selection import known
from graphls.ops.arrays.shapes import cut, gather, reshape
from graphls.ops.math.elementwise import (
    cast,
    largest_number,
    maximum,
    where,
)
from graphls.ops.operands import ShapeLike, float_of, in_single, tensor_of
from graphls.ops.record import operation, operator_class


@operation(classes="UnsortedSegmentSum")
def unsorted_segment_sum(input_x: Any, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """The sums of the slices of x with the same segment number, one for each number below `num_segments`.

    `segment_ids` are integers for the first axes of x, or all of them; slices with any other number are ignored, and
    an empty sum is 0. Raises GraphTypeError for other dtypes, GraphValueError for other shapes.
    """
    return _joined("unsorted_segment_sum", "add", input_x, segment_ids, num_segments, lambda dtype: 0)


@operation(classes="UnsortedSegmentProd")
def unsorted_segment_prod(x: TensorLike, segment_ids: TensorLike, num_segments: TensorLike) -> Tensor:
    """The products of the slices with the same segment number, 1 for none; see `unsorted_segment_sum`."""
    return _joined("unsorted_segment_prod", "mul", x, segment_ids, num_segments, lambda dtype: 1)


@operation(classes="UnsortedSegmentMax")
def unsorted_segment_max(x: TensorLike, segment_ids: TensorLike, num_segments: TensorLike) -> Tensor:
    """The largest elements of the slices with the same segment number, for none the least number of the dtype.

    Otherwise as `unsorted_segment_sum`.
    """
    return _joined("unsorted_segment_max", "max", x, segment_ids, num_segments, lambda dtype: _limits(dtype)[0])


@operation(classes="UnsortedSegmentMin")
def unsorted_segment_min(x: TensorLike, segment_ids: TensorLike, num_segments: TensorLike) -> Tensor:
    """The smallest elements of the slices with the same segment number, for none the largest number of the dtype.

    Otherwise as `unsorted_segment_sum`.
    """
    return _joined("unsorted_segment_min", "min", x, segment_ids, num_segments, lambda dtype: _limits(dtype)[1])


def _limits(dtype: DType) -> tuple[Any, Any]:
    if dtype.is_float:
        return -largest_number(dtype), largest_number(dtype)
    return np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max


def _joined(
    name: str, join: str, x: TensorLike, segment_ids: TensorLike, num_segments: TensorLike,
    start: Callable[[DType], Any],
) -> Tensor:  # fmt: skip
    x, numbers = tensor_of(x), tensor_of(segment_ids)
    count = integer(name, "num_segments", num_segments.item() if isinstance(num_segments, Tensor) else num_segments)
    _check(name, x, numbers, count)
    inner = x.shape[numbers.ndim :]
    is_other = (numbers < 0) | (numbers >= count)
    positions = reshape(cast(where(is_other, count, numbers), int64), (-1,))
    begin = full((count + 1, *inner), Tensor(start(x.dtype), x.dtype))
    slices = reshape(x, (numbers.size, *inner))
    return cut(OF_SLICES[join](begin, positions, slices, 0) if x.size else begin, 0, 0, count)


def _check(name: str, x: Tensor, numbers: Tensor, count: int) -> None:
    if numbers.dtype.kind not in ("int", "uint") or x.dtype is bool_:
        message = f"{name} takes numbers and integers that name segments, not {x.type} and {numbers.type}."
        raise GraphTypeError(message)
    if not numbers.ndim or x.shape[: numbers.ndim] != numbers.shape or count < 1:
        message = f"{name} cannot make {count} segments of {x.type} by numbers {numbers.type}."
        raise GraphValueError(message)


Joined = Callable[[Any, Any, Any], Tensor]


def _sorted_numbers(name: str, segment_ids: TensorLike) -> tuple[Tensor, int]:
    """Constant, ascending segment numbers, and the number of segments.

    Raises GraphTypeError and GraphValueError for others.
    """
    numbers = known(name, segment_ids)
    rising = numbers.array
    is_vector = rising.ndim == 1 and rising.size and numbers.dtype.kind in ("int", "uint")
    if not is_vector or rising[0] < 0 or (rising[1:] < rising[:-1]).any():
        message = f"{name} takes a vector of rising integers of 0 or more as segments, not {numbers.type}."
        raise GraphValueError(message)
    return numbers, int(rising[-1]) + 1


def _by_segments(name: str, joined: Joined, empty: int, what: str) -> Callable[..., Any]:
    def segmented(input_x: TensorLike, segment_ids: TensorLike) -> Tensor:
        numbers, count = _sorted_numbers(name, segment_ids)
        result = joined(input_x, numbers, count)
        sizes = reshape(_sizes(numbers, count), (-1, *(1 for _ in result.shape[1:])))
        return where(sizes > 0, result, full((), empty, dtype=result.dtype))

    segmented.__doc__ = f"""{what} of the slices along the first axis with the same segment number, {empty} for none.

    The numbers are constant, because they determine the number of results, and ascending. Raises GraphTypeError and
    GraphValueError for others.
    """
    return segmented


def _sizes(numbers: Tensor, count: int) -> Tensor:
    return unsorted_segment_sum(ones(numbers.shape, int32), numbers, count)


def _means(x: TensorLike, numbers: Any, count: Any) -> Tensor:
    sums = unsorted_segment_sum(x, numbers, count)
    sizes = reshape(maximum(_sizes(numbers, count), 1), (-1, *(1 for _ in sums.shape[1:])))
    return sums / cast(sizes, sums.dtype)


@operator_class("Bincount")
def _bincount(array: TensorLike, size: ShapeLike, weights: TensorLike) -> Tensor:
    """The sums of the weights, or the counts without weights, of each integer below `size`; others do not count."""
    x, counted = tensor_of(array), tensor_of(weights)
    counted = counted if counted.size or not x.size else ones(x.shape, counted.dtype)
    return unsorted_segment_sum(reshape(counted, (-1,)), reshape(x, (-1,)), size)


for _name, _function, _empty, _what in (
    ("SegmentMax", unsorted_segment_max, 0, "The largest elements"),
    ("SegmentMean", _means, 0, "The means"),
    ("SegmentMin", unsorted_segment_min, 0, "The smallest elements"),
    ("SegmentProd", unsorted_segment_prod, 1, "The products"),
    ("SegmentSum", unsorted_segment_sum, 0, "The sums"),
):
    operator_class(_name)(_by_segments(_name, _function, _empty, _what))


@operation
def sparse_segment_mean(x: TensorLike, indices: TensorLike, segment_ids: TensorLike) -> Tensor:
    """The means of the slices of x at indices along its first axis, by segments; 0 for empty segments.

    The segment ids, one for each index, ascend from 0; the last one determines the number of segments. Raises
    GraphValueError for others, GraphTypeError for ids that the graph computes.
    """
    x, positions, segments = float_of(x), tensor_of(indices), tensor_of(segment_ids)
    if isinstance(segments, Symbol):
        raise GraphTypeError("The segment ids of sparse_segment_mean must be constant.")
    ids = segments.array
    if ids.ndim != 1 or positions.shape != ids.shape or np.any(np.diff(ids, prepend=0) < 0):
        message = f"sparse_segment_mean takes a rising segment id for each of the indices {positions.type}, not {ids}."
        raise GraphValueError(message)
    if not x.ndim:
        raise GraphValueError(f"sparse_segment_mean takes slices of a tensor, not {x.type}.")
    return in_single(lambda x: _means_operator(x, positions, ids), x)


def _means_operator(x: Tensor, positions: Tensor, ids: Any) -> Tensor:
    counts = np.maximum(np.bincount(ids), 1).astype(x.dtype.numpy)
    totals = zeros((counts.size, *x.shape[1:]), x.dtype)
    if ids.size:
        totals = tensor_scatter_add(totals, Tensor(ids.reshape(-1, 1)), gather(x, positions))
    return totals / Tensor(counts.reshape(-1, *(1 for _ in x.shape[1:])))
