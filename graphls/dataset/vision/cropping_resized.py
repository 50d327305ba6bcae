"""Parts of images of random size, place and proportions, brought to one size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import (
    LARGEST_SIZE,
    choice,
    integer,
    interval,
    number,
    positive,
    type_error,
    value_error,
)  # fmt: skip
from graphls.dataset.transforms.checks import (
    size as checked_size,
)
from graphls.dataset.vision.decoding import decoded
from graphls.dataset.vision.image import Array, ImageOperation, check_image
from graphls.dataset.vision.resizing import resize_array, resize_pil
from graphls.dataset.vision.utils import Inter

Box = tuple[int, int, int, int]  # top, left, height, width


class RandomResizedCrop(ImageOperation):
    """A part of an image, resized to (height, width) or a square.

    Its area is a share of the image's drawn evenly from `scale`, its width over its height drawn from `ratio`, evenly
    by its logarithm. If `max_attempts` draws give no part that is inside of the image, the largest part in the middle
    with a ratio within the bounds is taken. Takes (..., H, W, C), (H, W) or a PIL image. Raises GraphTypeError,
    GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Inter = Inter.BILINEAR,
        max_attempts: int = 10,
    ) -> None:
        self.size = checked_size("size", size)
        self.scale = interval("scale", scale, lambda name, item: number(name, item, 0, LARGEST_SIZE))
        if not self.scale[1] > 0:
            raise value_error(f"Input scale[1] must be greater than 0, but got {self.scale[1]}.")
        self.ratio = interval("ratio", ratio, lambda name, item: positive(name, item, LARGEST_SIZE))
        self.interpolation = choice("interpolation", interpolation, Inter)
        self.max_attempts = integer("max_attempts", max_attempts, 1)

    def on_array(self, image: Array) -> Array:
        rows = check_image(self, image, more=True)
        top, left, height, width = self._box(*image.shape[rows : rows + 2])
        part = image[(slice(None),) * rows + (slice(top, top + height), slice(left, left + width))]
        return resize_array(self, part, self.size, self.interpolation)

    def on_pil(self, image: Any) -> Any:
        top, left, height, width = self._box(image.size[1], image.size[0])
        return resize_pil(image.crop((left, top, left + width, top + height)), self.size, self.interpolation)

    def _box(self, height: int, width: int) -> Box:
        draw = generator()
        low, high = (math.log(bound) for bound in self.ratio)
        for _ in range(self.max_attempts):
            area = draw.uniform(*self.scale) * height * width
            ratio = math.exp(draw.uniform(low, high))
            new_width, new_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < new_width <= width and 0 < new_height <= height:
                top, left = draw.integers(height - new_height + 1), draw.integers(width - new_width + 1)
                return int(top), int(left), new_height, new_width
        return self._middle(height, width)

    def _middle(self, height: int, width: int) -> Box:
        ratio = width / height
        if ratio < self.ratio[0]:
            new_height, new_width = max(1, _nearest(width / self.ratio[0])), width
        elif ratio > self.ratio[1]:
            new_height, new_width = height, max(1, _nearest(height * self.ratio[1]))
        else:
            new_height, new_width = height, width
        return _nearest((height - new_height) / 2), _nearest((width - new_width) / 2), new_height, new_width


def _nearest(value: float) -> int:
    return math.floor(value + 0.5)


class RandomCropDecodeResize(RandomResizedCrop):
    """`Decode`, then `RandomResizedCrop`; takes an array of the bytes of an image, uint8 of one axis."""

    def prepare(self, column: Any) -> Any:
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype != np.uint8:
            raise type_error("image", column, "an array of bytes, uint8 of one axis")
        return np.array(decoded(column))
