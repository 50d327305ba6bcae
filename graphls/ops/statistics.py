"""Reductions that are made of sums, means and extremes."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ir.types import int32, int64
from graphls.ops.elementwise import cast, div, exp, floor_div, log, maximum, mul, sub
from graphls.ops.logic import isfinite, isnan, logical_not, not_equal, where
from graphls.ops.operands import Axis, axis_of, float_of, in_single, tensor_of
from graphls.ops.record import operation
from graphls.ops.reductions import amax, amin, any, argmax, counted, mean, std, sum, var
from graphls.ops.shapes import concat, cut, gather_elements, reshape, squeeze
from graphls.ops.state import stop_gradient
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor


@operation(spelled=True)
def var_mean(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The variance (see `var`) and the mean along axes."""
    return var(x, axis, ddof, keepdims), mean(x, axis, keepdims)


@operation(spelled=True)
def std_mean(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The square root of the variance (see `std`) and the mean along axes."""
    return std(x, axis, ddof, keepdims), mean(x, axis, keepdims)


@operation(spelled=True)
def aminmax(x: Any, *, axis: Axis = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest number along axes, all of them for None."""
    x = tensor_of(x)
    axis = None if not x.ndim and axis in (0, -1) else axis
    return amin(x, axis, keepdims), amax(x, axis, keepdims)


@operation(spelled=True)
def count_nonzero(x: Any, axis: Axis = (), keepdims: bool = False, dtype: Any = int32) -> Tensor:
    """How many elements along axes, all of them without any, are not 0; nan is not."""
    return sum(cast(not_equal(x, 0), dtype), axis, keepdims)


@operation(spelled=True)
def nansum(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum along axes of what is not nan, in the dtype given; bools are counted as int64."""
    x = tensor_of(x)
    return sum(counted(where(isnan(x), 0, x) if x.dtype.is_float else x, dtype), axis, keepdims)


@operation(spelled=True)
def nanmean(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean along axes of what is not nan, in the dtype given; nan where everything is."""
    x = float_of(x)

    def computed(x: Tensor) -> Tensor:
        counts = sum(cast(logical_not(isnan(x)), x.dtype), axis, keepdims)
        return div(nansum(x, axis, keepdims), counts)

    result = in_single(computed, x)
    return result if dtype is None else cast(result, dtype)


@operation(spelled=True)
def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exp(x) along axes, which does not overflow; -inf over nothing but -inf."""

    def computed(x: Tensor) -> Tensor:
        if not x.size:
            return log(sum(exp(x), axis, keepdims))
        largest = stop_gradient(amax(x, axis, keepdims=True))
        largest = where(isfinite(largest), largest, 0.0)
        total = log(sum(exp(sub(x, largest)), axis, keepdims))
        return total + reshape(largest, total.shape)

    return in_single(computed, float_of(x))


@operation
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The difference of each element and the one before it along an axis, `n` times over.

    `prepend` and `append` are joined to x first. Raises GraphValueError for a negative `n`.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise GraphValueError(f"diff is taken 0 times or more, not {n!r}.")
    pieces = [t for t in (prepend, x, append) if t is not None]
    joined = concat(pieces, axis) if len(pieces) > 1 else tensor_of(x)
    at = axis_of(axis, joined.ndim)
    for _ in range(n):
        joined = sub(_without_first(joined, at), without_last(joined, at))
    return joined


def _without_first(x: Tensor, axis: int) -> Tensor:
    return cut(x, axis, min(1, x.shape[axis]), x.shape[axis])


def without_last(x: Tensor, axis: int) -> Tensor:
    return cut(x, axis, 0, max(0, x.shape[axis] - 1))


@operation(spelled=True)
def trapz(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The integral of y along an axis by the trapezoidal rule.

    `x` are the places of the elements of y, as a vector or in the shape of y; without them they are `dx` apart. Raises
    GraphValueError where a vector has another size than y.
    """
    y = float_of(y)
    at = axis_of(axis, y.ndim)
    places = () if x is None else (tensor_of(x),)
    return in_single(lambda y, *x: _integral(y, _widths(x[0], y, at) if x else dx, at), y, *places)


def _integral(y: Tensor, widths: Any, axis: int) -> Tensor:
    return sum(mul(mul(_without_first(y, axis) + without_last(y, axis), 0.5), widths), axis)


def _widths(x: Tensor, y: Tensor, axis: int) -> Tensor:
    if x.ndim != 1:
        return diff(x, axis=axis - y.ndim)
    if x.size != y.shape[axis]:
        raise GraphValueError(f"trapz takes one place for each element along axis {axis} of {y.type}.")
    return reshape(diff(x), [-1 if i == axis else 1 for i in range(y.ndim)])


@operation(spelled=True)
def median(x: Any, axis: int | None = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The number in the middle along an axis, the lower one of two, and its int64 position; nan where one is.

    Without an axis: among all elements, as they are flattened. Raises GraphValueError over no elements.
    """
    values, positions, at = _sorted("median", x, axis)
    middle = (values.shape[at] - 1) // 2
    if not values.dtype.is_float:
        found, position = (cut(t, at, middle, middle + 1) for t in (values, positions))
    else:
        nans = isnan(values)
        place = where(any(nans, at, keepdims=True), argmax(cast(nans, int32), at, keepdims=True), middle)
        found, position = (gather_elements(t, at, place) for t in (values, positions))
    return _without_axis(found, at, keepdims), _without_axis(position, at, keepdims)


@operation(spelled=True)
def nanmedian(x: Any, axis: int | None = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """As `median`, of what is not nan; nan where everything is."""
    values, positions, at = _sorted("nanmedian", x, axis)
    counts = sum(cast(logical_not(isnan(values)), int64), at, keepdims=True)
    middle = maximum(floor_div(sub(counts, 1), 2), 0)
    found, position = (gather_elements(t, at, middle) for t in (values, positions))
    return _without_axis(found, at, keepdims), _without_axis(position, at, keepdims)


def _sorted(name: str, x: Any, axis: int | None) -> tuple[Tensor, Tensor, int]:
    """The elements from the smallest to the largest, nans behind, their positions, and the axis that they are along."""
    tensor = tensor_of(x) if axis is not None else reshape(tensor_of(x), (-1,))
    at = axis_of(axis or 0, tensor.ndim)
    if not tensor.shape[at]:
        raise GraphValueError(f"{name} over no elements is not defined: {tensor.type} is empty.")
    values, positions = dispatch.apply("top_k", tensor, k=tensor.shape[at], axis=at, largest=False)
    return values, positions, at


def _without_axis(x: Tensor, axis: int, keepdims: bool) -> Tensor:
    return x if keepdims else squeeze(x, axis)
