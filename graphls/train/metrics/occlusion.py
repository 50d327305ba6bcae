"""Occlusion sensitivity: the parts of an image that a prediction depends on."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.nn.cell import Cell
from graphls.train.metrics.metric import Array, Metric, as_array, check_type, rearrange_inputs, wrong


class OcclusionSensitivity(Metric):
    """The drop of a network's score for a class where a part of its image is covered, for each position of the part.

    `pad_val` is the covering value, and `margin` its reach: from i - margin up to and without i + margin along each
    axis, channels too; an int, or a list of one int for each axis but the first. `n_batch` images are computed at once.
    `b_box` is a list [first, last, first, last, ...] of the positions along each axis but the first, where a number
    below 0 means the first or the last; None for all.

    Raises GraphTypeError for settings of another type, and GraphValueError for an `n_batch` below 1.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn
        >>> from graphls.train import OcclusionSensitivity
        >>> network = nn.Dense(4, 2, weight_init="ones", bias_init="zeros")
        >>> metric = OcclusionSensitivity(margin=1)
        >>> metric.clear()
        >>> metric.update(network, np.array([[1, 2, 3, 4]], np.float32), np.array(1))
        >>> metric.eval()
        array([1., 3., 5., 7.], dtype=float32)
    """

    inputs = ("classification model", "predicted value", "label")

    def __init__(
        self, pad_val: float = 0.0, margin: int | list[int] = 2, n_batch: int = 128, b_box: list[int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_type(self, "pad_val", pad_val, float)
        check_type(self, "margin", margin, list if isinstance(margin, list) else int)
        check_type(self, "n_batch", n_batch, int)
        if n_batch < 1:
            raise GraphValueError(f"For 'OcclusionSensitivity', 'n_batch' must be at least 1, not {n_batch}.")
        if b_box is not None:
            check_type(self, "b_box", b_box, list)
        self.pad_val, self.margin, self.n_batch, self.b_box = pad_val, margin, n_batch, b_box
        self.clear()

    def clear(self) -> None:
        self._map: Array | None = None

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Set the network, an image (1, ...) and the number of the class, in place of earlier ones.

        Raises GraphTypeError for anything but a Cell, and for a class that is not an integer; GraphRuntimeError for
        several images or classes; GraphValueError for a class that the network lacks, and for a margin or a box that do
        not fit the image.
        """
        self._check_number(inputs)
        network, image = inputs[0], as_array(inputs[1])
        if not isinstance(network, Cell):
            raise GraphTypeError(f"For 'OcclusionSensitivity', the model must be a Cell, not {type(network).__name__}.")
        if not image.ndim or image.shape[0] != 1:
            raise GraphRuntimeError(f"For 'OcclusionSensitivity', the image is one, (1, ...), not {image.shape}.")
        label = _label(inputs[2])
        first, last = self._box(image.shape[1:])
        score = _scores(network, image, label)[0]
        positions = np.stack(np.meshgrid(*map(np.arange, first, last + 1), indexing="ij"), axis=-1)
        batches = _batches(positions.reshape(-1, image.ndim - 1), self.n_batch)
        parts = [_scores(network, self._covered(image, batch), label) for batch in batches]
        self._map = (score - np.concatenate(parts)).reshape(positions.shape[:-1]).squeeze()

    def _box(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """The first and the last position along each axis."""
        sizes = np.array(shape)
        if self.b_box is None:
            return np.zeros_like(sizes), sizes - 1
        box = np.array(self.b_box).reshape(-1)
        if box.size != 2 * sizes.size:
            raise wrong(self, f"'b_box' has a first and a last place for each of {sizes.size} axes, not {self.b_box}")
        first, last = np.maximum(box[::2], 0), np.where(box[1::2] < 0, sizes - 1, box[1::2])
        if (last >= sizes).any() or (first > last).any():
            raise wrong(self, f"'b_box' must lie in the image, first before last, not {self.b_box} in {shape}")
        return first, last

    def _covered(self, image: Array, positions: Array) -> Array:
        """A batch of copies of the image, each covered at one position."""
        axes = image.ndim - 1
        margin = np.array(self.margin if isinstance(self.margin, list) else [self.margin] * axes)
        if margin.size != axes:
            raise wrong(self, f"'margin' is an int or a list of {axes} ints, not {self.margin}")
        batch = np.repeat(image, len(positions), axis=0)
        for covered, position in zip(batch, positions, strict=True):
            bounds = zip(np.maximum(position - margin, 0), np.maximum(position + margin, 0), strict=True)
            covered[tuple(slice(start, stop) for start, stop in bounds)] = self.pad_val
        return batch

    def eval(self) -> Array:
        """The drop of the score for each covered position, without axes of one position.

        Raises GraphRuntimeError before the first `update`.
        """
        if self._map is None:
            raise GraphRuntimeError("The 'OcclusionSensitivity' must be updated before it is evaluated.")
        return self._map


def _label(x: object) -> int:
    label = as_array(x)
    if label.size != 1:
        raise GraphRuntimeError(f"For 'OcclusionSensitivity', the label is one number, not {label.size}.")
    if label.dtype.kind not in "iu":
        raise GraphTypeError(f"For 'OcclusionSensitivity', the label must be an integer, not {label.dtype}.")
    return int(label.item())


def _batches(positions: Array, size: int) -> list[Array]:
    return [positions[start : start + size] for start in range(0, len(positions), size)]


def _scores(network: Cell, images: Array, label: int) -> Array:
    """The network's score of the class for each image."""
    scores = network(Tensor(images)).asnumpy()
    if scores.ndim != 2 or not -scores.shape[1] <= label < scores.shape[1]:
        raise GraphValueError(
            f"For 'OcclusionSensitivity', the model gives (N, C) with the class {label}, not {scores.shape}.",
        )
    return np.asarray(scores[:, label])
