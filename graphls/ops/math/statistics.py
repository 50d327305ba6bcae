"""Statistics along axes: medians, quantiles, covariances, histograms, and reductions that ignore nan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.checks import at_least, integer, number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import DType, DTypeLike, as_dtype, bool_, float32, int32, int64
from graphls.ops.arrays import segments
from graphls.ops.arrays.arrangement import movedim
from graphls.ops.arrays.creation import full_like, ones
from graphls.ops.arrays.shapes import concat, cut, gather_elements, reshape, squeeze
from graphls.ops.linear_algebra.factorizations import as_one, transposed
from graphls.ops.math.elementwise import (
    cast,
    ceil,
    clip_by_value,
    equal,
    exp,
    floor,
    isfinite,
    isnan,
    log,
    logical_and,
    maximum,
    mul,
    not_equal,
    where,
)
from graphls.ops.math.reductions import amax, amin, any, argmax, in_sum_dtype, mean, std, sum, var
from graphls.ops.network.network import matmul
from graphls.ops.operands import (
    Axis,
    accepts_scalars,
    apply,
    axes_of,
    axis_of,
    float_of,
    in_single,
    tensor_in,
    tensor_of,
)
from graphls.ops.record import operation, operator_class
from graphls.ops.state import stop_gradient


@operation(spelled=True)
def var_mean(x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The variance (see `var`) and the mean along axes."""
    return var(x, axis, ddof, keepdims), mean(x, axis, keepdims)


@operation(spelled=True)
def std_mean(x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The standard deviation (see `std`) and the mean along axes."""
    return std(x, axis, ddof, keepdims), mean(x, axis, keepdims)


@operation(spelled=True)
def aminmax(x: TensorLike, *, axis: Axis = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest number along axes, all of them for None."""
    x = tensor_of(x)
    axis = None if not x.ndim and axis in (0, -1) else axis
    return amin(x, axis, keepdims), amax(x, axis, keepdims)


@operation(spelled=True, also="mint")
def count_nonzero(x: TensorLike, axis: Axis = (), keepdims: bool = False, dtype: DTypeLike = int32) -> Tensor:
    """The number of nonzero elements, including nans, along axes, by default all of them."""
    return sum(cast(not_equal(x, 0), dtype), axis, keepdims)


@operation(spelled=True, also="mint")
def nansum(x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum along axes without nans, in the given dtype; bools are counted as int64."""
    x = tensor_of(x)
    return sum(in_sum_dtype(where(isnan(x), 0, x) if x.dtype.is_float else x, dtype), axis, keepdims)


@operation(spelled=True)
def nanmean(x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
    """The mean along axes without nans, in the given dtype; nan where all elements are nan."""
    x = float_of(x)

    def computed(x: Tensor) -> Tensor:
        counts = sum(cast(~isnan(x), x.dtype), axis, keepdims)
        return nansum(x, axis, keepdims) / counts

    result = in_single(computed, x)
    return result if dtype is None else cast(result, dtype)


@operation(spelled=True, also="mint")
def logsumexp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exp(x) along axes, without overflow; -inf where all elements are -inf."""

    def computed(x: Tensor) -> Tensor:
        if not x.size:
            return log(sum(exp(x), axis, keepdims))
        largest = stop_gradient(amax(x, axis, keepdims=True))
        largest = where(isfinite(largest), largest, 0.0)
        total = log(sum(exp(x - largest), axis, keepdims))
        return total + reshape(largest, total.shape)

    return in_single(computed, float_of(x))


@operation(also="numpy mint", checks={"n": at_least(0)})
def diff(
    x: TensorLike, n: int = 1, axis: int = -1, prepend: TensorLike | None = None, append: TensorLike | None = None
) -> Tensor:
    """The n-th difference of neighbouring elements along an axis.

    `prepend` and `append` are joined to x first. Raises GraphValueError for a negative `n`.
    """
    pieces = [t for t in (prepend, x, append) if t is not None]
    joined = concat(pieces, axis) if len(pieces) > 1 else tensor_of(x)
    at = axis_of(axis, joined.ndim)
    for _ in range(n):
        joined = _without_first(joined, at) - without_last(joined, at)
    return joined


def _without_first(x: Tensor, axis: int) -> Tensor:
    return cut(x, axis, min(1, x.shape[axis]), x.shape[axis])


def without_last(x: Tensor, axis: int) -> Tensor:
    return cut(x, axis, 0, max(0, x.shape[axis] - 1))


@operation(spelled=True)
def trapz(y: TensorLike, x: TensorLike | None = None, *, dx: TensorLike = 1.0, axis: int = -1) -> Tensor:
    """The integral of y along an axis by the trapezoidal rule.

    `x` has the positions of the elements of y, as a vector or in the shape of y; the default is a distance of `dx`.
    Raises GraphValueError where a vector has another size than y.
    """
    y = float_of(y)
    at = axis_of(axis, y.ndim)
    positions = () if x is None else (tensor_of(x),)
    return in_single(lambda y, *x: _integral(y, _widths(x[0], y, at) if x else dx, at), y, *positions)


def _integral(y: Tensor, widths: TensorLike, axis: int) -> Tensor:
    return sum(mul((_without_first(y, axis) + without_last(y, axis)) * 0.5, widths), axis)


def _widths(x: Tensor, y: Tensor, axis: int) -> Tensor:
    if x.ndim != 1:
        return diff(x, axis=axis - y.ndim)
    if x.size != y.shape[axis]:
        raise GraphValueError(f"trapz takes one position for each element along axis {axis} of {y.type}.")
    return reshape(diff(x), [-1 if i == axis else 1 for i in range(y.ndim)])


@operation(spelled=True)
@accepts_scalars
def median(x: TensorLike, axis: int | None = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The median along an axis, the lower one of two, and its int64 position; nan where one is.

    Without an axis, of all elements, flattened. Raises GraphValueError over no elements.
    """
    values, positions, at = _sorted("median", x, axis)
    middle = (values.shape[at] - 1) // 2
    if not values.dtype.is_float:
        value, position = (cut(t, at, middle, middle + 1) for t in (values, positions))
    else:
        nans = isnan(values)
        index = where(any(nans, at, keepdims=True), argmax(cast(nans, int32), at, keepdims=True), middle)
        value, position = (gather_elements(t, at, index) for t in (values, positions))
    return _without_axis(value, at, keepdims), _without_axis(position, at, keepdims)


@operation(spelled=True)
@accepts_scalars
def nanmedian(x: TensorLike, axis: int | None = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """As `median`, without nans; nan where all elements are nan.

    Takes floats of any shape.
    """
    values, positions, at = _sorted("nanmedian", x, axis)
    counts = sum(cast(~isnan(values), int64), at, keepdims=True)
    middle = maximum((counts - 1) // 2, 0)
    value, position = (gather_elements(t, at, middle) for t in (values, positions))
    return _without_axis(value, at, keepdims), _without_axis(position, at, keepdims)


def _sorted(name: str, x: TensorLike, axis: int | None) -> tuple[Tensor, Tensor, int]:
    """The elements in ascending order, nans last, their positions, and the sorted axis."""
    tensor = tensor_of(x) if axis is not None else reshape(tensor_of(x), (-1,))
    at = axis_of(axis or 0, tensor.ndim)
    if not tensor.shape[at]:
        raise GraphValueError(f"{name} over no elements is not defined: {tensor.type} is empty.")
    values, positions = dispatch.apply("top_k", tensor, k=tensor.shape[at], axis=at, largest=False)
    return values, positions, at


def _without_axis(x: Tensor, axis: int, keepdims: bool) -> Tensor:
    return x if keepdims else squeeze(x, axis)


@operator_class("ReduceStd", "axis unbiased keep_dims")
def _reduced_std(x: TensorLike, axis: Any = (), unbiased: bool = True, keep_dims: bool = False) -> Any:
    """The standard deviation, with the divisor n - 1 where `unbiased`, and the mean along axes."""
    return std_mean(x, axis, int(unbiased), keep_dims)


@operator_class("ConfusionMatrix", "num_classes dtype")
def _confusion_matrix(
    labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None, *, num_classes: int,
    dtype: DTypeLike = "int32",
) -> Tensor:  # fmt: skip
    """The confusion matrix of classes (rows) and predictions (columns): counts, or sums of weights.

    Raises GraphTypeError and GraphValueError for other dtypes and shapes.
    """
    count = integer("ConfusionMatrix", "num_classes", num_classes)
    rows, columns = tensor_of(labels), tensor_of(predictions)
    kind: DType = as_dtype(dtype)
    counted = ones(rows.shape, kind) if weights is None else cast(weights, kind)
    if rows.ndim != 1 or columns.shape != rows.shape or counted.shape != rows.shape or count < 1:
        message = f"ConfusionMatrix takes vectors of one size, not {rows.type}, {columns.type} and {counted.type}."
        raise GraphValueError(message)
    inside = (columns >= 0) & (columns <= count - 1)
    positions = where(inside, rows * count + columns, -1)
    return reshape(segments.unsorted_segment_sum(counted, positions, count * count), (count, count))


@operator_class("CountNonZero", "dims", like=count_nonzero)
def _count_nonzero(x: TensorLike, dims: Any = None) -> Tensor:
    return count_nonzero(x, () if dims is None else dims, dtype=int64)


@operation(spelled=True)
def quantile(input: TensorLike, q: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The quantiles `q` of the elements along an axis, interpolated; nan where one is.

    `q` is a number from 0 to 1, or a vector of them for the first axis of the result. Without an axis, of all elements.
    Raises GraphValueError for another constant `q`, for which a graph gives nan, and over no elements.
    """
    return _quantile("quantile", input, q, axis, keepdims)


@operation(spelled=True)
def nanquantile(input: TensorLike, q: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """As `quantile`, without nans; nan where all elements are nan.

    Takes floats of any shape.
    """
    return _quantile("nanquantile", input, q, axis, keepdims)


def _quantile(name: str, input: TensorLike, q: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    x = float_of(input)
    at = None if axes_of(axis, x.ndim) is None else axis_of(axis or 0, x.ndim)
    moved = reshape(x, (-1,)) if at is None else movedim(x, at, -1)
    if not moved.shape[-1]:
        raise GraphValueError(f"{name} over no elements is not defined: {x.type} is empty.")
    parts = _parts(name, q, x.dtype)
    result = in_single(lambda x: _interpolated(x, cast(parts, x.dtype), name == "nanquantile"), moved)
    result = result if parts.ndim else reshape(result, result.shape[1:])
    if not keepdims:
        return result
    return reshape(result, (*parts.shape, *(1 if at in (None, i) else n for i, n in enumerate(x.shape))))


def _parts(name: str, q: TensorLike, dtype: DType) -> Tensor:
    parts = tensor_of(q) if isinstance(q, Tensor) or dtype.is_half else tensor_in(q, dtype)
    if parts.ndim > 1 or not (isinstance(parts, Symbol) or np.all((parts.array >= 0) & (parts.array <= 1))):
        raise GraphValueError(f"The q of {name} is a number from 0 to 1 or a vector of such, not {q}.")
    return parts


def _interpolated(x: Tensor, parts: Tensor, skips_nan: bool) -> Tensor:
    """The quantiles along the last axis, as the first axis of the result."""
    size = x.shape[-1]
    ordered, _ = dispatch.apply("top_k", x, k=size, axis=x.ndim - 1, largest=False)
    counts = sum(cast(~isnan(x), x.dtype), -1, keepdims=True)
    last = maximum(counts - 1.0, 0.0) if skips_nan else full_like(counts, size - 1)
    is_part = (parts >= 0.0) & (parts <= 1.0)
    positions = last * reshape(where(is_part, parts, 0.0), (-1,))
    low, high = (gather_elements(ordered, -1, cast(f(positions), int64)) for f in (floor, ceil))
    weight = positions - floor(positions)
    quantiles = where(weight == 0.0, low, low + (high - low) * weight)
    is_valid = is_part if skips_nan else logical_and(is_part, ~any(isnan(x), -1, keepdims=True))
    return movedim(where(is_valid, quantiles, math.nan), -1, 0)


@operator_class("Quantile", "dim keep_dims ignore_nan")
def _quantile_of(
    x: TensorLike, q: TensorLike, dim: Any = None, keep_dims: bool = False, ignore_nan: bool = False
) -> Tensor:
    """As `quantile`; with `ignore_nan` without nans."""
    return (nanquantile if ignore_nan else quantile)(x, q, dim, keep_dims)


@operation(checks={"correction": integer})
def cov(
    input: TensorLike, *, correction: int = 1, fweights: TensorLike | None = None, aweights: TensorLike | None = None
) -> Tensor:
    """The covariance matrix of variables, the rows of a matrix, with observations as columns.

    Of a vector or a number it is the variance. `fweights` are integer frequencies of observations, `aweights` their
    weights. The sum of products is divided by the number of observations minus `correction`, or by 0 where that is
    negative. Raises GraphValueError for more than two axes and for weights of another size.
    """
    x = float_of(input)
    if x.ndim > 2:
        raise GraphValueError(f"cov takes a matrix of variables and observations, not {x.type}.")
    rows = reshape(x, (1, -1)) if x.ndim < 2 else x
    frequencies, importances = (_weights(name, w, rows) for name, w in (("fweights", fweights), ("aweights", aweights)))
    if frequencies is not None and frequencies.dtype.is_float:
        raise GraphTypeError(f"The fweights of cov are integers, not {frequencies.type}.")
    covariances = as_one(lambda x: _covariance(x, frequencies, importances, correction), rows)
    return covariances if x.ndim == 2 else squeeze(covariances)


def _weights(name: str, weights: TensorLike | None, rows: Tensor) -> Tensor | None:
    tensor = None if weights is None else tensor_of(weights)
    if tensor is not None and tensor.shape != rows.shape[1:]:
        message = f"The {name} of cov are one for each of {rows.shape[1]} observations, not {tensor.type}."
        raise GraphValueError(message)
    return tensor


def _covariance(x: Tensor, frequencies: Tensor | None, importances: Tensor | None, correction: int) -> Tensor:
    frequencies, importances = (None if w is None else cast(w, x.dtype) for w in (frequencies, importances))
    weights = ones(x.shape[1:], x.dtype)
    for factor in (frequencies, importances):
        weights = weights if factor is None else weights * factor
    total = sum(weights)
    lost = total if importances is None else sum(weights * importances)
    centred = x - sum(x * weights, -1, keepdims=True) / total
    count = total - lost / total * float(correction)
    return matmul(centred * weights, transposed(centred)) / maximum(count, 0.0)


@operation(classes="Histogram", settings="bins min max", also="mint", checks={"min": number, "max": number})
def histc(input: TensorLike, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:
    """The histogram of `bins` equal bins from `min` to `max`, in the dtype of the input.

    Elements outside, and nan, are not counted. If both bounds are 0, they are the smallest and the largest element, and
    equal bounds are widened by 1 on each side. Raises GraphValueError for `bins` below 1 and for a `min` above `max`.
    """
    x, count = tensor_of(input), _bins("histc", bins)
    low, high = min, max
    if low > high:
        raise GraphValueError(f"histc takes a 'min' up to its 'max', not {min} and {max}.")
    values = reshape(float_of(x), (-1,))
    values = cast(values, float32) if values.dtype.is_half else values
    bounds = [cast(b, values.dtype) for b in (low, high)]
    if low == high == 0.0 and values.size:
        bounds = [amin(values), amax(values)]
    is_point = equal(*bounds)
    bounds = [where(is_point, b + step, b) for b, step in zip(bounds, (-1.0, 1.0), strict=True)]
    counted = (values >= bounds[0]) & (values <= bounds[1])
    return cast(_counts(values, bounds, count, counted), x.dtype)


@operator_class("HistogramFixedWidth", "nbins dtype")
def histogram_fixed_width(x: TensorLike, range: TensorLike, nbins: int, dtype: Any = int32) -> Tensor:
    """The histogram of `nbins` equal bins between two bounds, `range`; others count in the first or last bin.

    Raises GraphValueError for `nbins` below 1 and for another number of bounds.
    """
    values = reshape(float_of(x), (-1,))
    values = cast(values, float32) if values.dtype.is_half else values
    count, bounds = _bins("histogram_fixed_width", nbins), tensor_in(range, values.dtype)
    if bounds.shape != (2,):
        raise GraphValueError(f"histogram_fixed_width takes two bounds, not {bounds.type}.")
    low, high = bounds
    return cast(_counts(values, [low, high], count, ones(values.shape, bool_)), dtype)


def _bins(name: str, bins: TensorLike) -> int:
    count = integer(name, "bins", bins)
    if count < 1:
        raise GraphValueError(f"{name} takes 1 part or more, not {count}.")
    return count


def _counts(values: Tensor, bounds: list[Tensor], bins: int, counted: Tensor) -> Tensor:
    """The number of counted values other than nan in each bin; the upper bound is in the last one."""
    width = bounds[1] - bounds[0]
    positions = floor((values - bounds[0]) / width * float(bins))
    is_counted = logical_and(counted, positions == positions)
    positions = where(is_counted, clip_by_value(positions, 0.0, float(bins - 1)), 0.0)
    return apply("gather_gradient", cast(is_counted, int64), cast(positions, int64), axis=0, size=bins)
