"""Splitting, repeating, stacking and reversing tensors, and moving elements along axes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from graphls.base.checks import at_least, integer
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import broadcast_shapes, int64
from graphls.ops.arrays import shapes
from graphls.ops.arrays.creation import arange, zeros
from graphls.ops.arrays.shapes import (
    broadcast_to,
    concat,
    cut,
    expand_dims,
    gather,
    gather_elements,
    reshape,
    sequence_of,
    split,
    squeeze,
    swapaxes,
    transpose,
)
from graphls.ops.math.elementwise import cast, where
from graphls.ops.operands import ShapeLike, Sizes, accepts_scalars, apply, axis_of, operand_of, shape_of, tensor_of
from graphls.ops.record import operation, operator_class
from graphls.primitives.primitive import normalise_axes


@operation(names="unbind", also="mint.unbind")
def unstack(x: TensorLike, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along an axis, without that axis."""
    x = tensor_of(x)
    at = axis_of(axis, x.ndim)
    return tuple(squeeze(cut(x, at, i, i + 1), at) for i in range(x.shape[at]))


@operation(also="mint", checks={"chunks": at_least(1)})
def chunk(x: TensorLike, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """x split along an axis into at most that many pieces of equal size, of which the last may be smaller.

    Raises GraphValueError for less than one piece.
    """
    x = tensor_of(x)
    size = x.shape[axis_of(axis, x.ndim)]
    return split(x, -(-size // chunks), axis) if size else (x,)


@operation(also="numpy.array_split numpy.split")
def tensor_split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """x split along an axis into a number of pieces whose sizes differ by one at most, or at given positions.

    Raises GraphValueError for less than one piece.
    """
    x = tensor_of(x)
    at = axis_of(axis, x.ndim)
    size = x.shape[at]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise GraphValueError(f"tensor_split makes 1 piece or more, not {count}.")
        ends = [size // count * i + builtins.min(i, size % count) for i in range(count + 1)]
    else:
        ends = [0, *(slice(n).indices(size)[1] for n in shape_of(indices_or_sections)), size]
    return tuple(cut(x, at, start, builtins.max(start, end)) for start, end in pairwise(ends))


@operation(classes="Tile", also="numpy mint")
def tile(x: TensorLike, multiples: TensorLike) -> Tensor:
    """x repeated along each axis by the number in `multiples`; more numbers than axes add axes in front.

    Raises GraphValueError for a negative number.
    """
    x, times = tensor_of(x), shape_of(multiples)
    if builtins.min(times, default=0) < 0:
        raise GraphValueError(f"tile repeats 0 times or more, not {times}.")
    rank = builtins.max(x.ndim, len(times))
    times = (*(1 for _ in range(rank - len(times))), *times)
    shape = (*(1 for _ in range(rank - x.ndim)), *x.shape)
    spread = reshape(x, tuple(n for size in shape for n in (1, size)))
    spread = broadcast_to(spread, tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    return reshape(spread, tuple(n * m for n, m in zip(times, shape, strict=True)))


@operation
def repeat_elements(x: Any, rep: int, axis: int = 0) -> Tensor:
    """Every slice along an axis repeated that many times in a row."""
    return repeat_interleave(x, rep, axis)


@operation(also="mint")
def repeat_interleave(x: TensorLike, repeats: ShapeLike, axis: int | None = None) -> Tensor:
    """Every slice along an axis, or every element, repeated in a row: all equally often, or each by its own number.

    Raises GraphValueError for a negative number and for a sequence that does not fit, GraphTypeError for repeats that
    the graph computes.
    """
    x = tensor_of(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    at = axis_of(axis, x.ndim)
    if isinstance(repeats, Symbol):
        raise GraphTypeError("The shape of repeat_interleave by a computed tensor is not static.")
    counts = shape_of(repeats.tolist() if isinstance(repeats, (Tensor, np.ndarray)) else repeats)
    if not counts or len(counts) not in (1, x.shape[at]) or builtins.min(counts, default=0) < 0:
        raise GraphValueError(f"repeat_interleave cannot repeat {x.shape[at]} slices {repeats} times.")
    if len(counts) > 1:
        return gather(x, np.repeat(np.arange(len(counts)), counts), at)
    before, after = x.shape[: at + 1], x.shape[at + 1 :]
    spread = broadcast_to(expand_dims(x, at + 1), (*before, counts[0], *after))
    return reshape(spread, (*before[:-1], x.shape[at] * counts[0], *after))


@operation
def expand(x: TensorLike, size: Sizes) -> Tensor:
    """x broadcast to a wider shape, in which -1 keeps the size of x."""
    return broadcast_to(x, size)


@operation
def expand_as(x: TensorLike, other: TensorLike) -> Tensor:
    """x broadcast to the shape of another tensor."""
    return broadcast_to(x, tensor_of(other).shape)


@operation(also="mint")
def broadcast_tensors(*tensors: TensorLike) -> tuple[Tensor, ...]:
    """Tensors, each broadcast to their common shape."""
    operands = [tensor_of(t) for t in tensors]
    shape = broadcast_shapes(*(t.shape for t in operands))
    return tuple(broadcast_to(t, shape) for t in operands)


@operation(also="numpy")
def atleast_1d(x: TensorLike) -> Tensor:
    """x with at least one axis."""
    x = tensor_of(x)
    return x if x.ndim else reshape(x, (1,))


@operation(also="numpy")
def atleast_2d(x: TensorLike) -> Tensor:
    """x with at least two axes; a vector becomes a matrix of one row."""
    x = atleast_1d(x)
    return expand_dims(x, 0) if x.ndim == 1 else x


@operation(also="numpy")
def atleast_3d(x: TensorLike) -> Tensor:
    """x with at least three axes; a vector of n elements becomes (1, n, 1), a matrix gets a last axis of size 1."""
    x = atleast_2d(x)
    return expand_dims(x, -1) if x.ndim == 2 else x


@operation(also="numpy")
def hstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along their second axis, vectors and numbers along their first."""
    operands = [atleast_1d(t) for t in sequence_of("hstack", tensors)]
    return concat(operands, 0 if operands[0].ndim == 1 else 1)


@operation(names="row_stack", also="numpy")
def vstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along their first axis; vectors are rows."""
    return concat([atleast_2d(t) for t in sequence_of("vstack", tensors)], 0)


@operation
def dstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along their third axis."""
    return concat([atleast_3d(t) for t in sequence_of("dstack", tensors)], 2)


@operation
def column_stack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along their second axis; vectors are columns."""
    columns = [reshape(t, (-1, 1)) if t.ndim < 2 else t for t in sequence_of("column_stack", tensors)]
    return concat(columns, 1)


@operation
def block_diag(*tensors: TensorLike) -> Tensor:
    """A block diagonal matrix of the given matrices; vectors count as rows, numbers as matrices of one element.

    Raises GraphValueError for more axes.
    """
    blocks = [atleast_2d(t) for t in dispatch.promoted(*map(operand_of, tensors))] if tensors else []
    if any(block.ndim > 2 for block in blocks):
        raise GraphValueError("block_diag takes tensors of two axes at most.")
    width, left, rows = builtins.sum(block.shape[1] for block in blocks), 0, []
    for block in blocks:
        height, own = block.shape
        right = width - left - own
        rows.append(concat((zeros((height, left), block.dtype), block, zeros((height, right), block.dtype)), 1))
        left += own
    return concat(rows, 0) if rows else zeros((1, 0))


@operation(also="numpy")
def meshgrid(*inputs: TensorLike, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid: each vector along its own axis, broadcast along those of the others.

    The vectors are separate arguments or one tuple. With "xy" the first two axes are exchanged. Raises GraphValueError
    for another `indexing` and for tensors with more axes.
    """
    if indexing not in ("xy", "ij"):
        raise GraphValueError(f"'indexing' is 'xy' or 'ij', not {indexing!r}.")
    vectors = [tensor_of(x) for x in (inputs[0] if inputs and isinstance(inputs[0], (tuple, list)) else inputs)]
    if any(v.ndim > 1 for v in vectors):
        raise GraphValueError("meshgrid takes vectors.")
    positions = list(range(len(vectors)))
    if indexing == "xy":
        positions[:2] = positions[:2][::-1]
    shape = tuple(vectors[i].size for i in positions)
    columns = [reshape(v, (-1, *(1 for _ in shape[at + 1 :]))) for v, at in zip(vectors, positions, strict=True)]
    return tuple(broadcast_to(column, shape) for column in columns)


@operator_class("Unpack Unstack", "axis num")
def _unstack(x: TensorLike, axis: int = 0, num: int | None = None) -> Any:
    """The slices along an axis; raises GraphValueError unless there are `num` of them."""
    slices = unstack(x, axis)
    if num is not None and num != len(slices):
        raise GraphValueError(f"Unstack finds {len(slices)} slices, not {num}.")
    return slices


@operator_class("Meshgrid", "indexing", like=meshgrid)
def _meshgrid(inputs: Tensor, indexing: str = "xy") -> Any:
    return meshgrid(*inputs, indexing=indexing)


@operator_class("IdentityN")
def _identities(x: Tensor) -> tuple[Tensor, ...]:
    """The tensors of a tuple themselves."""
    return tuple(map(tensor_of, x))


@operator_class("Expand", like=expand)
def _expand(x: TensorLike, shape: Sizes) -> Tensor:
    return expand(x, shape_of(shape))


@operator_class("DataFormatDimMap", "src_format dst_format")
def _format_axis(input_x: TensorLike, src_format: str = "NHWC", dst_format: str = "NCHW") -> Tensor:
    """Maps the numbers of axes in one format to those of the same axes in another."""
    x = tensor_of(input_x)
    return cast(shapes.gather(Tensor(_order(src_format, dst_format)), x % len(src_format)), x.dtype)


@operator_class("DataFormatVecPermute", "src_format dst_format")
def _format_order(input_x: TensorLike, src_format: str = "NHWC", dst_format: str = "NCHW") -> Tensor:
    """A vector of four numbers, or of pairs, one for each axis of a format, in the order of another format."""
    return shapes.gather(input_x, Tensor(_order(src_format, dst_format)))


def _order(source: str, target: str) -> list[int]:
    if sorted(source) != sorted(target) or sorted(source) != sorted("NHWC"):
        raise GraphValueError(f"Formats are orders of the letters NCHW, not {source!r}, {target!r}.")
    return [source.index(letter) for letter in target]


Axes = int | Sequence[int]


@operation(names="moveaxis", also="numpy.moveaxis")
def movedim(x: TensorLike, source: Axes, destination: Axes) -> Tensor:
    """x with axes moved to other positions; the other axes keep their order.

    Raises GraphValueError where the numbers of axes differ, or an axis is named twice.
    """
    x = tensor_of(x)
    sources, positions = (tuple(axis_of(a, x.ndim) for a in shape_of(axes)) for axes in (source, destination))
    if len(sources) != len(positions) or len(set(sources)) < len(sources) or len(set(positions)) < len(positions):
        message = f"movedim cannot move the axes {source} to {destination}: they must be as many, and each named once."
        raise GraphValueError(message)
    order = [i for i in range(x.ndim) if i not in sources]
    for position, axis in sorted(zip(positions, sources, strict=True)):
        order.insert(position, axis)
    return transpose(x, order)


@operation(also="numpy mint")
@accepts_scalars
def flip(x: TensorLike, dims: Axes) -> Tensor:
    """x with its elements in reverse order along some axes; raises GraphValueError for an axis named twice."""
    x = tensor_of(x)
    axes = normalise_axes(tuple(axis_of(a, x.ndim) for a in shape_of(dims)), x.ndim)
    return apply("reverse", x, axes=axes) if axes else tensor_of(x)


@operation(classes="ReverseV2", settings="axis")
def reverse(x: TensorLike, axis: Axes) -> Tensor:
    """x with its elements in reverse order along some axes, as `flip`."""
    return flip(x, axis)


@operation(also="numpy")
def fliplr(x: TensorLike) -> Tensor:
    """x with its elements in reverse order along the second axis."""
    return flip(x, 1)


@operation(also="numpy")
def flipud(x: TensorLike) -> Tensor:
    """x with its elements in reverse order along the first axis."""
    return flip(x, 0)


@operation(also="numpy mint")
def roll(x: Any, shifts: Axes, dims: Axes | None = None) -> Tensor:
    """x shifted along axes, or as one row of elements; elements beyond the end reappear at the start.

    Raises GraphValueError where the numbers of shifts and of axes differ.
    """
    x, by = tensor_of(x), shape_of(shifts)
    if dims is None:
        flat = reshape(x, (-1,))
        return reshape(roll(flat, sum(by), 0), x.shape)
    axes = shape_of(dims)
    by = by * len(axes) if len(by) == 1 else by
    if len(by) != len(axes):
        raise GraphValueError(f"roll takes a shift for each axis, not {shifts} for {dims}.")
    for shift, axis in zip(by, axes, strict=True):
        x = _rolled(x, shift, axis_of(axis, x.ndim))
    return tensor_of(x)


def _rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    size = x.shape[axis]
    start = -shift % size if size else 0
    return concat((cut(x, axis, start, size), cut(x, axis, 0, start)), axis) if start else x


@operation(also="numpy mint", checks={"k": integer})
def rot90(x: TensorLike, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """x rotated k times by 90 degrees in the plane of two axes, from the first towards the second.

    Raises GraphValueError for anything but two different axes.
    """
    x = tensor_of(x)
    plane = tuple(axis_of(a, x.ndim) for a in shape_of(dims))
    if len(set(plane)) != 2 or len(plane) != 2:
        raise GraphValueError(f"rot90 turns in the plane of two different axes, not of {dims}.")
    first, second = plane
    flipped = flip(x, ((), (second,), plane, (first,))[k % 4])
    return swapaxes(flipped, first, second) if k % 2 else flipped


@operation
def sequence_mask(lengths: TensorLike, maxlen: int | None = None) -> Tensor:
    """Masks of lengths: true at the positions below each length, along a new last axis of size `maxlen`.

    The default of `maxlen` is the largest length; raises GraphTypeError where the graph computes the lengths.
    """
    lengths = tensor_of(lengths)
    size = maxlen if maxlen is not None else int(lengths.array.max(initial=0))
    return arange(size, dtype=lengths.dtype) < expand_dims(lengths, -1)


@operation(classes="ReverseSequence", settings="seq_dim batch_dim")
def reverse_sequence(x: TensorLike, seq_lengths: TensorLike, seq_dim: int, batch_dim: int = 0) -> Tensor:
    """x with its first elements along `seq_dim` in reverse order, as many as the length of the sequence.

    There is a length for each position along `batch_dim`. Raises GraphValueError for other shapes.
    """
    x, lengths = tensor_of(x), tensor_of(seq_lengths).astype(int64)
    along, batch = axis_of(seq_dim, x.ndim), axis_of(batch_dim, x.ndim)
    if along == batch or lengths.shape != (x.shape[batch],):
        raise GraphValueError(
            f"reverse_sequence of {x.type} takes two different axes and {x.shape[batch]} lengths, not {lengths.type}.",
        )
    lengths = reshape(lengths, [-1 if i == batch else 1 for i in range(x.ndim)])
    positions = reshape(arange(x.shape[along]), [-1 if i == along else 1 for i in range(x.ndim)])
    positions = where(positions < lengths, lengths - 1 - positions, positions)
    return gather_elements(x, along, broadcast_to(positions, x.shape))


@operator_class("Roll", "shift axis", like=roll)
def _roll(x: Any, shift: Sizes, axis: Any) -> Any:
    return roll(x, shift, axis)
