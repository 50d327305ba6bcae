"""Reductions along axes: sums, means, extremes, products; and running sums, products and extremes."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, bool_, int32, int64
from graphls.ops.arrays.arrangement import flip
from graphls.ops.arrays.creation import arange, full_like, ones_like
from graphls.ops.arrays.shapes import broadcast_to, concat, cut, gather_elements, reshape
from graphls.ops.math.elementwise import (
    bool_of,
    cast,
    greater_equal,
    isnan,
    largest_number,
    less_equal,
    maximum,
    minimum,
    mul,
    square,
    where,
)
from graphls.ops.math.elementwise import where as chosen
from graphls.ops.math.transcendental import logaddexp, root
from graphls.ops.operands import (
    Axis,
    Function,
    Sizes,
    accepts_scalars,
    apply,
    axes_of,
    axis_of,
    float_of,
    in_single,
    tensor_of,
)
from graphls.ops.record import operation, operator_class, tensor_method


def as_numpy_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that NumPy's functions can call: `np.sum(x)` calls `x.sum(axis=None, dtype=None, out=None)`."""

    @wraps(function)
    def method(x: TensorLike, *args: TensorLike, **options: object) -> Any:
        named = {name: value for name, value in options.items() if name not in ("out", "dtype") or value is not None}
        return function(x, *args, **named)

    return method


def _as_operator(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: TensorLike, axis: Axis = (), keep_dims: bool = False) -> Any:
        return function(x, axis, keep_dims)

    return reduced


def _reduction(name: str, operator: str, **options: Any) -> Callable[[Function], Function]:
    """Declare a reduction with MindSpore's second name of it and its operator class."""
    return operation(names=name, classes=operator, settings="keep_dims", via=_as_operator, spelled=True, **options)


def _position_as(function: Callable[..., Any]) -> Callable[..., Any]:
    def position(x: TensorLike, axis: int = -1, output_type: DTypeLike = int32) -> Any:
        return cast(function(x, axis), output_type)

    return position


def _position_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the position of an extreme, then the extreme, from one with the opposite order."""

    def position_first(x: TensorLike, axis: int = 0, keep_dims: bool = False) -> Any:
        return function(x, axis, keep_dims)[::-1]

    position_first.__doc__ = f"{inspect.getdoc(function)}\n\nThe position comes first."
    return position_first


def _reduced(name: str, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    return apply(name, x, axis=axes_of(axis, x.ndim), keepdims=bool(keepdims))


def in_sum_dtype(x: TensorLike, dtype: object) -> Tensor:
    """A tensor in the dtype of its sum: the given one, or int64 for bools."""
    x = tensor_of(x)
    if dtype is not None:
        return cast(x, dtype)
    return cast(x, int64) if x.dtype is bool_ else x


@_reduction("reduce_sum", "ReduceSum", method=as_numpy_calls, also="numpy mint")
def sum(x: TensorLike, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum along axes, by default all of them, in the given dtype; bools are counted as int64."""
    return _reduced("sum", in_sum_dtype(x, dtype), axis, keepdims)


@_reduction("reduce_mean", "ReduceMean", method=as_numpy_calls, also="numpy mint")
def mean(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean along axes, in the given dtype; integers become float32."""
    return _reduced("mean", float_of(x if dtype is None else cast(x, dtype)), axis, keepdims)


@_reduction("reduce_max", "ReduceMax", also="numpy numpy.max mint")
def amax(
    x: TensorLike, axis: Axis = None, keepdims: bool = False, *,
    initial: TensorLike | None = None, where: TensorLike | None = None,
) -> Tensor:  # fmt: skip
    """The largest number along axes, nan where one is; equal ones share the gradient.

    `initial` counts as one more number, and replaces those where `where` is false. Raises GraphValueError for `where`
    without it.
    """
    return _extreme("max", x, axis, keepdims, initial, where)


@_reduction("reduce_min", "ReduceMin", also="numpy numpy.min mint")
def amin(
    x: TensorLike, axis: Axis = None, keepdims: bool = False, *,
    initial: TensorLike | None = None, where: TensorLike | None = None,
) -> Tensor:  # fmt: skip
    """The smallest number along axes, nan where one is; equal ones share the gradient.

    `initial` and `where` are those of `amax`.
    """
    return _extreme("min", x, axis, keepdims, initial, where)


def _extreme(
    name: str, x: TensorLike, axis: Axis, keepdims: bool, initial: TensorLike | None, where: TensorLike | None
) -> Tensor:
    x = _selected(name, x, initial, where)
    extreme = _reduced(name, x, axis, keepdims)
    return extreme if initial is None else _LARGER[name](extreme, cast(initial, x.dtype))


def _selected(name: str, x: TensorLike, initial: TensorLike | None, where: TensorLike | None) -> Tensor:
    tensor = tensor_of(x)
    if where is None:
        return tensor
    if initial is None:
        raise GraphValueError(f"{name} takes 'where' only with an 'initial' number.")
    return chosen(where, tensor, cast(initial, tensor.dtype))


@operation(classes="ArgMaxWithValue", settings="axis keep_dims", via=_position_first, method=False, spelled=True)
@accepts_scalars
def max(
    x: TensorLike, axis: int | None = None, keepdims: bool = False, *,
    initial: TensorLike | None = None, where: TensorLike | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest number along an axis, and its int64 position; the first of equal ones gets the gradient.

    Without an axis: of all elements, flattened, and without `keepdims`; see `amax`. Raises GraphTypeError for several
    axes.
    """
    return _with_position("max", amax, argmax, x, axis, keepdims, initial, where)


@operation(classes="ArgMinWithValue", settings="axis keep_dims", via=_position_first, method=False, spelled=True)
@accepts_scalars
def min(
    x: TensorLike, axis: int | None = None, keepdims: bool = False, *,
    initial: TensorLike | None = None, where: TensorLike | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The smallest number along an axis, and its int64 position, the first of equal ones; otherwise as `max`."""
    return _with_position("min", amin, argmin, x, axis, keepdims, initial, where)


def _with_position(
    name: str, extreme: Any, position: Any, x: Any, axis: Axis, keepdims: bool, initial: Any, where: Any
) -> tuple[Tensor, Tensor]:
    """An extreme and its position; along an axis only the element at that position gets the gradient."""
    x = _selected(name, x, initial, where)
    if axis is None:
        return extreme(x, initial=initial), position(x)
    if not isinstance(axis, int):
        raise GraphTypeError(f"{name} takes one axis, not {axis!r}; use a{name} for several.")
    at = axis_of(axis, x.ndim)
    value = apply(name, x, axis=(at,), keepdims=bool(keepdims), ties="first")
    return value if initial is None else _LARGER[name](value, cast(initial, x.dtype)), position(x, at, keepdims)


_LARGER: dict[str, Callable[[Any, Any], Tensor]] = {"max": maximum, "min": minimum}


@_reduction("reduce_prod", "ReduceProd", method=as_numpy_calls, also="numpy mint")
def prod(x: TensorLike, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product along axes, in the given dtype; bools are counted as int64."""
    return _reduced("prod", in_sum_dtype(x, dtype), axis, keepdims)


@_reduction("reduce_any", "ReduceAny", method=as_numpy_calls, also="mint")
def any(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """True where any element along axes is true."""
    return _reduced("any", bool_of(x), axis, keepdims)


@_reduction("reduce_all", "ReduceAll", method=as_numpy_calls, also="mint")
def all(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """True where every element along axes is true."""
    return _reduced("all", bool_of(x), axis, keepdims)


@operation(method=as_numpy_calls, spelled=True, also="numpy")
def var(x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """The variance along axes, with the divisor n - ddof.

    Raises GraphValueError where that is not positive, GraphTypeError where `ddof` is not an integer.
    """
    return in_single(lambda x: _variance(x, axis, ddof, keepdims), float_of(x))


def _variance(x: Tensor, axis: Axis, ddof: int, keepdims: bool) -> Tensor:
    if not isinstance(ddof, int):
        raise GraphTypeError(f"The ddof of a variance is an integer, not {ddof!r}.")
    squares = square(x - mean(x, axis, keepdims=True))
    result = mean(squares, axis, keepdims)
    count = x.size // (result.size or 1)
    if ddof and count <= ddof:
        raise GraphValueError(f"The variance of {count} elements has no ddof of {ddof}.")
    return result * (count / (count - ddof)) if ddof else result


@operation(method=as_numpy_calls, spelled=True, also="numpy")
def std(x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """The standard deviation along axes; its gradient for equal elements is 0."""
    return in_single(lambda x: root(_variance(x, axis, ddof, keepdims)), float_of(x))


def _position(name: str, x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    x = tensor_of(x)
    x = cast(x, int32) if x.dtype is bool_ else x
    if axis is None:
        return apply(name, reshape(x, (-1,)), axis=0, keepdims=False)
    return apply(name, x, axis=axis_of(axis, x.ndim), keepdims=bool(keepdims))


@operation(classes="Argmax", settings="axis output_type", via=_position_as, spelled=True, also="numpy mint")
@accepts_scalars
def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The int64 position of the largest number along an axis, or of all elements; the first of equal ones or nans."""
    return _position("argmax", x, axis, keepdims)


@operation(classes="Argmin", settings="axis output_type", via=_position_as, spelled=True, also="numpy mint")
@accepts_scalars
def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The int64 position of the smallest number along an axis, or of all elements; the first of equal ones or nans."""
    return _position("argmin", x, axis, keepdims)


@tensor_method("max")
@as_numpy_calls
def _largest(x: TensorLike, *args: Any, return_indices: bool = False, **options: Any) -> Any:
    """The largest number along axes, see `ops.amax`; with `return_indices` also its position, see `ops.max`."""
    return (max if return_indices else amax)(x, *args, **options)


@tensor_method("min")
@as_numpy_calls
def _smallest(x: TensorLike, *args: Any, return_indices: bool = False, **options: Any) -> Any:
    """The smallest number along axes, see `ops.amin`; with `return_indices` also its position, see `ops.min`."""
    return (min if return_indices else amin)(x, *args, **options)


@tensor_method()
def ptp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The range along axes: the largest number minus the smallest one."""
    return amax(x, axis, keepdims) - amin(x, axis, keepdims)


_Slices = tuple[Tensor, ...]


@operation(classes="CumSum", settings="exclusive reverse", spelled=True, also="mint")
@accepts_scalars
def cumsum(x: TensorLike, axis: int, dtype: Any = None, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Cumulative sums along an axis, in the given dtype; bools are counted as int64.

    `exclusive` leaves the element itself out, `reverse` sums from the end.
    """
    x = in_sum_dtype(x, dtype)
    return apply("cumsum", x, axis=axis_of(axis, x.ndim), exclusive=bool(exclusive), reverse=bool(reverse))


@operation(classes="CumProd", settings="exclusive reverse", spelled=True, also="numpy mint")
@accepts_scalars
def cumprod(x: Tensor, axis: int, dtype: Any = None, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Cumulative products along an axis; otherwise as `cumsum`."""
    (x,) = dispatch.cast_operands("cumprod", in_sum_dtype(x, dtype))
    at = axis_of(axis, x.ndim)

    def computed(x: Tensor) -> Tensor:
        x = apply("reverse", x, axes=(at,)) if reverse else x
        (y,) = _scanned(_pairwise(mul), (x,), at)
        y = _shifted(y, at) if exclusive else y
        return apply("reverse", y, axes=(at,)) if reverse else y

    return in_single(computed, x)


def _shifted(x: Tensor, axis: int) -> Tensor:
    """The elements shifted by one position along an axis, after a 1."""
    first, others = cut(x, axis, 0, builtins.min(1, x.shape[axis])), cut(x, axis, 0, builtins.max(0, x.shape[axis] - 1))
    return concat((ones_like(first), others), axis)


@operation
@accepts_scalars
def logcumsumexp(x: TensorLike, axis: int) -> Tensor:
    """The logarithms of the cumulative sums of exp(x) along an axis, without overflow."""
    return in_single(lambda x: _scanned(_pairwise(logaddexp), (x,), axis)[0], float_of(x))


@operation(classes="Cummax", settings="axis", also="mint")
@accepts_scalars
def cummax(x: TensorLike, axis: int) -> tuple[Tensor, Tensor]:
    """The largest number up to each element along an axis, and its int64 position, the last of equal ones.

    From the first nan on, all are nan.
    """
    return _running_extreme(greater_equal, x, axis)


@operation(classes="Cummin", settings="axis", also="mint")
@accepts_scalars
def cummin(x: TensorLike, axis: int) -> tuple[Tensor, Tensor]:
    """The smallest number up to each element along an axis, and its int64 position, the last of equal ones.

    From the first nan on, all are nan.
    """
    return _running_extreme(less_equal, x, axis)


def _running_extreme(is_further: Callable[[Any, Any], Tensor], x: TensorLike, axis: int) -> tuple[Tensor, Tensor]:
    x = tensor_of(x)
    at = axis_of(axis, x.ndim)

    def combine(before: _Slices, last: _Slices) -> _Slices:
        takes_last = is_further(last[0], before[0]) | isnan(last[0])
        return tuple(where(takes_last, b, a) for a, b in zip(before, last, strict=True))

    positions = reshape(arange(x.shape[at]), [-1 if i == at else 1 for i in range(x.ndim)])
    _, last_positions = _scanned(combine, (x, broadcast_to(positions, x.shape)), at)
    return gather_elements(x, at, last_positions), cast(last_positions, "int64")


def _pairwise(function: Callable[[Any, Any], Tensor]) -> Callable[[_Slices, _Slices], _Slices]:
    return lambda before, last: (function(before[0], last[0]),)


def _scanned(combine: Callable[[_Slices, _Slices], _Slices], items: _Slices, axis: int) -> _Slices:
    """All prefix combinations along an axis, in a number of iterations logarithmic in its size.

    Each iteration doubles the number of elements up to each position that are combined. `combine` is associative.
    """
    at = axis_of(axis, items[0].ndim)
    size, reach = items[0].shape[at], 1
    while reach < size:
        earlier, later = (tuple(cut(x, at, i, i + size - reach) for x in items) for i in (0, reach))
        combined = combine(earlier, later)
        items = tuple(concat((cut(x, at, 0, reach), y), at) for x, y in zip(items, combined, strict=True))
        reach *= 2
    return items


@operator_class("CumulativeLogsumexp", "exclusive reverse")
def _log_cum_sum_exp(x: TensorLike, axis: Sizes, exclusive: bool = False, reverse: bool = False) -> Any:
    """The logarithms of the cumulative sums of exp(x) along an axis, from its end with `reverse`.

    With `exclusive` without the element itself; the logarithm of an empty sum is the lowest number.
    """
    x, along = float_of(x), int(tensor_of(axis).item())
    x = flip(x, along) if reverse else x
    sums = logcumsumexp(x, along)
    if exclusive:
        at = axis_of(along, x.ndim)
        lowest = full_like(cut(sums, at, 0, 1), -largest_number(x.dtype))
        sums = concat((lowest, cut(sums, at, 0, builtins.max(0, x.shape[at] - 1))), along)
    return flip(sums, along) if reverse else sums
