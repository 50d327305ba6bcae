"""Erasing of rectangles in images, and mixing of the samples of a batch (MixUp, CutMix)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.dataset import checks
from graphls.dataset.randomness import between, generator
from graphls.dataset.transforms.operations import as_column
from graphls.dataset.vision.image import Array, Image, ImageOperation, Numbers, check_color, saturated, wrong_shape
from graphls.dataset.vision.utils import ImageBatchFormat

__all__ = ["CutMixBatch", "CutOut", "Erase", "MixUp", "MixUpBatch", "RandomErasing"]


def _value(name: str, value: object) -> float:
    return checks.number(name, value, 0, 255)


class Erase(ImageOperation):
    """The image with (height, width) pixels at (top, left), as far as they are inside of it, of one value or color.

    Takes (H, W, 3) or a PIL image; returns an array; `inplace` changes the array itself. Raises GraphTypeError,
    GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Erase(0, 0, 1, 2)(image)[0, :3, 0]
        array([  0,   0, 100], dtype=uint8)
    """

    def __init__(self, top: int, left: int, height: int, width: int, value: Numbers = 0, inplace: bool = False) -> None:
        self.top, self.left = checks.integer("top", top, 0), checks.integer("left", left, 0)
        self.height, self.width = checks.integer("height", height, 1), checks.integer("width", width, 1)
        self.value = checks.sequence("value", value if isinstance(value, tuple) else (value,) * 3, [3], _value)
        self.inplace = checks.boolean("inplace", inplace)

    def on_array(self, image: Array) -> Array:
        check_color(self, image)
        if self.top >= image.shape[0] or self.left >= image.shape[1]:
            raise wrong_shape(self, image, f"an image of more than {self.top} x {self.left} pixels")
        image = image if self.inplace and image.flags.writeable else image.copy()
        color = saturated(np.array(self.value), image.dtype)
        image[self.top : self.top + self.height, self.left : self.left + self.width] = color
        return image


class CutOut(ImageOperation):
    """The image with `num_patches` squares of `length` pixels at random positions blanked.

    Takes (H, W, C), or with `is_hwc=False` (C, H, W). Raises GraphTypeError, GraphValueError or, where the image is
    smaller than a square, GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.CutOut(2)(image).shape
        (4, 6, 3)
    """

    def __init__(self, length: int, num_patches: int = 1, is_hwc: bool = True) -> None:
        self.length = checks.integer("length", length, 1, checks.LARGEST_SIZE)
        self.num_patches = checks.integer("num_patches", num_patches, 1, checks.LARGEST_SIZE)
        self.is_hwc = checks.boolean("is_hwc", is_hwc)

    def on_array(self, image: Array) -> Array:
        if image.ndim != 3:
            raise wrong_shape(self, image, "an image of three dimensions")
        result = image.copy()
        planes = result if self.is_hwc else result.transpose(1, 2, 0)  # a view, written through
        height, width = planes.shape[:2]
        if self.length > min(height, width):
            raise wrong_shape(self, image, f"an image of {self.length} x {self.length} pixels or more")
        for _ in range(self.num_patches):
            top = int(generator().integers(height - self.length + 1))
            left = int(generator().integers(width - self.length + 1))
            planes[top : top + self.length, left : left + self.length] = 0
        return result


class RandomErasing(ImageOperation):
    """The image of (C, H, W) with a rectangle at a random position replaced, with a probability (Zhong et al. 2020).

    Its area is a share drawn from `scale`, its width over its height drawn from `ratio`; `value` is a
    number, one for each of three channels, or "random". Raises GraphTypeError or GraphValueError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.ones((3, 16, 16), np.float32)
        >>> vision.RandomErasing(1.0)(image).shape
        (3, 16, 16)
    """

    def __init__(
        self, prob: float = 0.5, scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3),
        value: Numbers | str = 0, inplace: bool = False, max_attempts: int = 10,
    ) -> None:  # fmt: skip
        self.prob = checks.probability("prob", prob)
        self.scale = checks.interval("scale", scale, checks.magnitude)
        self.ratio = checks.interval(
            "ratio", ratio, lambda name, item: checks.positive(name, item, checks.LARGEST_SIZE)
        )
        self.value = _erasing(value)
        self.inplace = checks.boolean("inplace", inplace)
        self.max_attempts = checks.integer("max_attempts", max_attempts, 1, checks.LARGEST_SIZE)

    def apply(self, column: Image) -> Any:
        draw = generator()
        if draw.random() >= self.prob:
            return column
        if not isinstance(column, np.ndarray) or column.ndim != 3:
            raise GraphTypeError("RandomErasing takes an array of (C, H, W); put ToTensor() before it.")
        channels, height, width = column.shape
        box = self._box(draw, height, width)
        if box is None:
            return column
        top, left, down, across = box
        image = column if self.inplace and column.flags.writeable else column.copy()
        image[:, top : top + down, left : left + across] = self._filling(draw, channels, down, across)
        return image

    def _box(self, draw: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int] | None:
        for _ in range(self.max_attempts):
            area, ratio = between(draw, *self.scale) * height * width, between(draw, *self.ratio)
            down, across = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < down < height and 0 < across < width:
                return int(draw.integers(height - down + 1)), int(draw.integers(width - across + 1)), down, across
        return None

    def _filling(self, draw: np.random.Generator, channels: int, down: int, across: int) -> Any:
        if self.value == "random":
            return draw.standard_normal((channels, down, across))
        if isinstance(self.value, tuple) and channels != 3:
            raise GraphTypeError(f"RandomErasing has a value for each of three channels, and the image has {channels}.")
        return np.array(self.value)[..., None, None] if isinstance(self.value, tuple) else self.value


def _erasing(value: Numbers | str) -> Any:
    if isinstance(value, (list, tuple)) and len(value) == 3:
        return checks.sequence("value", value, [3], _value)
    if value == "random":
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise GraphValueError(f'value is a number, three of them, or "random", not {value!r}.')
    return _value("value", value)


Batch = tuple[Array, Array]


def _checked_batch(operation: object, image: object, label: object) -> Batch:
    image, label = as_column(image), as_column(label)
    if image.ndim != 4 or label.ndim not in (2, 3) or len(image) != len(label):
        text = f"{type(operation).__name__} takes images (N, H, W, C) or (N, C, H, W) and one-hot labels (N, classes)"
        raise GraphRuntimeError(f"{text}, not {image.shape} and {label.shape}.")
    return image, label


def _blended(array: Array, other: Array, share: float) -> Array:
    """array * share + other * (1 - share), in float32."""
    return np.asarray(array.astype(np.float32) * np.float32(share) + other.astype(np.float32) * np.float32(1 - share))


def _drawn_share(alpha: float) -> float:
    return float(generator().beta(alpha, alpha))


class MixUpBatch:
    """Each image of a batch mixed with another one, their labels with the same shares (Zhang et al. 2018).

    Call it with a batch of images and the labels (N, classes) or (N, labels, classes); returns both, labels in float32.
    The share of the one image is drawn from Beta(alpha, alpha). Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls.dataset import transforms, vision
        >>> rows = ds.NumpySlicesDataset((np.zeros((4, 8, 8, 3), np.uint8), np.arange(4)), ["image", "label"])
        >>> rows = rows.map(transforms.OneHot(4), "label").batch(4).map(vision.MixUpBatch(), ["image", "label"])
        >>> [(images.shape, labels.shape) for images, labels in rows]
        [((4, 8, 8, 3), (4, 4))]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = checks.positive("alpha", alpha, checks.LARGEST_SIZE)

    def __call__(self, image: object, label: object) -> Batch:
        image, label = _checked_batch(self, image, label)
        order = generator().permutation(len(image))
        share = _drawn_share(self.alpha)
        return _blended(image, image[order], share).astype(image.dtype), _blended(label, label[order], share)


class CutMixBatch:
    """Each image of a batch with a rectangle of another one, with a probability, and the labels mixed by its area.

    Call it with a batch of images and the labels (N, classes) or (N, labels, classes); returns both, labels in float32.
    The area that stays is drawn from Beta(alpha, alpha) (Yun et al. 2019). Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls.dataset import transforms, vision
        >>> rows = ds.NumpySlicesDataset((np.zeros((4, 8, 8, 3), np.uint8), np.arange(4)), ["image", "label"])
        >>> rows = rows.map(transforms.OneHot(4), "label").batch(4)
        >>> rows = rows.map(vision.CutMixBatch(vision.ImageBatchFormat.NHWC), ["image", "label"])
        >>> [(images.shape, labels.shape) for images, labels in rows]
        [((4, 8, 8, 3), (4, 4))]
    """

    def __init__(self, image_batch_format: ImageBatchFormat, alpha: float = 1.0, prob: float = 1.0) -> None:
        self.image_batch_format = checks.choice("image_batch_format", image_batch_format, ImageBatchFormat)
        self.alpha = checks.positive("alpha", alpha, checks.LARGEST_SIZE)
        self.prob = checks.probability("prob", prob)

    def __call__(self, image: object, label: object) -> Batch:
        image, label = _checked_batch(self, image, label)
        draw = generator()
        order = draw.permutation(len(image))
        images, labels = image.copy(), label.astype(np.float32)
        for index, other in enumerate(order):
            if draw.random() < self.prob:
                share = self._cut(images[index], image[other], draw)
                labels[index] = _blended(label[index], label[other], share)
        return images, labels

    def _cut(self, image: Array, other: Array, draw: np.random.Generator) -> float:
        """Copy a rectangle of `other` into `image`; returns the unchanged share of `image`."""
        planes, others = (array if self._is_hwc else array.transpose(1, 2, 0) for array in (image, other))
        height, width = planes.shape[:2]
        side = math.sqrt(1 - draw.beta(self.alpha, self.alpha))
        rows, columns = (_random_span(size, int(size * side) // 2, draw) for size in (height, width))
        planes[rows, columns] = others[rows, columns]
        cut = (rows.stop - rows.start) * (columns.stop - columns.start)
        return 1 - float(cut / (height * width))

    @property
    def _is_hwc(self) -> bool:
        return self.image_batch_format == ImageBatchFormat.NHWC


def _random_span(size: int, half: int, draw: np.random.Generator) -> slice:
    """The part of an axis around a random position."""
    center = int(draw.integers(size))
    return slice(max(0, center - half), min(size, center + half))


class MixUp:
    """Each image of a batch mixed with another one, or with the batch before, and their labels (Zhang et al. 2018).

    Call it with a batch of `batch_size` images and their one-hot labels. With `is_single` the other one is of the same
    batch, and each image has a share of its own drawn from Beta(alpha, alpha); otherwise it is at the same index of the
    batch before, with one share. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> images, labels = vision.MixUp(2, 0.5, True)(np.zeros((2, 4, 4, 3), np.float32), np.eye(2, dtype=np.float32))
        >>> images.shape, float(labels.sum())
        ((2, 4, 4, 3), 2.0)
    """

    def __init__(self, batch_size: int, alpha: float, is_single: bool = True) -> None:
        self.batch_size = checks.integer("batch_size", batch_size, 1, checks.LARGEST_SIZE)
        self.alpha = checks.positive("alpha", alpha)
        self.is_single = checks.boolean("is_single", is_single)
        self._before: Batch | None = None

    def __call__(self, image: object, label: object) -> Batch:
        image, label = as_column(image), as_column(label)
        if len(image) != self.batch_size or len(label) != self.batch_size:
            text = f"MixUp of {self.batch_size} takes as many images and labels, not {len(image)} and {len(label)}."
            raise GraphRuntimeError(text)
        if self.is_single:
            shares, order = generator().beta(self.alpha, self.alpha, len(image)), generator().permutation(len(image))
            return _mixture(image, image[order], shares), _mixture(label, label[order], shares)
        before, self._before = self._before or (image, label), (image, label)
        shares = np.full(len(image), _drawn_share(self.alpha))
        return _mixture(image, before[0], shares), _mixture(label, before[1], shares)


def _mixture(array: Array, other: Array, shares: Array) -> Array:
    shares = shares.reshape(-1, *[1] * (array.ndim - 1))
    return np.asarray(array * shares + other * (1 - shares))
