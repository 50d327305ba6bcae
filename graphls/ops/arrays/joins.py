"""Combining elements with updates at indices (replaced, added, multiplied, extremes), and combinations of vectors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from graphls.base.checks import at_least, optional
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import bool_, int64
from graphls.ops.arrays.arrangement import meshgrid
from graphls.ops.arrays.creation import arange, full, ones_like, zeros
from graphls.ops.arrays.shapes import broadcast_to, gather, gather_elements, reshape, sequence_of, stack
from graphls.ops.math.elementwise import abs, maximum, mul, sign, where
from graphls.ops.operands import apply, tensor_of
from graphls.ops.record import operation

Join = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""A function of x, indices along an axis, the updates at these indices, and the axis; returns the new x."""


def replaced(x: Tensor, indices: Tensor, slices: Tensor, axis: int) -> Tensor:
    """x with the slices at indices along an axis replaced; of several updates for one position the last wins."""
    unwritten = full((x.shape[axis],), -1, dtype=int64)
    last = apply("scatter_max", unwritten, indices, arange(indices.size), axis=0)
    chosen = gather(slices, maximum(last, 0), axis)
    is_written = reshape(last >= 0, (-1, *(1 for _ in x.shape[axis + 1 :])))
    return where(is_written, chosen, x)


def replaced_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """x with the elements at indices along an axis replaced; of several updates for one position the last wins."""
    numbers = reshape(arange(indices.shape[axis]), (-1, *(1 for _ in x.shape[axis + 1 :])))
    numbers = broadcast_to(numbers, indices.shape)
    last = apply("scatter_max", full(x.shape, -1, dtype=int64), indices, numbers, axis=axis)
    return where(last >= 0, gather_elements(updates, axis, maximum(last, 0)), x)


def _sums(x: Tensor, indices: Tensor, slices: Tensor, axis: int) -> Tensor:
    return apply("gather_gradient", slices, indices, axis=axis, size=x.shape[axis])


def _sums_of_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return apply("gather_elements_gradient", updates, indices, axis=axis, size=x.shape[axis])


def _added(sums: Join, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return x + sums(_numbers(x), indices, updates, axis)


def _subtracted(sums: Join, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return x - sums(_numbers(x), indices, updates, axis)


def _numbers(x: Tensor) -> Tensor:
    if x.dtype is bool_:
        raise GraphTypeError(f"Only numbers can be added by index, not {x.type}; cast it first.")
    return x


def _joined(name: str, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return apply(name, x, indices, updates, axis=axis)


def _divided(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """x divided by the updates; integer quotients are rounded towards zero."""
    divisor = apply("scatter_mul", ones_like(x), indices, updates, axis=axis)
    if x.dtype.is_float:
        return x / divisor
    return sign(x) * sign(divisor) * (abs(x) // abs(divisor))


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
"""Joins by indices with the shape of the updates, whose other sizes are those of x."""

OF_SLICES: dict[str, Join] = {
    "none": replaced,
    "add": partial(_added, _sums),
    "sub": partial(_subtracted, _sums),
    **{name: partial(_by_slices, OF_ELEMENTS[name]) for name in ("mul", "div", "max", "min")},
}
"""Joins by a vector of indices, one for each slice of the updates."""


@operation
def cartesian_prod(*inputs: TensorLike) -> Tensor:
    """The Cartesian product of vectors as rows, with the last element changing fastest.

    Raises GraphValueError for anything but vectors.
    """
    vectors = sequence_of("cartesian_prod", inputs)
    for vector in vectors:
        _require_vector("cartesian_prod", vector)
    return reshape(stack(meshgrid(*vectors, indexing="ij"), -1), (-1, len(vectors)))


@operation(checks={"r": at_least(0)})
def combinations(input: TensorLike, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a vector in their order, as rows.

    With `with_replacement` a row may have an element more than once. Raises GraphValueError for anything but a vector
    and for an `r` below 0.
    """
    x, count = tensor_of(input), r
    _require_vector("combinations", x)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(x.size), count))
    positions = np.array(rows, np.int64).reshape(len(rows), count)
    return gather(x, Tensor(positions)) if x.size and positions.size else zeros(positions.shape, x.dtype)


@operation(checks={"N": optional(at_least(0))})
def vander(x: TensorLike, N: int | None = None) -> Tensor:
    """The Vandermonde matrix of a vector: powers as columns from exponent N - 1 to 0; N is the size of x by default.

    Raises GraphValueError for anything but a vector and for an N below 0.
    """
    x = tensor_of(x)
    _require_vector("vander", x)
    count = x.size if N is None else N
    powers = list(itertools.accumulate([x] * (count - 1), mul, initial=ones_like(x)))[:count]
    return stack(powers[::-1], -1) if powers else zeros((x.size, 0), x.dtype)


def _require_vector(name: str, x: Tensor) -> None:
    if x.ndim != 1:
        raise GraphValueError(f"{name} takes vectors, not {x.type}.")
