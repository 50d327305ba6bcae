"""Functions over all elements along some axes."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import bool_, int64
from graphls.ops.elementwise import cast, mul, sqrt, square, sub
from graphls.ops.logic import bool_of
from graphls.ops.operands import Axis, apply, axes_of, axis_of, float_of, tensor_of
from graphls.ops.shapes import reshape
from graphls.source import user_location
from graphls.tensor import Tensor


def _reduced(name: str, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    return apply(name, x, axis=axes_of(axis, x.ndim), keepdims=bool(keepdims))


def _counted(x: Any) -> Tensor:
    x = tensor_of(x)
    return cast(x, int64) if x.dtype is bool_ else x


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum along axes, all of them without any; bools are counted as int64."""
    return _reduced("sum", _counted(x), axis, keepdims)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean along axes; integers become float32."""
    return _reduced("mean", float_of(x), axis, keepdims)


def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest number along axes, nan where one is."""
    return _reduced("max", tensor_of(x), axis, keepdims)


def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest number along axes, nan where one is."""
    return _reduced("min", tensor_of(x), axis, keepdims)


def prod(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product along axes; bools are counted as int64."""
    return _reduced("prod", _counted(x), axis, keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element along axes is true."""
    return _reduced("any", bool_of(x), axis, keepdims)


def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element along axes is true."""
    return _reduced("all", bool_of(x), axis, keepdims)


def var(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """The mean square of the distances from the mean, over n - ddof elements.

    Raises GraphValueError where that is not positive.
    """
    x = float_of(x)
    if not isinstance(ddof, (bool, int)):
        raise GraphTypeError(f"The ddof of a variance is an integer, not {ddof!r}.", user_location())
    squares = square(sub(x, mean(x, axis, keepdims=True)))
    result = mean(squares, axis, keepdims)
    count = x.size // (result.size or 1)
    if ddof and count <= ddof:
        raise GraphValueError(f"The variance of {count} elements has no ddof of {ddof}.", user_location())
    return mul(result, count / (count - ddof)) if ddof else result


def std(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """The square root of the variance."""
    return sqrt(var(x, axis, ddof, keepdims))


def _position(name: str, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = tensor_of(x)
    if axis is None:
        return apply(name, reshape(x, (-1,)), axis=0, keepdims=False)
    return apply(name, x, axis=axis_of(axis, x.ndim), keepdims=bool(keepdims))


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The int64 position of the largest number along an axis, or among all elements; the first of equal ones."""
    return _position("argmax", x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The int64 position of the smallest number along an axis, or among all elements; the first of equal ones."""
    return _position("argmin", x, axis, keepdims)


reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod = sum, mean, max, min, prod
reduce_any, reduce_all, amax, amin = any, all, max, min
