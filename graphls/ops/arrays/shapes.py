"""Reshaping, transposing, joining, splitting and gathering: functions that move elements."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from graphls.base.checks import integer
from graphls.base.errors import GraphIndexError, GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import int32, int64
from graphls.ops.operands import (
    Sizes,
    accepts_scalars,
    apply,
    axis_of,
    operand_of,
    shape_of,
    tensor_in,
    tensor_of,
    weight_of,
)
from graphls.ops.record import cell, in_place, operation, operator_class, tensor_method


@operation(names="view", classes="Reshape", also="numpy mint")
def reshape(x: object, *shape: Any) -> Tensor:
    """The same elements in row-major order in another shape, of which one size may be -1.

    The shape is given as one tuple or as separate integers. Raises GraphValueError where the sizes do not fit.
    """
    x, target = tensor_of(x), shape_of(shape[0] if len(shape) == 1 else shape)
    return x if x.shape == target else apply("reshape", x, shape=target)


@operation(names="permute", classes="Transpose TransposeView", also="numpy mint.permute")
def transpose(x: TensorLike, *permutation: object) -> Tensor:
    """Permutes the axes: axis i of the result is axis `permutation[i]` of x; reversed without one."""
    x = tensor_of(x)
    order = permutation[0] if len(permutation) == 1 else permutation
    axes = range(x.ndim)[::-1] if order is None or order == () else shape_of(order)
    return apply("transpose", x, permutation=tuple(axis_of(a, x.ndim) for a in axes))


@operation(classes="TransposeExtView", also="numpy mint")
def swapaxes(x: TensorLike, axis0: int, axis1: int) -> Tensor:
    """x with two axes exchanged."""
    x = tensor_of(x)
    order = list(range(x.ndim))
    first, second = axis_of(axis0, x.ndim), axis_of(axis1, x.ndim)
    order[first], order[second] = order[second], order[first]
    return apply("transpose", x, permutation=tuple(order))


@operation(names="unsqueeze", classes="ExpandDims", also="numpy mint.unsqueeze")
def expand_dims(x: TensorLike, axis: int) -> Tensor:
    """x with a new axis of size 1 at `axis`."""
    x = tensor_of(x)
    at = axis_of(axis, x.ndim + 1)
    return reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


@operation(also="numpy mint")
@accepts_scalars
def squeeze(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x without some axes of size 1, or without all of them; raises GraphValueError for an axis of another size."""
    x = tensor_of(x)
    every = tuple(i for i, n in enumerate(x.shape) if n == 1)
    requested = every if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = {axis_of(a, x.ndim) for a in requested}
    if not axes.issubset(every):
        raise GraphValueError(f"squeeze takes axes of size 1, and {x.type} has another at {axis}.")
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@cell("Flatten", "start_dim end_dim")
@operation(classes="Flatten", method=False)
def flatten(x: TensorLike, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """x with the axes from `start_dim` to `end_dim` merged, in row-major order; a number becomes f32[1].

    Raises GraphValueError for any other order.
    """
    x = tensor_of(x)
    if order != "C":
        raise GraphValueError(f"flatten takes the order 'C', not {order!r}.")
    if x.ndim < 2:
        return reshape(x, (x.size,))
    first, last = axis_of(start_dim, x.ndim), axis_of(end_dim, x.ndim)
    size = 1
    for n in x.shape[first : last + 1]:
        size *= n
    return reshape(x, (*x.shape[:first], size, *x.shape[last + 1 :]))


@operation(classes="BroadcastTo", settings="shape", also="numpy mint")
def broadcast_to(x: TensorLike, shape: Sizes) -> Tensor:
    """x broadcast to a wider shape by NumPy's rules; a size of -1 keeps that of x."""
    x, target = tensor_of(x), shape_of(shape)
    own = (1,) * (len(target) - x.ndim) + x.shape
    target = tuple(n if size == -1 else size for size, n in zip(target, own, strict=False))
    return x if x.shape == target else apply("broadcast_to", x, shape=target)


@operation(names="cat", classes="ParallelConcat", also="numpy.concatenate mint.cat mint")
@operator_class("Concat", "axis")
def concat(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors joined along an axis; raises GraphTypeError for anything but a sequence of tensors."""
    return apply("concat", *sequence_of("concat", tensors), axis=axis)


@operation(classes="Stack Pack", settings="axis", also="numpy mint")
def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    return apply("concat", *(expand_dims(t, axis) for t in sequence_of("stack", tensors)), axis=axis)


def sequence_of(name: str, tensors: TensorLike) -> tuple[Tensor, ...]:
    """Tensors in one dtype; raises GraphTypeError for anything but a tuple or list of them, or an empty one."""
    if not isinstance(tensors, (tuple, list)) or not tensors:
        raise GraphTypeError(f"{name} takes a tuple or list of one tensor or more, not {tensors!r}.")
    return dispatch.promoted(*map(operand_of, tensors))


@operation(also="mint")
def split(x: TensorLike, split_size_or_sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """x split along an axis into pieces of one size, of which the last may be smaller, or of given sizes.

    Raises GraphValueError where the sizes do not add up.
    """
    x = tensor_of(x)
    at = axis_of(axis, x.ndim)
    size = x.shape[at]
    sizes = _piece_sizes(size, split_size_or_sections)
    if builtins.sum(sizes) != size or builtins.min(sizes, default=0) < 0:
        raise GraphValueError(f"split cannot cut {size} elements into {split_size_or_sections}.")
    ends = list(accumulate(sizes))
    return tuple(cut(x, at, end - n, end) for n, end in zip(sizes, ends, strict=True))


def _piece_sizes(size: int, sections: int | Sequence[int]) -> list[int]:
    if not isinstance(sections, int):
        return list(shape_of(sections))
    if sections < 1:
        raise GraphValueError(f"split takes pieces of 1 element or more, not {sections}.")
    return [builtins.min(sections, size - start) for start in range(0, size, sections)]


def cut(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """The elements from `start` to `stop` along one axis."""
    starts = tuple(start if i == axis else 0 for i in range(x.ndim))
    stops = tuple(stop if i == axis else n for i, n in enumerate(x.shape))
    return apply("slice", x, starts=starts, stops=stops, steps=(1,) * x.ndim)


@operation(classes="Gather GatherV2 SparseGatherV2")
def gather(input_params: TensorLike, input_indices: object, axis: int = 0) -> Tensor:
    """The slices of a tensor at indices along an axis; the axes of the indices replace that axis.

    Raises GraphIndexError for a constant index out of range.
    """
    x = weight_of(input_params) if isinstance(input_params, Tensor) else Tensor(input_params)
    indices = tensor_of(input_indices)
    check_range(x, indices, axis_of(axis, x.ndim))
    return apply("gather", x, indices, axis=axis)


@operation(names="gather_d", classes="GatherD")
def gather_elements(x: TensorLike, dim: int, index: TensorLike) -> Tensor:
    """The elements of x at the indices along the axis `dim`.

    The other sizes of the indices are those of x or less. Raises GraphValueError for larger ones, GraphIndexError for
    a constant index out of range.
    """
    x, indices = tensor_of(x), tensor_of(index)
    at = axis_of(dim, x.ndim)
    check_range(x, indices, at)
    for axis, size in enumerate(indices.shape[: x.ndim]):
        x = cut(x, axis, 0, size) if axis != at and size < x.shape[axis] else x
    return apply("gather_elements", x, indices, axis=at)


def check_range(x: Tensor, indices: Tensor, axis: int) -> None:
    """Raise GraphIndexError for a constant index outside of an axis."""
    if isinstance(indices, Symbol) or indices.dtype not in (int32, int64):
        return
    size, array = x.shape[axis], indices.array
    wrong = array[(array < -size) | (array >= size)]
    if wrong.size:
        raise GraphIndexError(f"The index {wrong[0]} is out of range for an axis of size {size}.")


@in_place("copy_")
def _copied(x: Tensor, src: Tensor) -> Tensor:
    """The values of another tensor, broadcasting, in the dtype of this one."""
    return broadcast_to(tensor_in(src, x.dtype), x.shape)


@tensor_method()
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """The elements in the shape of another tensor."""
    return reshape(x, other.shape)


@operator_class("Squeeze", "axis")
def _squeeze(x: TensorLike, axis: Any = ()) -> Any:
    """x without some axes of size 1, or without all of them."""
    return squeeze(x, None if axis == () else axis)


@operator_class("Split", "axis output_num")
def _split(x: TensorLike, axis: int = 0, output_num: int = 1) -> Any:
    """x split along an axis into a number of equal pieces; raises GraphValueError where they cannot be equal."""
    x = tensor_of(x)
    size = x.shape[axis_of(axis, x.ndim)]
    if output_num not in range(1, size + 1) or size % output_num:
        raise GraphValueError(f"Split cannot cut {size} elements into {output_num} equal pieces.")
    return split(x, size // output_num, axis)


@operator_class("SplitV", "size_splits split_dim num_split")
def _split_sizes(input_x: TensorLike, size_splits: TensorLike, split_dim: int, num_split: int) -> tuple[Tensor, ...]:
    """x split along an axis into pieces of given sizes, of which one may be -1, for the remaining elements.

    Raises GraphValueError where there are not `num_split` sizes, or they do not fit.
    """
    x, sizes = tensor_of(input_x), list(shape_of(size_splits))
    if len(sizes) != num_split or sizes.count(-1) > 1:
        message = f"SplitV takes {num_split} sizes, of which one may be -1, not {sizes}."
        raise GraphValueError(message)
    remaining = x.shape[axis_of(split_dim, x.ndim)] - sum(size for size in sizes if size != -1)
    return split(x, [remaining if size == -1 else size for size in sizes], split_dim)


@operator_class("SelectView")
def _select(input_tensor: TensorLike, input_indices: int, axis: int) -> Tensor:
    """One slice along an axis, without that axis."""
    return gather(input_tensor, integer("SelectView", "input_indices", input_indices), axis)
