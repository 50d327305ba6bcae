"""The steps by which the elements that an index names are taken, and by which they are written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np

from graphls.ops.index_items import Items, together
from graphls.ops.logic import logical_and, where
from graphls.ops.operands import apply, in_graph
from graphls.ops.shapes import broadcast_to, gather, reshape, transpose
from graphls.tensors.tensor import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """How the elements that an index names are taken; every step can be undone, which is how they are written.

    A tensor is cut to a region by `ranges`, one for each axis. The region is brought into the shape `kept`, without the
    axes of integers and with the new ones. Those of its axes from which tensors pick, `axes`, become one, at the front
    where they stand apart. From that one `picked` picks, and the axes that this makes go to the front if NumPy has
    them there.
    """

    ranges: tuple[range, ...]
    kept: Shape
    axes: tuple[int, ...]
    picked: Tensor
    moves_front: bool

    @classmethod
    def of(cls, index: Items) -> Plan:
        """The steps for an index."""
        ranges: list[range] = []
        kept: list[int] = []
        axes: list[int] = []
        sizes = iter(index.shape)
        for item in index.items:
            if item is None:
                kept.append(1)
                continue
            size = next(sizes)
            axes += [len(kept)] if isinstance(item, Tensor) else []
            ranges.append(item if isinstance(item, range) else _range(item, size))
            kept += [] if isinstance(item, int) else [len(ranges[-1])]
        picked = together(index.tensors, [kept[axis] for axis in axes])
        return cls(tuple(ranges), tuple(kept), tuple(axes), picked, index.moves_front)

    @property
    def at(self) -> int:
        """The axis from which `picked` picks."""
        return self.order.index(self.axes[0]) if self.axes else 0

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The axes of the kept shape in an order in which tensors pick from axes that stand together."""
        axes, all_axes = self.axes, tuple(range(len(self.kept)))
        stand_together = not axes or axes[-1] - axes[0] < len(axes)
        return all_axes if stand_together else (*axes, *(i for i in all_axes if i not in axes))

    @property
    def outer(self) -> tuple[Shape, Shape]:
        """The sizes before and behind the axis from which `picked` picks."""
        ordered = tuple(self.kept[i] for i in self.order)
        return ordered[: self.at], ordered[self.at + len(self.axes) :]

    @property
    def shape(self) -> Shape:
        """The shape of what is taken."""
        before, after = self.outer
        middle = self.picked.shape
        return (*middle, *before, *after) if self.moves_front else (*before, *middle, *after)

    def region(self, x: Tensor) -> Tensor:
        """What the ranges take of x, in the kept shape."""
        return reshape(reversed_where(sliced(x, self.ranges), self.ranges), self.kept)

    def merged(self, region: Tensor) -> Tensor:
        """A region in which tensors pick from one axis."""
        before, after = self.outer
        return reshape(transpose(region, self.order), (*before, prod(self.kept[i] for i in self.axes), *after))

    def unmerged(self, merged: Tensor) -> Tensor:
        """A merged region as one with the axes of the tensor that was indexed."""
        ordered = reshape(merged, tuple(self.kept[i] for i in self.order))
        return reshape(transpose(ordered, inverse(self.order)), tuple(map(len, self.ranges)))

    def taken(self, x: Tensor) -> Tensor:
        """What the index names of x."""
        region = self.region(x)
        if not self.axes:
            return region
        found = gather(self.merged(region), self.picked, axis=self.at)
        return transpose(found, self._to_front) if self.moves_front else found

    @property
    def _to_front(self) -> Shape:
        """The order of axes that brings those of `picked` before the others."""
        before, after = map(len, self.outer)
        end = before + self.picked.ndim
        return (*range(before, end), *range(before), *range(end, end + after))

    def slices(self, value: Tensor) -> Tensor:
        """A value for what the index names, as slices along the axis from which `picked` picks."""
        value = transpose(value, inverse(self._to_front)) if self.moves_front else value
        before, after = self.outer
        return reshape(value, (*before, self.picked.size, *after))


def _range(item: int | Tensor, size: int) -> range:
    return range(size) if isinstance(item, Tensor) else range(item, item + 1)


def inverse(order: Shape) -> Shape:
    """The order of axes that undoes another."""
    return tuple(map(int, np.argsort(order)))


def _rising(taken: range) -> range:
    return (taken if taken.step > 0 else taken[::-1]) if len(taken) else range(0)


def sliced(x: Tensor, ranges: tuple[range, ...]) -> Tensor:
    """What ranges take of each axis, in the order in which x has it."""
    if all(len(r) == n for r, n in zip(ranges, x.shape, strict=True)):
        return x
    rising = [*map(_rising, ranges)]
    starts, stops, steps = (tuple(getattr(r, name) for r in rising) for name in ("start", "stop", "step"))
    return apply("slice", x, starts=starts, stops=stops, steps=steps)


def reversed_where(x: Tensor, ranges: tuple[range, ...]) -> Tensor:
    """x, reversed along the axes of falling ranges."""
    axes = tuple(i for i, r in enumerate(ranges) if r.step < 0 and x.shape[i] > 1)
    return apply("reverse", x, axes=axes) if axes else x


def replaced_region(x: Tensor, ranges: tuple[range, ...], region: Tensor) -> Tensor:
    """x with other elements at the places that ranges take; the region broadcasts to these."""
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


def _inside(size: int, taken: range, axes_behind: int) -> Tensor:
    """Whether each position of an axis is in a range."""
    mask = np.zeros(size, bool)
    mask[taken.start : taken.stop : taken.step] = True
    return in_graph(Tensor(mask.reshape(-1, *(1 for _ in range(axes_behind)))))
