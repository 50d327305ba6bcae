"""Distances between the surfaces of a predicted and a true region."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Metric, as_array, check_choice, check_type, rearrange_inputs, wrong

_KINDS = ("euclidean", "chessboard", "taxicab")


class SurfaceMetric(Metric):
    """A distance between the surfaces of two regions: those of the last two images."""

    inputs = ("predicted value", "true value", "label index")

    def __init__(self, distance_metric: str) -> None:
        super().__init__()
        check_choice(self, "distance_metric", distance_metric, _KINDS)
        self.distance_metric = distance_metric
        self.clear()

    def clear(self) -> None:
        self._edges: tuple[Array, Array] | None = None

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Set a predicted and a true image of one shape, and the number that marks the region in them.

        They replace the images before. Raises GraphTypeError for a label that is not a number, and GraphValueError
        for one that is in neither image, and for images of different shapes.
        """
        self._check_number(inputs)
        predicted, labels, label = as_array(inputs[0]), as_array(inputs[1]), inputs[2]
        if not isinstance(label, Real):
            raise GraphTypeError(f"For '{type(self).__name__}', the label index must be int or float, not {label!r}.")
        if predicted.shape != labels.shape:
            raise wrong(self, f"both images must have one shape, not {predicted.shape} and {labels.shape}")
        regions = predicted == label, labels == label
        if not (regions[0].any() or regions[1].any()):
            raise wrong(self, f"the label index {label} is in neither image")
        self._edges = self._edges_of(*regions)

    def _edges_of(self, predicted: Array, labels: Array) -> tuple[Array, Array]:
        return edges(predicted), edges(labels)

    def eval(self) -> float:
        """The distance, infinite where a region has no surface; raises GraphRuntimeError before the first `update`."""
        self._check_not_empty(self._edges)
        assert self._edges is not None
        predicted, labels = self._edges
        if not (predicted.any() and labels.any()):
            return np.inf
        return float(self._distance(predicted, labels))

    def _between(self, first: Array, second: Array) -> Array:
        """The distance of each element of the first surface from the second."""
        return distances(second, self.distance_metric)[first]

    @abstractmethod
    def _distance(self, predicted: Array, labels: Array) -> Any:
        """The distance of two surfaces that both have elements."""


class HausdorffDistance(SurfaceMetric):
    """The largest distance from the surface of either region to that of the other, or a percentile of the distances.

    `distance_metric` is "euclidean", "chessboard" or "taxicab", `percentile` a float of 0 to 100 or None for the
    largest (as is 0.0), and `directed` selects the distances of the prediction alone. `crop` removes the surroundings
    of both regions, and axes that are then one element long, along which no surface is searched.

    Raises GraphTypeError and GraphValueError for settings that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import HausdorffDistance
        >>> metric = HausdorffDistance()
        >>> metric.clear()
        >>> metric.update(np.array([[3, 0, 1], [1, 3, 0], [1, 0, 2]]), np.array([[0, 2, 1], [1, 2, 1], [0, 0, 1]]), 0)
        >>> round(metric.eval(), 4)
        1.4142
    """

    def __init__(
        self, distance_metric: str = "euclidean", percentile: float | None = None, directed: bool | None = False,
        crop: bool | None = True,
    ) -> None:  # fmt: skip
        if percentile is not None:
            check_type(self, "percentile", percentile, float)
            if not 0 <= percentile <= 100:
                raise GraphValueError(f"For 'HausdorffDistance', 'percentile' must be 0 to 100, not {percentile}.")
        for name, value in (("directed", directed), ("crop", crop)):
            if value is not None:
                check_type(self, name, value, bool)
        self.percentile, self.directed, self.crop = percentile, directed, crop
        super().__init__(distance_metric)

    def _edges_of(self, predicted: Array, labels: Array) -> tuple[Array, Array]:
        if self.crop:
            there = np.nonzero(predicted | labels)
            box = tuple(slice(places.min(), places.max() + 1) for places in there) if predicted.ndim else ()
            predicted, labels = predicted[box].squeeze(), labels[box].squeeze()
        return super()._edges_of(predicted, labels)

    def _distance(self, predicted: Array, labels: Array) -> Any:
        forth = self._directed_distance(predicted, labels)
        return forth if self.directed else max(forth, self._directed_distance(labels, predicted))

    def _directed_distance(self, first: Array, second: Array) -> Any:
        between = self._between(first, second)
        return np.percentile(between, self.percentile) if self.percentile else between.max()


class MeanSurfaceDistance(SurfaceMetric):
    """The mean distance from the surface of the predicted region to that of the true one.

    `symmetric` gives the mean of that and of the mean distance the other way. `distance_metric` is "euclidean",
    "chessboard" or "taxicab". Raises GraphTypeError and GraphValueError for settings that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import MeanSurfaceDistance
        >>> metric = MeanSurfaceDistance()
        >>> metric.clear()
        >>> metric.update(np.array([[3, 0, 1], [1, 3, 0], [1, 0, 2]]), np.array([[0, 2, 1], [1, 2, 1], [0, 0, 1]]), 0)
        >>> round(metric.eval(), 4)
        0.8047
    """

    def __init__(self, symmetric: bool = False, distance_metric: str = "euclidean") -> None:
        check_type(self, "symmetric", symmetric, bool)
        self.symmetric = symmetric
        super().__init__(distance_metric)

    def _distance(self, predicted: Array, labels: Array) -> Any:
        forth = self._between(predicted, labels).mean()
        return (forth + self._between(labels, predicted).mean()) / 2 if self.symmetric else forth


class RootMeanSquareDistance(SurfaceMetric):
    """The mean of the squares of the distances from the surface of the predicted region to that of the true one.

    `symmetric` gives the root of the mean of that and of the mean the other way. Without it there is no root, so that
    the numbers are MindSpore's, whose documentation has one. `distance_metric` is "euclidean", "chessboard" or
    "taxicab". Raises GraphTypeError and GraphValueError for settings that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import RootMeanSquareDistance
        >>> metric = RootMeanSquareDistance()
        >>> metric.clear()
        >>> metric.update(np.array([[3, 0, 1], [1, 3, 0], [1, 0, 2]]), np.array([[0, 2, 1], [1, 2, 1], [0, 0, 1]]), 0)
        >>> round(metric.eval(), 4)
        1.0
    """

    def __init__(self, symmetric: bool = False, distance_metric: str = "euclidean") -> None:
        check_type(self, "symmetric", symmetric, bool)
        self.symmetric = symmetric
        super().__init__(distance_metric)

    def _distance(self, predicted: Array, labels: Array) -> Any:
        forth = (self._between(predicted, labels) ** 2).mean()
        return np.sqrt((forth + (self._between(labels, predicted) ** 2).mean()) / 2) if self.symmetric else forth


def edges(region: Array) -> Array:
    """The elements of a region (booleans) with a neighbour along an axis that is missing or outside of the region."""
    padded = np.pad(region, 1)
    inner = region.copy()
    for axis, size in enumerate(region.shape):
        rest = [slice(1, -1)] * region.ndim
        for start in (0, 2):
            rest[axis] = slice(start, start + size)
            inner &= padded[tuple(rest)]
    return region & ~inner


def distances(points: Array, metric: str) -> Array:
    """The distance of every element from the nearest point (booleans of one shape), infinite without points.

    Computed axis by axis: the nearest point of all is the nearest, over lines along the axis, of the nearest in each.
    """
    power = 2 if metric == "euclidean" else 1
    join = np.maximum if metric == "chessboard" else np.add
    nearest_so_far = np.where(points, 0.0, np.inf)
    for axis, size in enumerate(points.shape):
        lines = np.moveaxis(nearest_so_far, axis, -1)
        steps = np.abs(np.arange(size)[:, None] - np.arange(size)) ** power
        nearest = [join(lines, steps_from_one).min(axis=-1) for steps_from_one in steps]
        nearest_so_far = np.moveaxis(np.stack(nearest, axis=-1), -1, axis)
    return np.sqrt(nearest_so_far) if power == 2 else nearest_so_far
