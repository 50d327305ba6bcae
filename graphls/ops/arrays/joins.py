"""What is made of elements and of those that are written over them: replaced, added, multiplied, the larger ones."""

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
"""x, indices along an axis, what they name the positions of, and the axis; gives another x."""


def replaced(x: Tensor, indices: Tensor, slices: Tensor, axis: int) -> Tensor:
    """x with slices in the positions along an axis that indices name; of several for one position the last."""
    nobody = full((x.shape[axis],), -1, dtype=int64)
    last = apply("scatter_max", nobody, indices, arange(indices.size), axis=0)
    chosen = gather(slices, maximum(last, 0), axis)
    is_written = reshape(last >= 0, (-1, *(1 for _ in x.shape[axis + 1 :])))
    return where(is_written, chosen, x)


def replaced_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """x with single elements in the positions along an axis that indices name; of several for one position the last."""
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
        raise GraphTypeError(f"Numbers can be added by index, and {x.type} holds none; cast it first.")
    return x


def _joined(name: str, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return apply(name, x, indices, updates, axis=axis)


def _divided(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Quotients of integers are rounded towards zero."""
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
"""Joins by indices of the shape of what is written, which has the other sizes of x."""

OF_SLICES: dict[str, Join] = {
    "none": replaced,
    "add": partial(_added, _sums),
    "sub": partial(_subtracted, _sums),
    **{name: partial(_by_slices, OF_ELEMENTS[name]) for name in ("mul", "div", "max", "min")},
}
"""Joins by a vector of indices, each for a slice of what is written."""


@operation
def cartesian_prod(*inputs: TensorLike) -> Tensor:
    """Rows with one element of each vector, in every combination, of which the last element changes first.

    Raises GraphValueError for what is no vector.
    """
    vectors = sequence_of("cartesian_prod", inputs)
    for vector in vectors:
        _require_vector("cartesian_prod", vector)
    return reshape(stack(meshgrid(*vectors, indexing="ij"), -1), (-1, len(vectors)))


@operation(checks={"r": at_least(0)})
def combinations(input: TensorLike, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Rows of `r` elements of a vector in their order, every choice once.

    With `with_replacement` an element may stand in a row more than once. Raises GraphValueError for
    what is no vector and for an `r` below 0.
    """
    x, count = tensor_of(input), r
    _require_vector("combinations", x)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(x.size), count))
    positions = np.array(rows, np.int64).reshape(len(rows), count)
    return gather(x, Tensor(positions)) if x.size and positions.size else zeros(positions.shape, x.dtype)


@operation(checks={"N": optional(at_least(0))})
def vander(x: TensorLike, N: int | None = None) -> Tensor:
    """The powers of each element of a vector, as columns from exponent N - 1 to 0; N is the size of x unless given.

    Raises GraphValueError for what is no vector and for an N below 0.
    """
    x = tensor_of(x)
    _require_vector("vander", x)
    count = x.size if N is None else N
    powers = list(itertools.accumulate([x] * (count - 1), mul, initial=ones_like(x)))[:count]
    return stack(powers[::-1], -1) if powers else zeros((x.size, 0), x.dtype)


def _require_vector(name: str, x: Tensor) -> None:
    if x.ndim != 1:
        raise GraphValueError(f"{name} takes vectors, not {x.type}.")
