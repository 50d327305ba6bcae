"""Batches of images and one-hot labels, mixed with each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import LARGEST_SIZE, boolean, choice, integer, positive, probability
from graphls.dataset.transforms.operation import as_column
from graphls.dataset.vision.image import Array
from graphls.dataset.vision.utils import ImageBatchFormat
from graphls.ir.errors import GraphRuntimeError

Batch = tuple[Array, Array]


def _checked(operation: object, image: Any, label: Any) -> Batch:
    image, label = as_column(image), as_column(label)
    if image.ndim != 4 or label.ndim not in (2, 3) or len(image) != len(label):
        text = f"{type(operation).__name__} takes images (N, H, W, C) or (N, C, H, W) and one-hot labels (N, classes)"
        raise GraphRuntimeError(f"{text}, not {image.shape} and {label.shape}.")
    return image, label


def _mixed_labels(label: Array, other: Array, share: float) -> Array:
    mixed = label.astype(np.float32) * np.float32(share) + other.astype(np.float32) * np.float32(1 - share)
    return np.asarray(mixed)


def _share(alpha: float) -> float:
    return float(generator().beta(alpha, alpha))


class MixUpBatch:
    """Each image of a batch mixed with another one, their labels with the same shares (Zhang et al. 2018).

    Call it with a batch of images and the labels (N, classes) or (N, labels, classes); gives both, labels in float32.
    The share of the one image is drawn from Beta(alpha, alpha). Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = positive("alpha", alpha, LARGEST_SIZE)

    def __call__(self, image: Any, label: Any) -> Batch:
        image, label = _checked(self, image, label)
        order = generator().permutation(len(image))
        share = _share(self.alpha)
        mixed = image.astype(np.float32) * np.float32(share) + image[order].astype(np.float32) * np.float32(1 - share)
        return mixed.astype(image.dtype), _mixed_labels(label, label[order], share)


class CutMixBatch:
    """Each image of a batch with a rectangle of another one, with a probability, and the labels mixed by its area.

    Call it with a batch of images and the labels (N, classes) or (N, labels, classes); gives both, labels in float32.
    The area that stays is drawn from Beta(alpha, alpha) (Yun et al. 2019). Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.
    """

    def __init__(self, image_batch_format: ImageBatchFormat, alpha: float = 1.0, prob: float = 1.0) -> None:
        self.image_batch_format = choice("image_batch_format", image_batch_format, ImageBatchFormat)
        self.alpha = positive("alpha", alpha, LARGEST_SIZE)
        self.prob = probability("prob", prob)

    def __call__(self, image: Any, label: Any) -> Batch:
        image, label = _checked(self, image, label)
        order = generator().permutation(len(image))
        images, labels = image.copy(), label.astype(np.float32)
        for place, other in enumerate(order):
            if generator().random() < self.prob:
                share = self._cut(images[place], image[other])
                labels[place] = _mixed_labels(label[place], label[other], share)
        return images, labels

    def _cut(self, image: Array, other: Array) -> float:
        """Put a rectangle of `other` into `image`; the share of `image` that stays."""
        planes, others = (array if self._is_hwc else array.transpose(1, 2, 0) for array in (image, other))
        height, width = planes.shape[:2]
        side = math.sqrt(1 - _share(self.alpha))
        rows, columns = (_stretch(size, int(size * side) // 2) for size in (height, width))
        planes[rows, columns] = others[rows, columns]
        cut = (rows.stop - rows.start) * (columns.stop - columns.start)
        return 1 - float(cut / (height * width))

    @property
    def _is_hwc(self) -> bool:
        return self.image_batch_format == ImageBatchFormat.NHWC


def _stretch(size: int, half: int) -> slice:
    """The part of an axis around a place drawn at random."""
    center = int(generator().integers(size))
    return slice(max(0, center - half), min(size, center + half))


class MixUp:
    """Each image of a batch mixed with another one, or with the batch before, and their labels (Zhang et al. 2018).

    Call it with a batch of `batch_size` images and their one-hot labels. With `is_single` the other one is of the same
    batch, and each image has a share of its own drawn from Beta(alpha, alpha); otherwise it is at the same place in the
    batch before, with one share. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, batch_size: int, alpha: float, is_single: bool = True) -> None:
        self.batch_size = integer("batch_size", batch_size, 1, LARGEST_SIZE)
        self.alpha = positive("alpha", alpha)
        self.is_single = boolean("is_single", is_single)
        self._before: Batch | None = None

    def __call__(self, image: Any, label: Any) -> Batch:
        image, label = as_column(image), as_column(label)
        if len(image) != self.batch_size or len(label) != self.batch_size:
            text = f"MixUp of {self.batch_size} takes as many images and labels, not {len(image)} and {len(label)}."
            raise GraphRuntimeError(text)
        if self.is_single:
            shares, order = generator().beta(self.alpha, self.alpha, len(image)), generator().permutation(len(image))
            return _mixture(image, image[order], shares), _mixture(label, label[order], shares)
        before, self._before = self._before or (image, label), (image, label)
        shares = np.full(len(image), _share(self.alpha))
        return _mixture(image, before[0], shares), _mixture(label, before[1], shares)


def _mixture(array: Array, other: Array, shares: Array) -> Array:
    shares = shares.reshape(-1, *[1] * (array.ndim - 1))
    return np.asarray(array * shares + other * (1 - shares))
