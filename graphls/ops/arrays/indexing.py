"""Indexing `tensor[index]`: parsing of an index, and the plan by which its elements are read and written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphIndexError, GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike, is_tensor
from graphls.ir.types import bool_, broadcast_shapes, int32, int64
from graphls.ops.arrays.creation import zeros_like
from graphls.ops.arrays.joins import OF_SLICES, Join, replaced
from graphls.ops.arrays.shapes import broadcast_to, gather, reshape, transpose
from graphls.ops.math.elementwise import logical_and, where
from graphls.ops.operands import Shape, apply, in_graph, tensor_in, tensor_of
from graphls.ops.record import in_place, operation, tensor_method

Item = int | range | Tensor | None
"""One or several positions of an axis; None for a new axis."""


@dataclass(frozen=True)
class Items:
    """A parsed index into a tensor of that shape: one item for each axis, in order, and None for each new one.

    `moves_front` is true if tensors, and integers beside them, are not adjacent; NumPy then puts the axes of the
    tensors before all others.
    """

    shape: tuple[int, ...]
    items: tuple[Item, ...]
    moves_front: bool

    @property
    def tensors(self) -> list[Tensor]:
        """The items that are tensors."""
        return [item for item in self.items if isinstance(item, Tensor)]


def parse_index(index: object, x: Tensor) -> Items:
    """Parse an index into x by NumPy's rules.

    Raises GraphIndexError for a constant integer out of range, for a mask of another shape and for too many indices,
    GraphTypeError for anything but an index, GraphValueError for a slice with a step of 0.
    """
    plain = [i for item in (index if isinstance(index, tuple) else (index,)) for i in _normalised(item)]
    used = sum(_axes_used(i) for i in plain)
    if used > x.ndim:
        raise GraphIndexError(f"{x.type} has {x.ndim} axes and takes no {used} indices.")
    if sum(i is Ellipsis for i in plain) > 1:
        raise GraphIndexError("An index has one Ellipsis at most.")
    if not any(i is Ellipsis for i in plain):
        plain.append(Ellipsis)
    sizes = iter(x.shape)
    items: list[Item] = []
    for item in plain:
        count = x.ndim - used if item is Ellipsis else 1
        items += [range(next(sizes)) for _ in range(count)] if item is Ellipsis else _checked_item(item, sizes)
    return Items(x.shape, tuple(items), _are_separated(plain))


def _axes_used(item: object) -> int:
    if isinstance(item, np.ndarray):
        return item.ndim
    return int(item is not None and item is not Ellipsis)


def _are_separated(items: list[Any]) -> bool:
    """True if other items separate the tensors, and integers beside tensors."""
    kinds = [isinstance(i, (int, Tensor, np.ndarray)) for i in items]
    has_tensors = any(isinstance(i, (Tensor, np.ndarray)) for i in items)
    return has_tensors and sum(picks for picks, _ in groupby(kinds)) > 1


def _normalised(item: object) -> list[Any]:
    """An item as an integer, slice, None, Ellipsis, integer tensor, or constant mask (an array)."""
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
        return _normalised(bool(indices)) if isinstance(indices, np.ndarray) and not indices.ndim else [indices]
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


def _checked_item(item: Any, sizes: Any) -> list[Item]:
    """An item checked against the sizes of the axes that it consumes."""
    if item is None:
        return [None]
    if isinstance(item, np.ndarray):
        return list(_mask_positions(item, tuple(next(sizes) for _ in item.shape)))
    size = next(sizes)
    if isinstance(item, slice):
        return [_index_range(item, size)]
    if isinstance(item, int):
        if not -size <= item < size:
            raise _out_of_range(item, size)
        return [item % size]
    if not isinstance(item, Symbol):
        _check_range(item.array, size)
    return [item]


def _check_range(indices: Any, size: int) -> None:
    wrong = indices[(indices < -size) | (indices >= size)]
    if wrong.size:
        raise _out_of_range(wrong.flat[0], size)


def _out_of_range(index: object, size: int) -> GraphIndexError:
    return GraphIndexError(f"The index {index} is out of range for an axis of size {size}.")


def _mask_positions(mask: Any, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    if mask.shape != shape:
        raise GraphIndexError(f"A mask of shape {mask.shape} does not fit axes of sizes {shape}.")
    return tuple(map(Tensor, np.nonzero(mask)))


def _index_range(item: slice, size: int) -> range:
    try:
        return range(*item.indices(size))
    except TypeError as error:
        raise GraphTypeError(f"The slice {item} cannot be taken: {error}.") from None
    except ValueError:
        raise GraphValueError(f"The slice {item} cannot be taken: its step is 0.") from None


def merged_index(tensors: list[Tensor], sizes: list[int]) -> Tensor:
    """Index tensors of several axes of these sizes as one index tensor of the merged axis.

    Where one of them is out of range, so is the result. Raises GraphIndexError where they do not broadcast.
    """
    if not tensors:
        return Tensor(0)  # the only position of no axis
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


@dataclass(frozen=True)
class Plan:
    """The steps that read the elements of an index; each step has an inverse, by which they are written.

    A tensor is sliced to a region by `ranges`, one for each axis. The region is reshaped to `region_shape`, without the
    axes of integers and with the new ones. Its axes that tensors index, `axes`, are merged into one, at the front where
    they are not adjacent. `picked` indexes that one, and the axes of the result go to the front where NumPy puts them
    there.
    """

    ranges: tuple[range, ...]
    region_shape: Shape
    axes: tuple[int, ...]
    picked: Tensor
    moves_front: bool

    @classmethod
    def of(cls, index: Items) -> Plan:
        """The steps for an index."""
        ranges: list[range] = []
        region_shape: list[int] = []
        axes: list[int] = []
        sizes = iter(index.shape)
        for item in index.items:
            if item is None:
                region_shape.append(1)
                continue
            size = next(sizes)
            axes += [len(region_shape)] if isinstance(item, Tensor) else []
            ranges.append(item if isinstance(item, range) else _range(item, size))
            region_shape += [] if isinstance(item, int) else [len(ranges[-1])]
        picked = merged_index(index.tensors, [region_shape[axis] for axis in axes])
        return cls(tuple(ranges), tuple(region_shape), tuple(axes), picked, index.moves_front)

    @property
    def at(self) -> int:
        """The axis that `picked` indexes."""
        return self.order.index(self.axes[0]) if self.axes else 0

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The axes of the region in an order in which those that tensors index are adjacent."""
        axes, all_axes = self.axes, tuple(range(len(self.region_shape)))
        are_adjacent = not axes or axes[-1] - axes[0] < len(axes)
        return all_axes if are_adjacent else (*axes, *(i for i in all_axes if i not in axes))

    @property
    def outer(self) -> tuple[Shape, Shape]:
        """The sizes before and after the axis that `picked` indexes."""
        ordered = tuple(self.region_shape[i] for i in self.order)
        return ordered[: self.at], ordered[self.at + len(self.axes) :]

    @property
    def shape(self) -> Shape:
        """The shape of the selected elements."""
        before, after = self.outer
        middle = self.picked.shape
        return (*middle, *before, *after) if self.moves_front else (*before, *middle, *after)

    def region(self, x: Tensor) -> Tensor:
        """The region of x, in the shape `region_shape`."""
        return reshape(reversed_where(sliced(x, self.ranges), self.ranges), self.region_shape)

    def merged(self, region: Tensor) -> Tensor:
        """A region with the axes that tensors index merged into one."""
        before, after = self.outer
        return reshape(transpose(region, self.order), (*before, prod(self.region_shape[i] for i in self.axes), *after))

    def unmerged(self, merged: Tensor) -> Tensor:
        """The inverse of `merged`, with the axes of the indexed tensor."""
        ordered = reshape(merged, tuple(self.region_shape[i] for i in self.order))
        return reshape(transpose(ordered, inverse(self.order)), tuple(map(len, self.ranges)))

    def select(self, x: Tensor) -> Tensor:
        """The elements of x at the index."""
        region = self.region(x)
        if not self.axes:
            return region
        selected = gather(self.merged(region), self.picked, axis=self.at)
        return transpose(selected, self._to_front) if self.moves_front else selected

    @property
    def _to_front(self) -> Shape:
        """The permutation that moves the axes of `picked` before the others."""
        before, after = map(len, self.outer)
        end = before + self.picked.ndim
        return (*range(before, end), *range(before), *range(end, end + after))

    def slices(self, value: Tensor) -> Tensor:
        """A value for the elements of the index, as slices along the axis that `picked` indexes."""
        value = transpose(value, inverse(self._to_front)) if self.moves_front else value
        before, after = self.outer
        return reshape(value, (*before, self.picked.size, *after))


def _range(item: int | Tensor, size: int) -> range:
    return range(size) if isinstance(item, Tensor) else range(item, item + 1)


def inverse(order: Shape) -> Shape:
    """The inverse permutation of axes."""
    return tuple(map(int, np.argsort(order)))


def _rising(positions: range) -> range:
    return (positions if positions.step > 0 else positions[::-1]) if len(positions) else range(0)


def sliced(x: Tensor, ranges: tuple[range, ...]) -> Tensor:
    """The elements of x in the ranges of each axis, in the order of x."""
    if all(len(r) == n for r, n in zip(ranges, x.shape, strict=True)):
        return x
    rising = [*map(_rising, ranges)]
    starts, stops, steps = (tuple(getattr(r, name) for r in rising) for name in ("start", "stop", "step"))
    return apply("slice", x, starts=starts, stops=stops, steps=steps)


def reversed_where(x: Tensor, ranges: tuple[range, ...]) -> Tensor:
    """x reversed along the axes of descending ranges."""
    axes = tuple(i for i, r in enumerate(ranges) if r.step < 0 and x.shape[i] > 1)
    return apply("reverse", x, axes=axes) if axes else x


def replaced_region(x: Tensor, ranges: tuple[range, ...], region: Tensor) -> Tensor:
    """x with the elements in the ranges replaced by a region that broadcasts to them."""
    if not all(map(len, ranges)):
        return x
    region, rising = reversed_where(region, ranges), [*map(_rising, ranges)]
    cut = [i for i, n in enumerate(x.shape) if len(ranges[i]) < n]
    if not cut:
        return broadcast_to(region, x.shape)
    mask = reduce(logical_and, [_inside(x.shape[i], rising[i], x.ndim - i - 1) for i in cut])
    placed = [r if region.shape[i] > 1 else range(1) for i, r in enumerate(rising)]
    shape = tuple(n if region.shape[i] > 1 else 1 for i, n in enumerate(x.shape))
    if shape != region.shape:
        starts, stops, steps = (tuple(getattr(r, name) for r in placed) for name in ("start", "stop", "step"))
        region = apply("slice_gradient", region, shape=shape, starts=starts, stops=stops, steps=steps)
    return where(mask, region, x)


def _inside(size: int, positions: range, axes_after: int) -> Tensor:
    """A mask of the positions of an axis that are in a range."""
    mask = np.zeros(size, bool)
    mask[positions.start : positions.stop : positions.step] = True
    return in_graph(Tensor(mask.reshape(-1, *(1 for _ in range(axes_after)))))


@operation
def getitem(tensor: TensorLike, index: Any) -> Tensor:
    """The elements at an index, by NumPy's rules.

    An index is an integer, a slice, None for a new axis, an Ellipsis, a tensor or list of integers, a constant mask, or
    a tuple of those. Raises GraphIndexError for a constant out of range, for too many indices and for shapes of tensors
    that do not fit, GraphTypeError for any other object and for a mask that the graph computes.
    """
    x = tensor_of(tensor)
    return Plan.of(parse_index(index, x)).select(x)


@operation
def setitem(tensor: TensorLike, index: Any, value: TensorLike) -> Tensor:
    """A tensor with the elements at an index replaced; `x[index] = value` rebinds x to it.

    The value is cast to the dtype of the tensor and broadcast to the shape of `x[index]`. Where an index has an element
    twice, the last of its values wins. A mask that the graph computes is the only item of an index, with a value that
    broadcasts along its axes. Raises the errors of `x[index]`, and GraphValueError for a value that does not fit.

    Raises GraphIndexError for more indices than axes or a second Ellipsis, GraphTypeError for a mask that does not
    fit.
    """
    x = tensor_of(tensor)
    value = tensor_in(value, x.dtype)
    if isinstance(index, Symbol) and index.dtype is bool_:
        return _masked(x, index, value)
    return written(x, parse_index(index, x), value, replaced)


def written(x: Tensor, items: Items, value: Tensor, join: Join) -> Tensor:
    """x with a value of its dtype combined into the elements at an index by `join`."""
    plan = Plan.of(items)
    if not items.tensors:
        return replaced_region(x, plan.ranges, _on_axes(fitting(value, plan.region_shape), items))
    value = broadcast_to(fitting(value, plan.shape), plan.shape)
    if not value.size:
        return x
    merged = plan.merged(plan.region(x))
    merged = join(merged, reshape(plan.picked, (-1,)), plan.slices(value), plan.at)
    return replaced_region(x, plan.ranges, plan.unmerged(merged))


def _on_axes(value: Tensor, items: Items) -> Tensor:
    """A value for an index of integers and ranges, with the axes of the indexed tensor."""
    sizes = iter(value.shape)
    item_sizes = [(item, 1 if isinstance(item, int) else next(sizes)) for item in items.items]
    return reshape(value, tuple(size for item, size in item_sizes if item is not None))


def fitting(value: Tensor, shape: Shape) -> Tensor:
    """A value with as many axes as a shape that it broadcasts to; raises GraphValueError where it does not fit."""
    padded = (*(1 for _ in shape), *value.shape)
    extra, own = padded[: len(padded) - len(shape)], padded[len(padded) - len(shape) :]
    if any(n != 1 for n in extra) or any(n not in (1, m) for n, m in zip(own, shape, strict=True)):
        message = f"A value of shape {value.shape} does not fit elements of shape {shape}."
        raise GraphValueError(message)
    return reshape(value, own)


def _masked(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    rest = x.shape[mask.ndim :]
    if mask.shape != x.shape[: mask.ndim] or value.ndim > len(rest):
        raise GraphTypeError(
            f"Where the graph computes a mask, x[mask] = value takes a mask that fits the first axes of {x.type}, and "
            f"one value for all that is not masked, not {mask.type} and {value.type}; use ops.where.",
        )
    return where(reshape(mask, (*mask.shape, *(1 for _ in rest))), fitting(value, rest), x)


@tensor_method("index_put")
@in_place("index_put_")
def _index_put(x: TensorLike, indices: Any, values: TensorLike, accumulate: bool = False) -> Tensor:
    """The tensor with values written, or with `accumulate` added, at index tensors, one for each axis.

    Where the indices have an element twice, the last value wins, or both are added.
    """
    position = tuple(indices)
    if not accumulate:
        return setitem(x, position, values)
    x = tensor_of(x)
    return x + written(zeros_like(x), parse_index(position, x), tensor_in(values, x.dtype), OF_SLICES["add"])


@in_place("index_copy_")
def _index_copied(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x with the slices at indices along an axis replaced by those of `source`."""
    return setitem(x, (*(slice(None),) * (dim % x.ndim), index), source)
