"""Functions that move and reverse axes, and shift what stands along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.ir.checks import integer
from graphls.ir.errors import GraphValueError
from graphls.ir.types import int64
from graphls.ops.creation import arange
from graphls.ops.logic import less, where
from graphls.ops.operands import apply, axis_of, shape_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import broadcast_to, concat, cut, expand_dims, gather_elements, reshape, swapaxes, transpose
from graphls.primitives.primitive import normalise_axes
from graphls.tensors.tensor import Tensor

Axes = int | Sequence[int]


@operation(names="moveaxis")
def movedim(x: Any, source: Axes, destination: Axes) -> Tensor:
    """x with axes at other places, between which the others keep their order.

    Raises GraphValueError where the numbers of axes differ, or an axis is named twice.
    """
    x = tensor_of(x)
    sources, places = (tuple(axis_of(a, x.ndim) for a in shape_of(axes)) for axes in (source, destination))
    if len(sources) != len(places) or len(set(sources)) < len(sources) or len(set(places)) < len(places):
        message = f"movedim cannot move the axes {source} to {destination}: they must be as many, and each named once."
        raise GraphValueError(message)
    order = [i for i in range(x.ndim) if i not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


@operation
def flip(x: Any, dims: Axes) -> Tensor:
    """x with its elements in the opposite order along some axes; raises GraphValueError for an axis named twice."""
    x = tensor_of(x)
    axes = normalise_axes(tuple(axis_of(a, x.ndim) for a in shape_of(dims)), x.ndim)
    return apply("reverse", x, axes=axes) if axes else tensor_of(x)


@operation(classes="ReverseV2", settings="axis")
def reverse(x: Any, axis: Axes) -> Tensor:
    """x with its elements in the opposite order along some axes, as `flip`."""
    return flip(x, axis)


@operation
def fliplr(x: Any) -> Tensor:
    """x with its elements in the opposite order along the second axis."""
    return flip(x, 1)


@operation
def flipud(x: Any) -> Tensor:
    """x with its elements in the opposite order along the first axis."""
    return flip(x, 0)


@operation
def roll(x: Any, shifts: Axes, dims: Axes | None = None) -> Tensor:
    """x shifted along axes, or as one row of elements; what goes over the end comes in at the start.

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


@operation
def rot90(x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """x turned k times by a right angle in the plane of two axes, from the first towards the second.

    Raises GraphValueError for anything but two different axes.
    """
    x = tensor_of(x)
    plane = tuple(axis_of(a, x.ndim) for a in shape_of(dims))
    if len(set(plane)) != 2 or len(plane) != 2:
        raise GraphValueError(f"rot90 turns in the plane of two different axes, not of {dims}.")
    first, second = plane
    flipped = flip(x, ((), (second,), plane, (first,))[integer("rot90", "k", k) % 4])
    return swapaxes(flipped, first, second) if k % 2 else flipped


@operation
def sequence_mask(lengths: Any, maxlen: int | None = None) -> Tensor:
    """Whether each position along a new last axis is below the length that stands there; of size `maxlen`.

    Without `maxlen` the largest length is taken, which must be known. Raises GraphTypeError where it is not.
    """
    lengths = tensor_of(lengths)
    size = maxlen if maxlen is not None else int(lengths.array.max(initial=0))
    return less(arange(size, dtype=lengths.dtype), expand_dims(lengths, -1))


@operation(classes="ReverseSequence", settings="seq_dim batch_dim")
def reverse_sequence(x: Any, seq_lengths: Any, seq_dim: int, batch_dim: int = 0) -> Tensor:
    """x, in which the first elements along `seq_dim` are in the opposite order: as many as a length says.

    There is a length for each position along `batch_dim`. Raises GraphValueError for other shapes.
    """
    x, lengths = tensor_of(x), tensor_of(seq_lengths).astype(int64)
    along, batch = axis_of(seq_dim, x.ndim), axis_of(batch_dim, x.ndim)
    if along == batch or lengths.shape != (x.shape[batch],):
        raise GraphValueError(
            f"reverse_sequence of {x.type} takes two different axes and {x.shape[batch]} lengths, not {lengths.type}.",
        )
    lengths = reshape(lengths, [-1 if i == batch else 1 for i in range(x.ndim)])
    places = reshape(arange(x.shape[along]), [-1 if i == along else 1 for i in range(x.ndim)])
    places = where(less(places, lengths), lengths - 1 - places, places)
    return gather_elements(x, along, broadcast_to(places, x.shape))
