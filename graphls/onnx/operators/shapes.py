"""Operators that reshape, permute, slice, split, join and pad tensors."""

from __future__ import annotations

from math import prod

import numpy as np

from graphls import ops
from graphls.base.errors import GraphMemoryError, GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.interpreter import Running
from graphls.onnx.operators.conversion import check_size, repeated
from graphls.onnx.table import operator
from graphls.onnx.values import DependsOnData, Input, Ints, OptionalInput, Span, axes_of, integers, is_known
from graphls.ops.operands import apply, axis_of, tensor_of

_MOST_PARTS = 10_000
"""The largest number of parts that a tensor is split into."""


@operator("Reshape", known=(1,))
def reshape(x: Input, shape: Array, *, allowzero: int = 0) -> Input:
    sizes = list(integers(shape))
    if not allowzero:
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    elif 0 in sizes and -1 in sizes:
        raise GraphValueError(f"the shape {tuple(sizes)} has a 0 and a -1.")
    return np.reshape(x, sizes) if isinstance(x, np.ndarray) else ops.reshape(x, tuple(sizes))


@operator("Flatten")
def flatten(x: Input, *, axis: int = 1) -> Tensor:
    at = axis_of(axis, x.ndim) if axis < x.ndim else axis_of(axis, x.ndim + 1)
    return ops.reshape(x, (prod(x.shape[:at]), prod(x.shape[at:])))


@operator("Squeeze")
def squeeze_axes(x: Input, *, axes: Ints | None = None) -> Input:
    return without_axes(x, axes)


@operator("Squeeze", since=13, known=(1,))
def squeeze(x: Input, axes: Array | None = None) -> Input:
    return without_axes(x, None if axes is None else integers(axes))


def without_axes(x: Input, axes: Ints | None) -> Input:
    """x without the given axes, or all axes, of size 1; raises GraphValueError for an axis of another size."""
    removed = {i for i, n in enumerate(x.shape) if n == 1} if axes is None else {axis_of(axis, x.ndim) for axis in axes}
    wrong = [axis for axis in removed if x.shape[axis] != 1]
    if wrong:
        raise GraphValueError(f"the axis {wrong[0]} of the shape {tuple(x.shape)} is not of size 1.")
    return _in_shape(x, tuple(n for i, n in enumerate(x.shape) if i not in removed))


@operator("Unsqueeze")
def unsqueeze_axes(x: Input, *, axes: Ints) -> Input:
    return _unsqueezed(x, axes)


@operator("Unsqueeze", since=13, known=(1,))
def unsqueeze(x: Input, axes: Array) -> Input:
    return _unsqueezed(x, integers(axes))


def _unsqueezed(x: Input, axes: Ints) -> Input:
    rank = x.ndim + len(axes)
    new, sizes = axes_of(axes, rank), iter(x.shape)
    return _in_shape(x, tuple(1 if i in new else next(sizes) for i in range(rank)))


def _in_shape(x: Input, shape: tuple[int, ...]) -> Input:
    return np.reshape(x, shape) if isinstance(x, np.ndarray) else ops.reshape(x, shape)


@operator("Transpose")
def transpose(x: Input, *, perm: Ints | None = None) -> Input:
    order = tuple(perm) if perm else tuple(reversed(range(x.ndim)))
    return np.transpose(x, order) if isinstance(x, np.ndarray) else apply("transpose", tensor_of(x), permutation=order)


@operator("Expand", known=(1,))
def expand(x: Input, shape: Array) -> Tensor:
    x = tensor_of(x)
    sizes = np.broadcast_shapes(x.shape, integers(shape))
    return repeated(x, sizes) if is_known(x) else ops.broadcast_to(x, sizes)


@operator("Tile", known=(1,))
def tile(x: Input, repeats: Array) -> Tensor:
    x, times = tensor_of(x), integers(repeats)
    if is_known(x):
        check_size(*x.shape, *times)
    return ops.tile(x, times) if x.ndim else x


@operator("Concat")
def concat(*xs: Input, axis: int) -> Tensor:
    tensors = tuple(map(tensor_of, xs))
    if all(map(is_known, tensors)):
        check_size(sum(x.size for x in tensors))
    return ops.concat(tensors, axis) if len(tensors) > 1 else tensors[0]


@operator("Split")
def split_by(node: Running, x: Input, *, axis: int = 0, split: Ints | None = None) -> tuple[Tensor, ...]:
    return parts_of(x, axis, list(split or _equal(x.shape[axis], node.outputs)))


@operator("Split", since=13, known=(1,))
def split_of(
    node: Running, x: Input, split: Array | None = None, *, axis: int = 0, num_outputs: int = 0
) -> tuple[Tensor, ...]:
    if split is not None:
        return parts_of(x, axis, list(integers(split)))
    if num_outputs not in (0, node.outputs):
        raise GraphValueError(f"it has {node.outputs} results, but num_outputs is {num_outputs}.")
    return parts_of(x, axis, _equal(x.shape[axis], node.outputs))


@operator("Slice")
def slice_by(x: Input, *, starts: Ints, ends: Ints, axes: Ints | None = None) -> Input:
    return sliced(x, starts, ends, axes, None)


@operator("Slice", since=10, known=(3, 4), preferred=(1, 2))
def slice_of(
    node: Running, x: Input, starts: Input, ends: Input, axes: Array | None = None, steps: Array | None = None
) -> Input | Span:
    along, strides = (None if v is None else integers(v) for v in (axes, steps))
    unknown = [name for name, v in zip(node.node.inputs[1:3], (starts, ends), strict=True) if not is_known(v)]
    if not unknown:
        return sliced(x, integers(starts), integers(ends), along, strides)
    cause = (
        f"The operator {node.node}: its input {unknown[0]!r} must be known: it is known only when the graph runs, and "
        "shapes are static"
    )
    if tensor_of(starts).size != 1 or strides not in (None, (1,)):
        raise DependsOnData(cause)
    x, axis = tensor_of(x), axes_of((0,) if along is None else along, x.ndim)[0]
    positions, count = np.arange(x.shape[axis]), x.shape[axis]
    first, last = (_from_start(tensor_of(v), count) for v in (starts, ends))
    is_inside = ops.logical_and(ops.ge(Tensor(positions), first), ops.less(Tensor(positions), last))
    return Span(cause, x, axis, is_inside)


def _from_start(bound: Tensor, count: int) -> Tensor:
    """A computed bound of a slice, counted from the start."""
    return ops.where(ops.less(bound, 0), ops.add(bound, count), bound)


def sliced(x: Input, starts: Ints, ends: Ints, axes: Ints | None, steps: Ints | None) -> Input:
    """The elements from `starts` to `ends`, with steps that may be negative, along some axes or the first ones."""
    bounds = [(0, n, 1) for n in x.shape]
    flipped = []
    for i, at in enumerate(axes_of(range(len(starts)) if axes is None else axes, x.ndim)):
        step = 1 if steps is None else steps[i]
        selected = range(x.shape[at])[slice(starts[i], _stop(ends[i], step, x.shape[at]), step)]
        if step < 0:
            selected = selected[::-1]
            flipped.append(at)
        bounds[at] = (selected.start, max(selected.stop, selected.start), selected.step)
    if isinstance(x, np.ndarray):
        return np.flip(x[tuple(slice(*b) for b in bounds)], flipped)
    firsts, lasts, strides = (tuple(b[i] for b in bounds) for i in range(3))
    y = apply("slice", tensor_of(x), starts=firsts, stops=lasts, steps=strides)
    return apply("reverse", y, axes=tuple(flipped)) if flipped else y


def _stop(stop: int, step: int, size: int) -> int | None:
    """The stop of a Python slice: None for an end before the first element with a negative step."""
    return None if step < 0 and stop < -size else stop


def check_parts(count: int) -> None:
    """Raise GraphMemoryError for more parts than a tensor is split into."""
    if count > _MOST_PARTS:
        raise GraphMemoryError(f"it would make {count} tensors, which is too many.")


def parts_of(x: Input, axis: int, sizes: list[int]) -> tuple[Tensor, ...]:
    """x split along an axis into parts of these sizes."""
    x, parts, start = tensor_of(x), list[Tensor](), 0
    check_parts(len(sizes))
    if sum(sizes) != x.shape[axis]:
        raise GraphValueError(f"the parts {sizes} do not make up the axis {axis} of the shape {x.shape}.")
    for size in sizes:
        parts.append(tensor_of(sliced(x, (start,), (start + size,), (axis,), None)))
        start += size
    return tuple(parts)


def _equal(size: int, count: int) -> list[int]:
    each = -(-size // count)
    return [max(min(each, size - i * each), 0) for i in range(count)]


@operator("Trilu", known=(1,))
def trilu(x: Input, k: Array | None = None, *, upper: int = 1) -> Tensor:
    x = tensor_of(x)
    diagonal = 0 if k is None else integers(k)[0]
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    mask = columns - rows >= diagonal if upper else columns - rows <= diagonal
    return ops.where(Tensor(mask), x, ops.zeros((), x.dtype))


@operator("DepthToSpace")
def depth_to_space(x: Input, *, blocksize: int, mode: str = "DCR") -> Tensor:
    x = tensor_of(x)
    (n, depth, h, w), b = x.shape, blocksize
    c = depth // (b * b)
    if mode == "DCR":
        y = ops.transpose(ops.reshape(x, (n, b, b, c, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = ops.transpose(ops.reshape(x, (n, c, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return ops.reshape(y, (n, c, h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(x: Input, *, blocksize: int, mode: str = "DCR") -> Tensor:
    x = tensor_of(x)
    (n, c, h, w), b = x.shape, blocksize
    blocks = ops.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return ops.reshape(ops.transpose(blocks, order), (n, c * b * b, h // b, w // b))


@operator("ReverseSequence")
def reverse_sequence(x: Input, lengths: Input, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    return ops.reverse_sequence(x, lengths, time_axis, batch_axis)


@operator("CenterCropPad", known=(1,))
def center_crop_pad(x: Input, shape: Array, *, axes: Ints | None = None) -> Tensor:
    sides = [(0, 0)] * x.ndim
    for axis, size in zip(range(x.ndim) if axes is None else axes, integers(shape), strict=True):
        more = size - x.shape[axis]
        small = more // 2 if more > 0 else -(-more // 2)
        sides[axis] = (small, more - small)
    return ops.pad(x, [n for side in reversed(sides) for n in side])


_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@operator("Pad")
def pad_by(x: Input, *, pads: Ints, mode: str = "constant", value: float = 0.0) -> Tensor:
    return _padded(x, list(pads), mode, value, None)


@operator("Pad", since=11, known=(1, 3))
def pad(
    x: Input, pads: Array, value: OptionalInput = None, axes: Array | None = None, *, mode: str = "constant"
) -> Tensor:
    return _padded(x, list(integers(pads)), mode, value, None if axes is None else integers(axes))


def _padded(x: Input, pads: list[int], mode: str, value: Input | float | None, axes: Ints | None) -> Tensor:
    x, count = tensor_of(x), len(pads) // 2
    sides = [(0, 0)] * x.ndim
    for i, at in enumerate(axes_of(range(count) if axes is None else axes, x.ndim)):
        sides[at] = (pads[i], pads[count + i])
    if not any(map(any, sides)):
        return x
    is_constant = mode == "constant" and value is not None
    filler = ops.cast(ops.reshape(value, ()), x.dtype) if is_constant else None
    flat = [n for side in reversed(sides) for n in side]
    if x.dtype.kind == "bool":
        number = None if filler is None else ops.cast(filler, "int32")
        return ops.cast(ops.pad(ops.cast(x, "int32"), flat, _MODES[mode], number), bool)
    return ops.pad(x, flat, _MODES[mode], filler)
