"""What an index expression says of each axis: the one reading of it that taking and writing elements share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from graphls.ir.errors import GraphIndexError, GraphTypeError, GraphValueError
from graphls.ir.types import broadcast_shapes, int32, int64
from graphls.ops.logic import where
from graphls.ops.operands import tensor_of
from graphls.ops.shapes import broadcast_to
from graphls.tensors import dispatch
from graphls.tensors.tensor import Symbol, Tensor, is_tensor

Item = int | range | Tensor | None
"""One position, or several, of an axis; None for a new axis."""


@dataclass(frozen=True)
class Items:
    """An index into a tensor of that shape, with one item for each axis, in order, and None for each new one.

    `moves_front` says that tensors, or integers beside them, stand apart; then NumPy puts the axes that the tensors
    make before all others.
    """

    shape: tuple[int, ...]
    items: tuple[Item, ...]
    moves_front: bool

    @property
    def tensors(self) -> list[Tensor]:
        """The items that are tensors."""
        return [item for item in self.items if isinstance(item, Tensor)]


def items_of(index: object, x: Tensor) -> Items:
    """An index into x, read by NumPy's rules.

    Raises GraphIndexError for an integer that is known and out of range, for a mask of another shape and for too many
    indices, GraphTypeError for what is no index, GraphValueError for a slice with a step of 0.
    """
    given = [i for item in (index if isinstance(index, tuple) else (index,)) for i in _plain(item)]
    used = sum(_used(i) for i in given)
    if used > x.ndim:
        raise GraphIndexError(f"{x.type} has {x.ndim} axes and takes no {used} indices.")
    if sum(i is Ellipsis for i in given) > 1:
        raise GraphIndexError("An index has one Ellipsis at most.")
    if not any(i is Ellipsis for i in given):
        given.append(Ellipsis)
    sizes = iter(x.shape)
    items: list[Item] = []
    for item in given:
        count = x.ndim - used if item is Ellipsis else 1
        items += [range(next(sizes)) for _ in range(count)] if item is Ellipsis else _bounded(item, sizes)
    return Items(x.shape, tuple(items), _stands_apart(given))


def _used(item: object) -> int:
    if isinstance(item, np.ndarray):
        return item.ndim
    return int(item is not None and item is not Ellipsis)


def _stands_apart(given: list[Any]) -> bool:
    """Whether something else stands between tensors, or integers beside tensors."""
    kinds = [isinstance(i, (int, Tensor, np.ndarray)) for i in given]
    has_tensors = any(isinstance(i, (Tensor, np.ndarray)) for i in given)
    return has_tensors and sum(picks for picks, _ in groupby(kinds)) > 1


def _plain(item: object) -> list[Any]:
    """An item as an integer, slice, None, Ellipsis, integer tensor, or mask that is known (an array)."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return [item]
    if isinstance(item, (bool, np.bool_)):
        if not item:
            raise GraphIndexError("A tensor can be indexed by True, for a new axis, but not by False.")
        return [None]
    if isinstance(item, int):
        return [item]
    if isinstance(item, (list, tuple, range)):
        item = np.asarray(item, np.int64) if not len(item) or isinstance(item, range) else Tensor(list(item))
    if is_tensor(item):
        indices = _indices(tensor_of(item))
        return _plain(bool(indices)) if isinstance(indices, np.ndarray) and not indices.ndim else [indices]
    raise GraphTypeError(
        f"A tensor is indexed by integers, slices, None, ... and tensors of integers or bools, not by {item!r}.",
    )


def _indices(item: Tensor) -> Any:
    kind = item.dtype.kind
    if kind == "float":
        raise GraphTypeError(f"An index is of integers or bools, not {item.type}; cast it first.")
    if isinstance(item, Symbol):
        if kind == "bool":
            raise GraphTypeError(
                "The shape of x[mask] is not static where the graph computes the mask; use ops.where(mask, x, ...).",
            )
        return item if item.dtype in (int32, int64) else dispatch.cast(item, int64)
    if kind == "bool":
        return item.array
    return dispatch.cast(item, int64) if item.ndim else int(item.item())


def _bounded(item: Any, sizes: Any) -> list[Item]:
    """An item within the axes that it uses up."""
    if item is None:
        return [None]
    if isinstance(item, np.ndarray):
        return list(_places(item, tuple(next(sizes) for _ in item.shape)))
    size = next(sizes)
    if isinstance(item, slice):
        return [_range(item, size)]
    if isinstance(item, int):
        _check_range(np.asarray(item), size)
        return [item % size]
    if not isinstance(item, Symbol):
        _check_range(item.array, size)
    return [item]


def _check_range(indices: Any, size: int) -> None:
    wrong = indices[(indices < -size) | (indices >= size)]
    if wrong.size:
        raise GraphIndexError(f"The index {wrong.flat[0]} is out of range for an axis of size {size}.")


def _places(mask: Any, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    if mask.shape != shape:
        raise GraphIndexError(f"A mask of shape {mask.shape} does not fit axes of sizes {shape}.")
    return tuple(map(Tensor, np.nonzero(mask)))


def _range(item: slice, size: int) -> range:
    try:
        return range(*item.indices(size))
    except TypeError as error:
        raise GraphTypeError(f"The slice {item} cannot be taken: {error}.") from None
    except ValueError:
        raise GraphValueError(f"The slice {item} cannot be taken: its step is 0.") from None


def together(tensors: list[Tensor], sizes: list[int]) -> Tensor:
    """Tensors that each pick from an axis of these sizes as one that picks from all positions of these axes.

    Where one of them is out of range, so is the result. Raises GraphIndexError where their shapes do not fit.
    """
    try:
        shape = broadcast_shapes(*(t.shape for t in tensors))
    except GraphValueError as error:
        raise GraphIndexError(str(error)) from None
    if len(tensors) == 1:
        return tensors[0]
    position, outside = Tensor(0), Tensor(False)
    for tensor, size in zip(tensors, sizes, strict=True):
        tensor = dispatch.cast(tensor, int64)
        counted = where(tensor < 0, tensor + size, tensor)
        outside = outside | (counted < 0) | (counted >= size)
        position = position * size + counted
    return broadcast_to(where(outside, prod(sizes), position), shape)
