"""Where the surface of a region is, and how far every element is from one."""

from __future__ import annotations

import numpy as np

from graphls.train.metrics.metric import Array


def edges(region: Array) -> Array:
    """The elements of a region (booleans) that have a neighbour along an axis which is not of it, or none."""
    padded = np.pad(region, 1)
    inner = region.copy()
    for axis, size in enumerate(region.shape):
        rest = [slice(1, -1)] * region.ndim
        for start in (0, 2):
            rest[axis] = slice(start, start + size)
            inner &= padded[tuple(rest)]
    return region & ~inner


def distances(points: Array, metric: str) -> Array:
    """The distance of every element from the nearest of the points (booleans of one shape), infinite without points.

    Axis by axis: the nearest of all is the nearest, over the lines along an axis, of those that are nearest in each.
    """
    power = 2 if metric == "euclidean" else 1
    join = np.maximum if metric == "chessboard" else np.add
    found = np.where(points, 0.0, np.inf)
    for axis, size in enumerate(points.shape):
        lines = np.moveaxis(found, axis, -1)
        steps = np.abs(np.arange(size)[:, None] - np.arange(size)) ** power
        nearest = [join(lines, steps_from_one).min(axis=-1) for steps_from_one in steps]
        found = np.moveaxis(np.stack(nearest, axis=-1), -1, axis)
    return np.sqrt(found) if power == 2 else found
