"""Operator classes that join the slices of one number, and that count (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.checks import integer
from graphls.ir.errors import GraphValueError
from graphls.ir.types import DType, as_dtype, int32, int64
from graphls.ops import segments, statistics
from graphls.ops.creation import full, ones
from graphls.ops.elementwise import add, cast, div, maximum, mul
from graphls.ops.logic import equal, greater, greater_equal, less_equal, logical_and, where
from graphls.ops.operands import tensor_of
from graphls.ops.record import operator_class
from graphls.ops.reductions import sum
from graphls.ops.selection import known
from graphls.ops.shapes import reshape
from graphls.tensors.tensor import Tensor

Joined = Callable[[Any, Any, Any], Tensor]


def _sorted_numbers(name: str, segment_ids: Any) -> tuple[Tensor, int]:
    """Numbers of segments that are known and rise, and how many segments there are.

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
    def segmented(input_x: Any, segment_ids: Any) -> Tensor:
        numbers, count = _sorted_numbers(name, segment_ids)
        found = joined(input_x, numbers, count)
        sizes = reshape(_sizes(numbers, count), (-1, *(1 for _ in found.shape[1:])))
        return where(greater(sizes, 0), found, full((), empty, dtype=found.dtype))

    segmented.__doc__ = f"""{what} of the slices along the first axis that have the same number, {empty} for none.

    The numbers are known, because they say how many results there are, and rise. Raises GraphTypeError and
    GraphValueError for others.
    """
    return segmented


def _sizes(numbers: Tensor, count: int) -> Tensor:
    return segments.unsorted_segment_sum(ones(numbers.shape, int32), numbers, count)


def _means(x: Any, numbers: Any, count: Any) -> Tensor:
    sums = segments.unsorted_segment_sum(x, numbers, count)
    sizes = reshape(maximum(_sizes(numbers, count), 1), (-1, *(1 for _ in sums.shape[1:])))
    return div(sums, cast(sizes, sums.dtype))


@operator_class("Bincount")
def _bincount(array: Any, size: Any, weights: Any) -> Tensor:
    """The sums of the weights, or counts for none, of each integer below `size`; others do not count."""
    x, counted = tensor_of(array), tensor_of(weights)
    counted = counted if counted.size or not x.size else ones(x.shape, counted.dtype)
    return segments.unsorted_segment_sum(reshape(counted, (-1,)), reshape(x, (-1,)), size)


@operator_class("ConfusionMatrix", "num_classes dtype")
def _confusion_matrix(
    labels: Any, predictions: Any, weights: Any = None, *, num_classes: int, dtype: Any = "int32"
) -> Tensor:
    """How often each class (row) was predicted as each (column), or the sums of weights; classes are below a number.

    Raises GraphTypeError and GraphValueError for other dtypes and shapes.
    """
    count = integer("ConfusionMatrix", "num_classes", num_classes)
    rows, columns = tensor_of(labels), tensor_of(predictions)
    kind: DType = as_dtype(dtype)
    counted = ones(rows.shape, kind) if weights is None else cast(weights, kind)
    if rows.ndim != 1 or columns.shape != rows.shape or counted.shape != rows.shape or count < 1:
        message = f"ConfusionMatrix takes vectors of one size, not {rows.type}, {columns.type} and {counted.type}."
        raise GraphValueError(message)
    inside = logical_and(greater_equal(columns, 0), less_equal(columns, count - 1))
    places = where(inside, add(mul(rows, count), columns), -1)
    return reshape(segments.unsorted_segment_sum(counted, places, count * count), (count, count))


@operator_class("CountNonZero", "dims", like=statistics.count_nonzero)
def _count_nonzero(x: Any, dims: Any = None) -> Tensor:
    return statistics.count_nonzero(x, () if dims is None else dims, dtype=int64)


@operator_class("EqualCount")
def _equal_count(x: Any, y: Any) -> Tensor:
    """How many elements of two tensors of one shape are equal, as a vector of one int32."""
    first, second = tensor_of(x), tensor_of(y)
    if first.shape != second.shape:
        message = f"EqualCount takes tensors of one shape, not {first.type} and {second.type}."
        raise GraphValueError(message)
    return reshape(sum(cast(equal(first, second), int32)), (1,))


for _name, _joined, _empty, _what in (
    ("SegmentMax", segments.unsorted_segment_max, 0, "The largest elements"),
    ("SegmentMean", _means, 0, "The means"),
    ("SegmentMin", segments.unsorted_segment_min, 0, "The smallest elements"),
    ("SegmentProd", segments.unsorted_segment_prod, 1, "The products"),
    ("SegmentSum", segments.unsorted_segment_sum, 0, "The sums"),
):
    operator_class(_name)(_by_segments(_name, _joined, _empty, _what))
