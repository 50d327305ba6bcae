"""What is made of elements and of those that are written over them: replaced, added, multiplied, the larger ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from graphls.ir.errors import GraphTypeError
from graphls.ir.types import bool_, int64
from graphls.ops.creation import arange, full, ones_like
from graphls.ops.elementwise import abs, add, div, floor_div, maximum, mul, sign, sub
from graphls.ops.logic import greater_equal, where
from graphls.ops.operands import apply
from graphls.ops.shapes import broadcast_to, gather, gather_elements, reshape
from graphls.tensors.tensor import Tensor

Join = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""x, indices along an axis, what they name the places of, and the axis; gives another x."""


def replaced(x: Tensor, indices: Tensor, slices: Tensor, axis: int) -> Tensor:
    """x with slices in the places along an axis that indices name; of several for one place the last."""
    nobody = full((x.shape[axis],), -1, dtype=int64)
    last = apply("scatter_max", nobody, indices, arange(indices.size), axis=0)
    chosen = gather(slices, maximum(last, 0), axis)
    is_written = reshape(greater_equal(last, 0), (-1, *(1 for _ in x.shape[axis + 1 :])))
    return where(is_written, chosen, x)


def replaced_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """x with single elements in the places along an axis that indices name; of several for one place the last."""
    numbers = reshape(arange(indices.shape[axis]), (-1, *(1 for _ in x.shape[axis + 1 :])))
    numbers = broadcast_to(numbers, indices.shape)
    last = apply("scatter_max", full(x.shape, -1, dtype=int64), indices, numbers, axis=axis)
    return where(greater_equal(last, 0), gather_elements(updates, axis, maximum(last, 0)), x)


def _sums(x: Tensor, indices: Tensor, slices: Tensor, axis: int) -> Tensor:
    return apply("gather_gradient", slices, indices, axis=axis, size=x.shape[axis])


def _sums_of_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return apply("gather_elements_gradient", updates, indices, axis=axis, size=x.shape[axis])


def _added(sums: Join, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return add(x, sums(_numbers(x), indices, updates, axis))


def _subtracted(sums: Join, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return sub(x, sums(_numbers(x), indices, updates, axis))


def _numbers(x: Tensor) -> Tensor:
    if x.dtype is bool_:
        raise GraphTypeError(f"Numbers can be added by index, and {x.type} holds none; cast it first.")
    return x


def _joined(name: str, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return apply(name, x, indices, updates, axis=axis)


def _divided(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Quotients of integers are rounded towards zero."""
    divisor = apply("scatter_mul", ones_like(x), indices, updates, axis=axis)
    if x.dtype.is_float:
        return div(x, divisor)
    return mul(mul(sign(x), sign(divisor)), floor_div(abs(x), abs(divisor)))


def _by_slices(join: Join, x: Tensor, indices: Tensor, slices: Tensor, axis: int) -> Tensor:
    column = reshape(indices, (-1, *(1 for _ in x.shape[axis + 1 :])))
    return join(x, broadcast_to(column, slices.shape), slices, axis)


OF_ELEMENTS: dict[str, Join] = {
    "none": replaced_elements,
    "add": partial(_added, _sums_of_elements),
    "sub": partial(_subtracted, _sums_of_elements),
    "mul": partial(_joined, "scatter_mul"),
    "div": _divided,
    "max": partial(_joined, "scatter_max"),
    "min": partial(_joined, "scatter_min"),
}
"""Joins by indices of the shape of what is written, which has the other sizes of x."""

OF_SLICES: dict[str, Join] = {
    "none": replaced,
    "add": partial(_added, _sums),
    "sub": partial(_subtracted, _sums),
    **{name: partial(_by_slices, OF_ELEMENTS[name]) for name in ("mul", "div", "max", "min")},
}
"""Joins by a vector of indices, each for a slice of what is written."""
