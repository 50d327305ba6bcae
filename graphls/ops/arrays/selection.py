"""Selecting parts of tensors by indices, masks, slices and runs; sorting and searching."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from graphls.base.checks import integer
from graphls.base.errors import GraphIndexError, GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import DTypeLike, bool_, broadcast_shapes, float64, int32, int64
from graphls.ops.arrays import shapes
from graphls.ops.arrays.creation import full, ones
from graphls.ops.arrays.indexing import getitem
from graphls.ops.arrays.joins import replaced
from graphls.ops.arrays.shapes import broadcast_to, concat, cut, expand_dims, gather, gather_elements, reshape, squeeze
from graphls.ops.math.elementwise import bool_of, cast, less, less_equal, where
from graphls.ops.math.reductions import cumsum, sum
from graphls.ops.operands import ShapeLike, Sizes, accepts_scalars, apply, axis_of, operand_of, shape_of, tensor_of
from graphls.ops.record import operation, operator_class


@operation(classes="TopK", settings="sorted", also="mint", checks={"k": integer})
@accepts_scalars
def topk(
    input: TensorLike, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k largest, or smallest, elements along an axis (default the last), in order, and their int32 positions.

    They are in order whatever `sorted` is. Raises GraphTypeError for a k that is not an integer, GraphValueError for
    one above the number of elements.
    """
    x = tensor_of(input)
    return _ordered(x, k, -1 if dim is None else dim, largest)


def _ordered(x: Tensor, k: int | None, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    at = axis_of(axis, x.ndim)
    numbers = cast(x, int32) if x.dtype is bool_ else x
    count = x.shape[at] if k is None else k
    values, positions = dispatch.apply("top_k", numbers, k=count, axis=at, largest=bool(largest))
    return cast(values, x.dtype) if x.dtype is bool_ else values, cast(positions, int32)


@operation(classes="Sort", settings="axis descending", also="mint")
@accepts_scalars
def sort(input_x: TensorLike, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The elements along an axis in ascending or descending order, and their int32 positions."""
    return _ordered(tensor_of(input_x), None, axis, descending)


@operation(also="mint")
def argsort(input: TensorLike, axis: int = -1, descending: bool = False) -> Tensor:
    """The int32 positions of the elements along an axis in ascending or descending order."""
    return sort(input, axis, descending)[1]


@operation
def msort(input: TensorLike) -> Tensor:
    """The elements along the first axis in ascending order."""
    return sort(input, 0)[0]


@operation
@accepts_scalars
def kthvalue(input: TensorLike, k: int, axis: int = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along an axis, counted from 1, and its int32 position.

    Raises GraphValueError for a k below 1 or above the number of elements.
    """
    x = tensor_of(input)
    at = axis_of(axis, x.ndim)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= x.shape[at]:
        message = f"kthvalue takes a 'k' from 1 to the {x.shape[at]} elements along axis {axis}, not {k!r}."
        raise GraphValueError(message)
    parts = [cut(t, at, k - 1, k) for t in _ordered(x, k, axis, False)]
    values, positions = parts if keepdims else (squeeze(t, at) for t in parts)
    return values, positions


@operator_class("NthElement", "reverse")
def _nth_element(input: TensorLike, n: TensorLike, reverse: bool = False) -> Tensor:
    """The element at index n of the last axis in ascending order, or in descending order with `reverse`.

    Raises GraphValueError for an n out of range.
    """
    x = tensor_of(input)
    index = integer("NthElement", "n", tensor_of(n).item())
    if not x.ndim or not 0 <= index < x.shape[-1]:
        raise GraphValueError(f"NthElement has no element {index} along the last axis of {x.type}.")
    return shapes.gather(sort(x, -1, bool(reverse))[0], index, -1)


@operation(also="mint")
def index_select(input: TensorLike, axis: int, index: TensorLike) -> Tensor:
    """The slices at a vector of indices along an axis; raises GraphValueError for indices with more axes."""
    positions = tensor_of(index)
    if positions.ndim > 1:
        raise GraphValueError(f"index_select takes a vector of integers, not {positions.type}.")
    return gather(input, reshape(positions, (-1,)), axis)


@operation
def take_along_axis(x: TensorLike, indices: TensorLike, axis: int) -> Tensor:
    """The elements at indices along an axis; along the other axes both broadcast."""
    x, positions = tensor_of(x), tensor_of(indices)
    at = axis_of(axis, x.ndim)
    if positions.ndim != x.ndim:
        message = f"take_along_axis takes indices with the {x.ndim} axes of {x.type}, not {positions.type}."
        raise GraphValueError(message)
    along = (x.shape[at], positions.shape[at])
    shapes = [tuple(1 if i == at else n for i, n in enumerate(t.shape)) for t in (x, positions)]
    common = np.broadcast_shapes(*shapes) if _broadcast(*shapes) else None
    if common is None:
        message = f"take_along_axis of {x.type} cannot take indices {positions.type} along axis {axis}."
        raise GraphValueError(message)
    wide = [tuple(n if i == at else m for i, m in enumerate(common)) for n in along]
    return gather_elements(broadcast_to(x, wide[0]), at, broadcast_to(positions, wide[1]))


def _broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    return all(n == m or 1 in (n, m) for n, m in zip(first, second, strict=True))


@operation(classes="MaskedFill", in_place="masked_fill_", also="mint")
def masked_fill(input_x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """x with one number, cast to its dtype, where a mask is true; x and the mask broadcast.

    Raises GraphValueError for a value with axes.
    """
    x = tensor_of(input_x)
    number = cast(value, x.dtype)
    if number.ndim:
        raise GraphValueError(f"masked_fill fills in one number, not {number.type}.")
    return where(mask, number, x)


@operation(classes="MaskedSelect", also="mint")
def masked_select(input: TensorLike, mask: TensorLike) -> Tensor:
    """The elements, in row-major order, where a constant mask is true; x and the mask broadcast.

    Raises GraphTypeError for a mask that the graph computes, because the shape would not be static.
    """
    x, chosen = tensor_of(input), known("masked_select", bool_of(mask))
    shape = broadcast_shapes(x.shape, chosen.shape) or (1,)
    return getitem(broadcast_to(x, shape), np.broadcast_to(chosen.array, shape))


@operation(names="argwhere", classes="NonZero", also="mint")
def nonzero(input: Any) -> Tensor:
    """The int64 coordinates of the nonzero elements of a constant tensor, one row for each.

    Raises GraphTypeError for a tensor that the graph computes, because the shape would not be static.
    """
    return Tensor(np.argwhere(known("nonzero", input).array))


@operation(classes="Unique")
def unique(input: TensorLike) -> tuple[Tensor, Tensor]:
    """The distinct elements of a constant tensor in ascending order, and the int32 position of each element in them.

    Raises GraphTypeError for a tensor that the graph computes, because the shape would not be static.
    """
    x = known("unique", input)
    distinct, positions = np.unique(x.array, return_inverse=True)
    return Tensor(distinct), Tensor(positions.reshape(x.shape), int32)


def known(name: str, x: TensorLike) -> Tensor:
    """A tensor whose elements determine a shape; raises GraphTypeError for one that the graph computes."""
    tensor = tensor_of(x)
    if isinstance(tensor, Symbol):
        raise GraphTypeError(
            f"The shape of {name} is not static for a {tensor.type} that the graph computes; use ops.where.",
        )
    return tensor


@operation(also="mint", checks={"minlength": integer})
def bincount(input: TensorLike, weights: TensorLike | None = None, minlength: int = 0) -> Tensor:
    """The counts, or sums of weights, of each integer of a vector, from 0 to the largest, or at least `minlength`.

    In a tensor that the graph computes, no integer may be `minlength` or more. Raises GraphValueError for anything but
    vectors of one size and for a negative constant.
    """
    x = tensor_of(input)
    counted = ones(x.shape, int64) if weights is None else tensor_of(weights)
    if x.ndim != 1 or counted.shape != x.shape or x.dtype.kind not in ("int", "uint"):
        message = f"bincount takes a vector of integers and weights of its size, not {x.type} and {counted.type}."
        raise GraphValueError(message)
    if isinstance(x, Symbol):
        if minlength < 1:
            raise GraphValueError("bincount of a tensor that the graph computes takes a 'minlength'.")
    elif x.size:
        minlength = builtins.max(minlength, int(x.array.max()) + 1)
        if x.array.min() < 0:
            raise GraphValueError(f"bincount takes integers of 0 or more, not {x.array.min()}.")
    return apply("gather_gradient", counted, cast(x, int64), axis=0, size=minlength)


@operation(also="mint")
def searchsorted(
    sorted_sequence: TensorLike, values: TensorLike, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: TensorLike | None = None,
) -> Tensor:  # fmt: skip
    """The insertion positions of values in a sorted sequence, along the last axis: before equal elements, or after.

    The sequence is a vector, or has the axes of the values except for the last; an unsorted one has the indices of its
    order in `sorter`, which has its shape. With `right`, or the `side` "right", positions are after equal elements.
    int64 unless `out_int32`. Every value is compared with the full sequence. Raises GraphValueError for other shapes
    and sides, and for the `side` "left" beside `right`.
    """
    rising, targets = dispatch.promoted(operand_of(sorted_sequence), operand_of(values))
    if not rising.ndim or (rising.ndim > 1 and rising.shape[:-1] != targets.shape[:-1]):
        message = f"searchsorted takes a vector, or one for each vector of {targets.type}, not {rising.type}."
        raise GraphValueError(message)
    rising = rising if sorter is None else _in_order(rising, tensor_of(sorter))
    rows = rising if rising.ndim == 1 else expand_dims(rising, -2)
    is_before = (less_equal if _is_right(right, side) else less)(rows, expand_dims(targets, -1))
    return sum(cast(is_before, int32 if out_int32 else int64), -1)


def _in_order(x: Tensor, order: Tensor) -> Tensor:
    if order.shape != x.shape:
        message = f"The sorter of searchsorted has an index for each element of {x.type}, not {order.type}."
        raise GraphValueError(message)
    return gather_elements(x, -1, order)


def _is_right(right: bool, side: str | None) -> bool:
    if side not in (None, "left", "right"):
        raise GraphValueError(f"The side of searchsorted is 'left' or 'right', not {side!r}.")
    if right and side == "left":
        raise GraphValueError("searchsorted cannot take right=True beside side='left'; give one of the two.")
    return right or side == "right"


@operation
def bucketize(input: TensorLike, boundaries: TensorLike, *, right: bool = False) -> Tensor:
    """The int32 bucket number of each element, between ascending boundaries.

    An element equal to a boundary is in the lower bucket, or in the upper one with `right`.
    """
    x = tensor_of(input)
    edges = cast(boundaries, float64) if x.dtype is float64 else tensor_of(boundaries)
    return searchsorted(edges, x, out_int32=True, right=right)


@operation(also="mint", checks={"start": integer, "length": integer})
def narrow(input: TensorLike, axis: int, start: int, length: int) -> Tensor:
    """`length` elements along an axis, beginning at `start`; raises GraphIndexError where x has fewer."""
    x = tensor_of(input)
    at = axis_of(axis, x.ndim)
    size, first, count = x.shape[at], start, length
    first = first + size if first < 0 else first
    if not 0 <= first <= first + count <= size:
        message = f"narrow cannot take {length} elements from {start} on along axis {axis} of {x.type}."
        raise GraphIndexError(message)
    return cut(x, at, first, first + count)


@operation(names="tensor_slice", classes="Slice")
def slice(input_x: TensorLike, begin: ShapeLike, size: Sizes) -> Tensor:
    """`size` elements along each axis, or all for -1, beginning at `begin`.

    Raises GraphValueError unless there is one of each for each axis, GraphIndexError where x has fewer elements.
    """
    x, starts, counts = tensor_of(input_x), shape_of(begin), shape_of(size)
    if not len(starts) == len(counts) == x.ndim:
        message = f"slice takes a start and a size for each axis of {x.type}, not {starts} and {counts}."
        raise GraphValueError(message)
    for axis, (start, count) in enumerate(zip(starts, counts, strict=True)):
        x = narrow(x, axis, start, x.shape[axis] - start if count == -1 else count)
    return tensor_of(x)


@operation(classes="StridedSlice", settings="begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask")
def strided_slice(
    input_x: TensorLike, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None,
    begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> Tensor:  # fmt: skip
    """The elements x[begin:end:stride] along the first axes.

    The bits of a mask are items of the index, the lowest the first: those whose `begin` or `end` is ignored, the one
    that stands for all remaining axes, those that are new axes, and those that select the element at `begin` without
    its axis. Raises GraphTypeError for a mask that is not an integer, GraphValueError for sequences of different
    lengths, GraphIndexError for too many items.
    """
    masks = begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask = (
        integer("strided_slice", "mask", mask) for mask in masks
    )
    starts, stops = shape_of(begin), shape_of(end)
    steps = shape_of(strides) if strides is not None else tuple(1 for _ in starts)
    if not len(starts) == len(stops) == len(steps):
        message = f"strided_slice takes as many ends and strides as begins, not {starts}, {stops} and {steps}."
        raise GraphValueError(message)
    index: list[Any] = []
    for i, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            index.append(Ellipsis)
        elif new_axis_mask & bit:
            index.append(None)
        elif shrink_axis_mask & bit:
            index.append(start)
        else:
            first, last = (None if begin_mask & bit else start), (None if end_mask & bit else stop)
            index.append(builtins.slice(first, last, step))
    return getitem(input_x, tuple(index))


@operator_class("SearchSorted", "dtype right", like=searchsorted)
def _search_sorted(sorted_sequence: TensorLike, values: TensorLike, dtype: Any = int64, right: bool = False) -> Any:
    return cast(searchsorted(sorted_sequence, values, right=right), dtype)


def _bound(right: bool) -> Callable[..., Any]:
    def bound(sorted_x: Any, values: Any, out_type: Any = int32) -> Tensor:
        return cast(searchsorted(sorted_x, values, right=right), out_type)

    bound.__doc__ = f"The insertion positions of values in sorted rows, {'after' if right else 'before'} equal ones."
    return bound


@operator_class("ListDiff", "out_idx")
def _difference(x: Any, y: Any, out_idx: DTypeLike = int32) -> tuple[Tensor, Tensor]:
    """The elements of a constant vector that are not in another one, and their positions."""
    first, second = known("ListDiff", x), known("ListDiff", y)
    positions = np.flatnonzero(~np.isin(first.array, second.array))
    return Tensor(first.array[positions], first.dtype), Tensor(positions, out_idx)


operator_class("LowerBound", "out_type")(_bound(False))
operator_class("UpperBound", "out_type")(_bound(True))


@operator_class("Bucketize", "boundaries")
def _buckets(input: TensorLike, boundaries: TensorLike) -> Any:
    """The int32 bucket number of each element, between ascending boundaries; one equal to a boundary is above it."""
    return bucketize(input, boundaries, right=True)


@operator_class("InvertPermutation")
def _inverted(x: TensorLike) -> tuple[int, ...]:
    """The inverse of a permutation, as a tuple; raises GraphValueError for anything else."""
    order = shape_of(x)
    if sorted(order) != list(range(len(order))):
        raise GraphValueError(f"{order} is not a permutation of the numbers from 0.")
    return tuple(int(i) for i in np.argsort(order))


@operator_class("UnravelIndex")
def _coordinates(indices: TensorLike, dims: ShapeLike) -> Tensor:
    """The coordinates of positions in row-major order in a shape, one row for each axis."""
    positions, sizes = tensor_of(indices), shape_of(dims)
    steps = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return shapes.stack([positions // step % size for step, size in zip(steps, sizes, strict=True)])


@operation(classes="UniqueConsecutive", settings="return_inverse return_counts dim")
def unique_consecutive(
    input: TensorLike, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements of a constant tensor, or its slices along an axis, without those equal to the one before.

    Optionally also the int32 position in the result of each element, and the lengths of the runs. Raises GraphTypeError
    for a tensor that the graph computes, because the shape would not be static.
    """
    x = known("unique_consecutive", input)
    array = np.moveaxis(x.array, axis_of(dim, x.ndim), 0) if dim is not None else x.array.reshape(-1)
    rows = array.reshape(len(array), -1 if array.size else 1)[:, : array.size]
    begins = np.ones(len(array), bool)
    begins[1:] = (rows[1:] != rows[:-1]).any(1)
    positions = (np.cumsum(begins) - 1).reshape(x.shape if dim is None else -1)
    counts = np.diff(np.append(np.flatnonzero(begins), len(array)))
    result = Tensor(np.moveaxis(array[begins], 0, dim or 0), x.dtype)
    extra = ((return_inverse, positions), (return_counts, counts))
    requested = tuple(Tensor(numbers, int32) for is_requested, numbers in extra if is_requested)
    return (result, *requested) if requested else result


@operation(classes="UniqueWithPad")
def unique_with_pad(x: TensorLike, pad_num: int) -> tuple[Tensor, Tensor]:
    """The distinct integers of a vector in ascending order, padded with `pad_num`, and the position of each element.

    Both have the shape and dtype of x, which the graph may compute. Raises GraphTypeError for other dtypes than int32
    and int64, GraphValueError for anything but a vector.
    """
    x = tensor_of(x)
    if x.dtype.kind != "int" or x.dtype.itemsize < 4:
        raise GraphTypeError(f"unique_with_pad takes int32 or int64, not {x.type}; cast it first.")
    if x.ndim != 1:
        raise GraphValueError(f"unique_with_pad takes a vector, not {x.type}.")
    size = x.shape[0]
    rising, order = sort(x)
    differs = cut(rising, 0, min(1, size), size) != cut(rising, 0, 0, max(size - 1, 0))
    begins = concat((ones((min(1, size),), bool_), differs), 0)
    numbers = cumsum(cast(begins, x.dtype), 0) - 1
    distinct = replaced(full((size,), pad_num, dtype=x.dtype), numbers, rising, 0)
    return distinct, replaced(full((size,), 0, dtype=x.dtype), order, numbers, 0)
