"""Arrays whose elements follow from their indices, so that there are larger ones of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Counting:
    """`first + step * i` for the index i along an axis, as positions are."""

    axis: int
    first: Array
    step: Array

    def at(self, shape: Sequence[int]) -> Array:
        """The array of a shape."""
        places = np.arange(shape[self.axis]).reshape([-1 if i == self.axis else 1 for i in range(len(shape))])
        return np.asarray(self.first + self.step * places.astype(self.first.dtype))


@dataclass(frozen=True, eq=False)
class Triangle:
    """One number where the second index is at most the first one plus `diagonal`, else another one, as in masks."""

    axes: tuple[int, int]
    diagonal: int
    below: Array
    above: Array

    def at(self, shape: Sequence[int]) -> Array:
        """The array of a shape."""
        rows, columns = self.axes
        found = np.where(np.tri(shape[rows], shape[columns], self.diagonal, bool), self.below, self.above)
        return np.broadcast_to(found, shape)


def grid(arrays: Sequence[Array], axes: Sequence[int]) -> Counting | Triangle | None:
    """What gives all of these arrays, whose sizes along some axes differ; None where nothing does."""
    first = arrays[0]
    found = _counting(first, axes[0]) if len(axes) == 1 else _triangle(first, axes) if len(axes) == 2 else None
    if found is None or not all(_same(found.at(a.shape), a) for a in arrays):
        return None
    return found


def _counting(array: Array, axis: int) -> Counting | None:
    if array.dtype.kind not in "if" or array.shape[axis] < 2:
        return None
    first, second = np.take(array, [0], axis), np.take(array, [1], axis)
    return Counting(axis, first, np.asarray(second - first))


def _triangle(array: Array, axes: Sequence[int]) -> Triangle | None:
    """By the last column of the first row: the two axes are the last ones, and axes before them only repeat."""
    rows, columns = axes
    if (rows, columns) != (array.ndim - 2, array.ndim - 1):
        return None
    flat = array.reshape(-1, *array.shape[-2:])[0]
    above, below = flat[0, -1], flat[-1, 0]
    edges = np.flatnonzero(flat[len(flat) // 2] == above) if above != below else np.array([])
    if not len(edges):
        return None
    return Triangle((rows, columns), int(edges[0]) - 1 - len(flat) // 2, np.asarray(below), np.asarray(above))


def _same(found: Array, array: Array) -> bool:
    return found.shape == array.shape and found.dtype == array.dtype and found.tobytes() == array.tobytes()
