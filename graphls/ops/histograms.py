"""How many elements lie in each of the parts of equal width between two bounds."""

from __future__ import annotations

from typing import Any

from graphls.ir.checks import integer, number
from graphls.ir.errors import GraphValueError
from graphls.ir.types import bool_, float32, int32, int64
from graphls.ops.creation import ones
from graphls.ops.elementwise import add, cast, clip_by_value, div, floor, mul, sub
from graphls.ops.logic import equal, greater_equal, less_equal, logical_and, where
from graphls.ops.operands import apply, float_of, tensor_in, tensor_of
from graphls.ops.record import operation, operator_class
from graphls.ops.reductions import amax, amin
from graphls.ops.shapes import reshape
from graphls.tensors.tensor import Tensor


@operation(classes="Histogram", settings="bins min max")
def histc(input: Any, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:
    """The numbers of elements in `bins` parts from `min` to `max`, in the dtype of the input.

    Others, and nan, are not counted. Where both bounds are 0, they are the smallest and the largest element, and where
    they are equal, 1 below and 1 above. Raises GraphValueError for less than one part and for a `min` above `max`.
    """
    x, count = tensor_of(input), _bins("histc", bins)
    low, high = number("histc", "min", min), number("histc", "max", max)
    if low > high:
        raise GraphValueError(f"histc takes a 'min' up to its 'max', not {min} and {max}.")
    values = reshape(float_of(x), (-1,))
    values = cast(values, float32) if values.dtype.is_half else values
    bounds = [cast(b, values.dtype) for b in (low, high)]
    if low == high == 0.0 and values.size:
        bounds = [amin(values), amax(values)]
    is_point = equal(*bounds)
    bounds = [where(is_point, add(b, step), b) for b, step in zip(bounds, (-1.0, 1.0), strict=True)]
    counted = logical_and(greater_equal(values, bounds[0]), less_equal(values, bounds[1]))
    return cast(_counts(values, bounds, count, counted), x.dtype)


@operator_class("HistogramFixedWidth", "nbins dtype")
def histogram_fixed_width(x: Any, range: Any, nbins: int, dtype: Any = int32) -> Tensor:
    """The numbers of elements in `nbins` parts between the two bounds in `range`; others count in the first or last.

    Raises GraphValueError for less than one part and for another number of bounds.
    """
    values = reshape(float_of(x), (-1,))
    values = cast(values, float32) if values.dtype.is_half else values
    count, bounds = _bins("histogram_fixed_width", nbins), tensor_in(range, values.dtype)
    if bounds.shape != (2,):
        raise GraphValueError(f"histogram_fixed_width takes two bounds, not {bounds.type}.")
    low, high = bounds
    return cast(_counts(values, [low, high], count, ones(values.shape, bool_)), dtype)


def _bins(name: str, bins: Any) -> int:
    count = integer(name, "bins", bins)
    if count < 1:
        raise GraphValueError(f"{name} takes 1 part or more, not {count}.")
    return count


def _counts(values: Tensor, bounds: list[Tensor], bins: int, counted: Tensor) -> Tensor:
    """The numbers of what is counted and is no nan, by part; the upper bound is in the last one."""
    width = sub(bounds[1], bounds[0])
    places = floor(mul(div(sub(values, bounds[0]), width), float(bins)))
    is_counted = logical_and(counted, equal(places, places))
    places = where(is_counted, clip_by_value(places, 0.0, float(bins - 1)), 0.0)
    return apply("gather_gradient", cast(is_counted, int64), cast(places, int64), axis=0, size=bins)
