"""Functions over all elements along some axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import bool_, int32, int64
from graphls.ops.elementwise import cast, maximum, minimum, mul, square, sub
from graphls.ops.logic import bool_of
from graphls.ops.logic import where as chosen
from graphls.ops.operands import Axis, apply, axes_of, axis_of, float_of, in_single, tensor_of
from graphls.ops.roots import root
from graphls.ops.shapes import reshape
from graphls.ops.spellings import with_spellings
from graphls.tensors.tensor import Tensor

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "max", "mean", "min", "prod", "reduce_all", "reduce_any",
    "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "std", "sum", "var",
]  # fmt: skip


def _reduced(name: str, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    return apply(name, x, axis=axes_of(axis, x.ndim), keepdims=bool(keepdims))


def counted(x: Any, dtype: Any) -> Tensor:
    """A tensor in the dtype that it is added up in: the one given, and for bools int64."""
    x = tensor_of(x)
    if dtype is not None:
        return cast(x, dtype)
    return cast(x, int64) if x.dtype is bool_ else x


@with_spellings
def sum(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum along axes, all of them without any, in the dtype given; bools are counted as int64."""
    return _reduced("sum", counted(x, dtype), axis, keepdims)


@with_spellings
def mean(x: Any, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean along axes, in the dtype given; integers become float32."""
    return _reduced("mean", float_of(x if dtype is None else cast(x, dtype)), axis, keepdims)


@with_spellings
def amax(x: Any, axis: Axis = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Tensor:
    """The largest number along axes, nan where one is; equal ones share the gradient.

    `initial` counts as one more number, and takes the place of those where `where` is false. Raises GraphValueError
    for `where` without it.
    """
    return _extreme("max", x, axis, keepdims, initial, where)


@with_spellings
def amin(x: Any, axis: Axis = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Tensor:
    """The smallest number along axes, nan where one is; equal ones share the gradient.

    `initial` and `where` are those of `amax`.
    """
    return _extreme("min", x, axis, keepdims, initial, where)


def _extreme(name: str, x: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Tensor:
    x = _selected(name, x, initial, where)
    found = _reduced(name, x, axis, keepdims)
    return found if initial is None else _LARGER[name](found, cast(initial, x.dtype))


def _selected(name: str, x: Any, initial: Any, where: Any) -> Tensor:
    tensor = tensor_of(x)
    if where is None:
        return tensor
    if initial is None:
        raise GraphValueError(f"{name} takes 'where' only with an 'initial' number.")
    return chosen(where, tensor, cast(initial, tensor.dtype))


@with_spellings
def max(
    x: Any, axis: int | None = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> tuple[Tensor, Tensor]:
    """The largest number along an axis, and its int64 position there, the first of equal ones, which gets the gradient.

    Without an axis: among all elements, as they are flattened, and without `keepdims`; see `amax`. Raises
    GraphTypeError for several axes.
    """
    return _with_position("max", amax, argmax, x, axis, keepdims, initial, where)


@with_spellings
def min(
    x: Any, axis: int | None = None, keepdims: bool = False, *, initial: Any = None, where: Any = None
) -> tuple[Tensor, Tensor]:
    """The smallest number along an axis, and its int64 position there, the first of equal ones; otherwise as `max`."""
    return _with_position("min", amin, argmin, x, axis, keepdims, initial, where)


def _with_position(
    name: str, extreme: Any, position: Any, x: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> tuple[Tensor, Tensor]:
    """An extreme and its position: along an axis the element that is there, so that it alone gets the gradient."""
    x = _selected(name, x, initial, where)
    if axis is None:
        return extreme(x, initial=initial), position(x)
    if not isinstance(axis, int):
        raise GraphTypeError(f"{name} takes one axis, not {axis!r}; use a{name} for several.")
    at = axis_of(axis, x.ndim)
    found = apply(name, x, axis=(at,), keepdims=bool(keepdims), ties="first")
    return found if initial is None else _LARGER[name](found, cast(initial, x.dtype)), position(x, at, keepdims)


_LARGER: dict[str, Callable[[Any, Any], Tensor]] = {"max": maximum, "min": minimum}


@with_spellings
def prod(x: Any, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product along axes, in the dtype given; bools are counted as int64."""
    return _reduced("prod", counted(x, dtype), axis, keepdims)


@with_spellings
def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element along axes is true."""
    return _reduced("any", bool_of(x), axis, keepdims)


@with_spellings
def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element along axes is true."""
    return _reduced("all", bool_of(x), axis, keepdims)


@with_spellings
def var(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """The mean square of the distances from the mean, over n - ddof elements.

    Raises GraphValueError where that is not positive, GraphTypeError where `ddof` is no integer.
    """
    return in_single(lambda x: _variance(x, axis, ddof, keepdims), float_of(x))


def _variance(x: Tensor, axis: Axis, ddof: int, keepdims: bool) -> Tensor:
    if not isinstance(ddof, int):
        raise GraphTypeError(f"The ddof of a variance is an integer, not {ddof!r}.")
    squares = square(sub(x, mean(x, axis, keepdims=True)))
    result = mean(squares, axis, keepdims)
    count = x.size // (result.size or 1)
    if ddof and count <= ddof:
        raise GraphValueError(f"The variance of {count} elements has no ddof of {ddof}.")
    return mul(result, count / (count - ddof)) if ddof else result


@with_spellings
def std(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """The square root of the variance; its gradient for equal elements is 0."""
    return in_single(lambda x: root(_variance(x, axis, ddof, keepdims)), float_of(x))


def _position(name: str, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = tensor_of(x)
    x = cast(x, int32) if x.dtype is bool_ else x
    if axis is None:
        return apply(name, reshape(x, (-1,)), axis=0, keepdims=False)
    return apply(name, x, axis=axis_of(axis, x.ndim), keepdims=bool(keepdims))


@with_spellings
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The int64 position of the largest number along an axis, or of all elements; the first of equal ones or nans."""
    return _position("argmax", x, axis, keepdims)


@with_spellings
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The int64 position of the smallest number along an axis, or of all elements; the first of equal ones or nans."""
    return _position("argmin", x, axis, keepdims)


reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod = sum, mean, amax, amin, prod
reduce_any, reduce_all = any, all
