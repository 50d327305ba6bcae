"""Running sums, products and extremes along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ops.arithmetic import largest_number
from graphls.ops.arrangement import flip
from graphls.ops.creation import arange, full_like, ones_like
from graphls.ops.elementwise import cast, greater_equal, isnan, less_equal, logical_or, mul, where
from graphls.ops.operands import Sizes, apply, axis_of, float_of, in_single, tensor_of
from graphls.ops.record import operation, operator_class
from graphls.ops.reductions import counted
from graphls.ops.shapes import broadcast_to, concat, cut, gather_elements, reshape
from graphls.ops.transcendental import logaddexp
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor, TensorLike

Items = tuple[Tensor, ...]


@operation(classes="CumSum", settings="exclusive reverse", spelled=True)
def cumsum(x: TensorLike, axis: int, dtype: Any = None, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The sums of all elements up to each along an axis, in the dtype given; bools are counted as int64.

    `exclusive` leaves the element itself out, `reverse` sums from the end.
    """
    x = counted(x, dtype)
    return apply("cumsum", x, axis=axis_of(axis, x.ndim), exclusive=bool(exclusive), reverse=bool(reverse))


@operation(classes="CumProd", settings="exclusive reverse", spelled=True)
def cumprod(x: Tensor, axis: int, dtype: Any = None, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The products of all elements up to each along an axis; otherwise as `cumsum`."""
    (x,) = dispatch.cast_operands("cumprod", counted(x, dtype))
    at = axis_of(axis, x.ndim)

    def computed(x: Tensor) -> Tensor:
        x = apply("reverse", x, axes=(at,)) if reverse else x
        (y,) = _scanned(_pairwise(mul), (x,), at)
        y = _moved_up(y, at) if exclusive else y
        return apply("reverse", y, axes=(at,)) if reverse else y

    return in_single(computed, x)


def _moved_up(x: Tensor, axis: int) -> Tensor:
    """The elements one place further along an axis, behind a 1."""
    first, others = cut(x, axis, 0, min(1, x.shape[axis])), cut(x, axis, 0, max(0, x.shape[axis] - 1))
    return concat((ones_like(first), others), axis)


@operation
def logcumsumexp(x: TensorLike, axis: int) -> Tensor:
    """The logarithms of the running sums of exp(x) along an axis, which do not overflow."""
    return in_single(lambda x: _scanned(_pairwise(logaddexp), (x,), axis)[0], float_of(x))


@operation(classes="Cummax", settings="axis")
def cummax(x: TensorLike, axis: int) -> tuple[Tensor, Tensor]:
    """The largest number up to each element along an axis, and its int64 position, the last of equal ones.

    From the first nan on, all are nan.
    """
    return _running_extreme(greater_equal, x, axis)


@operation(classes="Cummin", settings="axis")
def cummin(x: TensorLike, axis: int) -> tuple[Tensor, Tensor]:
    """The smallest number up to each element along an axis, and its int64 position, the last of equal ones.

    From the first nan on, all are nan.
    """
    return _running_extreme(less_equal, x, axis)


def _running_extreme(is_further: Callable[[Any, Any], Tensor], x: TensorLike, axis: int) -> tuple[Tensor, Tensor]:
    x = tensor_of(x)
    at = axis_of(axis, x.ndim)

    def combine(before: Items, last: Items) -> Items:
        takes_last = logical_or(is_further(last[0], before[0]), isnan(last[0]))
        return tuple(where(takes_last, b, a) for a, b in zip(before, last, strict=True))

    places = reshape(arange(x.shape[at]), [-1 if i == at else 1 for i in range(x.ndim)])
    _, found = _scanned(combine, (x, broadcast_to(places, x.shape)), at)
    return gather_elements(x, at, found), cast(found, "int64")


def _pairwise(function: Callable[[Any, Any], Tensor]) -> Callable[[Items, Items], Items]:
    return lambda before, last: (function(before[0], last[0]),)


def _scanned(combine: Callable[[Items, Items], Items], items: Items, axis: int) -> Items:
    """All running combinations along an axis, in a number of rounds that is logarithmic in its size.

    After a round, each place holds what twice as many elements up to it combine to. `combine` is associative.
    """
    at = axis_of(axis, items[0].ndim)
    size, reach = items[0].shape[at], 1
    while reach < size:
        made = combine(tuple(cut(x, at, 0, size - reach) for x in items), tuple(cut(x, at, reach, size) for x in items))
        items = tuple(concat((cut(x, at, 0, reach), y), at) for x, y in zip(items, made, strict=True))
        reach *= 2
    return items


@operator_class("CumulativeLogsumexp", "exclusive reverse")
def _log_cum_sum_exp(x: TensorLike, axis: Sizes, exclusive: bool = False, reverse: bool = False) -> Any:
    """The logarithms of the running sums of exp(x) along an axis, from its end with `reverse`.

    Where `exclusive` without the element itself; the sum of none has the lowest number as its logarithm.
    """
    x, along = float_of(x), int(tensor_of(axis).item())
    x = flip(x, along) if reverse else x
    sums = logcumsumexp(x, along)
    if exclusive:
        at = axis_of(along, x.ndim)
        lowest = full_like(cut(sums, at, 0, 1), -largest_number(x.dtype))
        sums = concat((lowest, cut(sums, at, 0, max(0, x.shape[at] - 1))), along)
    return flip(sums, along) if reverse else sums
