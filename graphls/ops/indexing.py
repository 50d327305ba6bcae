"""`tensor[index]`."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.errors import GraphIndexError, GraphTypeError, GraphValueError
from graphls.ops.operands import apply, tensor_of
from graphls.ops.shapes import gather, reshape
from graphls.source import user_location
from graphls.tensor import Tensor, is_tensor


def getitem(tensor: Tensor, index: Any) -> Tensor:
    """The elements that an index names, by NumPy's rules.

    An index is an integer, a slice with a positive step, None for a new axis, an Ellipsis, a tuple of those, of which
    one may be a tensor or list of integers. Raises GraphIndexError for an integer out of range and for too many
    indices, GraphTypeError for any other object, GraphValueError for what a static graph cannot do.
    """
    x = tensor_of(tensor)
    items = _expanded(index if isinstance(index, tuple) else (index,), x)
    axes = [item for item in items if item is not None]
    x = _sliced(x, [_bounds(item, n) for item, n in zip(axes, x.shape, strict=True)])
    picked = [i for i, item in enumerate(axes) if isinstance(item, Tensor)]
    if picked:
        _check_adjacent(items, len(picked))
        x = gather(x, axes[picked[0]], axis=picked[0])
    return reshape(x, _shape(items, x.shape))


def _expanded(items: tuple[Any, ...], x: Tensor) -> list[Any]:
    """One item for each axis, and None for each new one."""
    items = tuple(_item(i) for i in items)
    used = sum(i is not None and i is not Ellipsis for i in items)
    if used > x.ndim:
        raise GraphIndexError(f"{x.type} has {x.ndim} axes and takes no {used} indices.", user_location())
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise GraphIndexError("An index has one Ellipsis at most.", user_location())
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (x.ndim - used), *items[at + 1 :]]


def _item(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if is_tensor(item) or isinstance(item, list):
        return _indices(Tensor(np.asarray(item, np.int64) if item == [] else item) if not is_tensor(item) else item)
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    raise GraphTypeError(
        f"A tensor is indexed by integers, slices, None, ... and integer tensors, not by {item!r}.", user_location()
    )


def _indices(item: Any) -> Tensor:
    indices = tensor_of(item)
    if indices.dtype.kind == "bool":
        raise GraphTypeError("The shape of x[mask] is not static; use ops.where(mask, x, ...).", user_location())
    if indices.dtype.long_name not in ("int32", "int64"):
        raise GraphTypeError(f"An index is int32 or int64, not {indices.type}; cast it first.", user_location())
    return indices


def _bounds(item: Any, size: int) -> range:
    """What an item takes of its axis before tensors pick."""
    if isinstance(item, Tensor):
        return range(size)
    if isinstance(item, int):
        if not -size <= item < size:
            raise GraphIndexError(f"The index {item} is out of range for an axis of size {size}.", user_location())
        return range(item % size, item % size + 1)
    try:
        taken = range(*item.indices(size))
    except (TypeError, ValueError) as error:
        raise GraphTypeError(f"The slice {item} cannot be taken: {error}.", user_location()) from None
    if taken.step < 1:
        raise GraphValueError("A slice takes a positive step; reverse an axis with an index tensor.", user_location())
    return taken


def _sliced(x: Tensor, taken: list[range]) -> Tensor:
    if all(len(r) == n for r, n in zip(taken, x.shape, strict=True)):
        return x
    starts, stops, steps = (tuple(getattr(r, name) for r in taken) for name in ("start", "stop", "step"))
    return apply("slice", x, starts=starts, stops=stops, steps=steps)


def _check_adjacent(items: list[Any], tensors: int) -> None:
    """Where NumPy would move axes to the front, say so rather than do something else."""
    places = [i for i, item in enumerate(items) if isinstance(item, (int, Tensor))]
    if tensors > 1 or places[-1] - places[0] >= len(places):
        raise GraphValueError(
            "An index takes one tensor, with integers only next to it; index in two steps.", user_location()
        )


def _shape(items: list[Any], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the result: new axes added, integer ones dropped, a tensor's own in their place."""
    shape: list[int] = []
    remaining = list(sizes)
    for item in items:
        if item is None:
            shape.append(1)
            continue
        count = item.ndim if isinstance(item, Tensor) else 1
        taken, remaining = remaining[:count], remaining[count:]
        shape += [] if isinstance(item, int) else taken
    return tuple(shape)
