"""Operator classes of parts, places and other names of tensors (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.ir.checks import integer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import int32
from graphls.ops import arrangement, conversions, scattering, selection, shapes
from graphls.ops.creation import full
from graphls.ops.elementwise import cast, mod, sub
from graphls.ops.logic import bool_of, where
from graphls.ops.operands import axis_of, shape_of, tensor_of
from graphls.ops.record import operator_class
from graphls.ops.scans import cumsum
from graphls.ops.sorting import sort
from graphls.tensors.tensor import Tensor


@operator_class("IdentityN")
def _identities(x: Any) -> tuple[Tensor, ...]:
    """The tensors of a tuple themselves."""
    return tuple(map(tensor_of, x))


@operator_class("SplitV", "size_splits split_dim num_split")
def _split(input_x: Any, size_splits: Any, split_dim: int, num_split: int) -> tuple[Tensor, ...]:
    """x cut along an axis into pieces of some sizes, of which one may be -1, the rest.

    Raises GraphValueError where they are not `num_split` or do not fit.
    """
    x, sizes = tensor_of(input_x), list(shape_of(size_splits))
    if len(sizes) != num_split or sizes.count(-1) > 1:
        message = f"SplitV takes {num_split} sizes, of which one may be -1, not {sizes}."
        raise GraphValueError(message)
    rest = x.shape[axis_of(split_dim, x.ndim)] - sum(size for size in sizes if size != -1)
    return shapes.split(x, [rest if size == -1 else size for size in sizes], split_dim)


@operator_class("FillV2")
def _fill(shape: Any, value: Any) -> Tensor:
    """A number, in its own dtype, everywhere in a shape that is known."""
    return full(shape_of(shape), value)


@operator_class("Expand", like=arrangement.expand)
def _expand(x: Any, shape: Any) -> Tensor:
    return arrangement.expand(x, shape_of(shape))


@operator_class("DynamicShape", "dtype", like=conversions.dyn_shape)
def _dynamic_shape(input: Any, dtype: int = 9) -> Tensor:
    return conversions.dyn_shape(input)


@operator_class("SelectView")
def _select(input_tensor: Any, input_indices: int, axis: int) -> Tensor:
    """One slice along an axis, without that axis."""
    return shapes.gather(input_tensor, integer("SelectView", "input_indices", input_indices), axis)


def _bound(right: bool) -> Callable[..., Any]:
    def bound(sorted_x: Any, values: Any, out_type: Any = int32) -> Tensor:
        return cast(selection.searchsorted(sorted_x, values, right=right), out_type)

    bound.__doc__ = f"The positions in rising rows {'behind' if right else 'before'} which values keep them so."
    return bound


@operator_class("MaskedScatter")
def _masked_scatter(x: Any, mask: Any, updates: Any) -> Tensor:
    """x with the elements of `updates`, in order, where a mask that broadcasts is true; they are enough, or repeated.

    Raises GraphTypeError for updates of another dtype.
    """
    target, source = tensor_of(x), shapes.reshape(tensor_of(updates), (-1,))
    if source.dtype is not target.dtype:
        message = f"MaskedScatter takes updates of the dtype of {target.type}, not {source.type}; cast them."
        raise GraphTypeError(message)
    chosen = shapes.broadcast_to(bool_of(mask), target.shape)
    numbers = sub(cumsum(cast(shapes.reshape(chosen, (-1,)), int32), 0), 1)
    taken = shapes.gather(source, mod(numbers, max(source.size, 1)))
    return where(chosen, shapes.reshape(taken, target.shape), target)


@operator_class("NthElement", "reverse")
def _nth_element(input: Any, n: Any, reverse: bool = False) -> Tensor:
    """The number that n others along the last axis are below, or above with `reverse`.

    Raises GraphValueError for an n out of range.
    """
    x = tensor_of(input)
    place = integer("NthElement", "n", tensor_of(n).item())
    if not x.ndim or not 0 <= place < x.shape[-1]:
        raise GraphValueError(f"NthElement has no element {place} along the last axis of {x.type}.")
    return shapes.gather(sort(x, -1, bool(reverse))[0], place, -1)


@operator_class("IndexPut", "accumulate")
def _index_put(x1: Any, x2: Any, indices: Any, accumulate: int = 0) -> Tensor:
    """x1 with x2, one number or one for each place, written or, with `accumulate`, added at index tensors."""
    x, values = tensor_of(x1), tensor_of(x2)
    places = shapes.stack([*arrangement.broadcast_tensors(*indices)], -1)
    values = shapes.broadcast_to(values, (*places.shape[:-1], *x.shape[places.shape[-1] :]))
    return (scattering.tensor_scatter_add if accumulate else scattering.tensor_scatter_update)(x, places, values)


@operator_class("ScatterAddWithAxis", "axis", like=scattering.tensor_scatter_elements)
def _scatter_add_along(input_x: Any, indices: Any, updates: Any, axis: int = 0) -> Tensor:
    return scattering.tensor_scatter_elements(input_x, indices, updates, axis, "add")


@operator_class("ListDiff", "out_idx")
def _difference(x: Any, y: Any, out_idx: Any = int32) -> tuple[Tensor, Tensor]:
    """The elements of a known vector that another known one does not have, and their positions."""
    first, second = selection.known("ListDiff", x), selection.known("ListDiff", y)
    places = np.flatnonzero(~np.isin(first.array, second.array))
    return Tensor(first.array[places], first.dtype), Tensor(places, out_idx)


operator_class("LowerBound", "out_type")(_bound(False))
operator_class("UpperBound", "out_type")(_bound(True))
