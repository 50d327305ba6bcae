"""Rectangles of images that are blanked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import (
    LARGEST_SIZE,
    boolean,
    integer,
    interval,
    number,
    positive,
    probability,
    sequence,
    value_error,
)  # fmt: skip
from graphls.dataset.vision.image import Array, ImageOperation, check_color, saturated, wrong_shape
from graphls.ir.errors import GraphTypeError


def _value(name: str, value: Any) -> float:
    return number(name, value, 0, 255)


class Erase(ImageOperation):
    """The image with (height, width) pixels at (top, left), as far as they are inside of it, of one value or color.

    Takes (H, W, 3) or a PIL image, gives an array; `inplace` changes the array itself. Raises GraphTypeError,
    GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self, top: int, left: int, height: int, width: int, value: Any = 0.0, inplace: bool = False
    ) -> None:
        self.top, self.left = integer("top", top, 0), integer("left", left, 0)
        self.height, self.width = integer("height", height, 1), integer("width", width, 1)
        self.value = sequence("value", value if isinstance(value, tuple) else (value,) * 3, [3], _value)
        self.inplace = boolean("inplace", inplace)

    def on_array(self, image: Array) -> Array:
        check_color(self, image)
        if self.top >= image.shape[0] or self.left >= image.shape[1]:
            raise wrong_shape(self, image, f"an image of more than {self.top} x {self.left} pixels")
        image = image if self.inplace and image.flags.writeable else image.copy()
        color = saturated(np.array(self.value), image.dtype)
        image[self.top : self.top + self.height, self.left : self.left + self.width] = color
        return image


class CutOut(ImageOperation):
    """The image with `num_patches` squares of `length` pixels at random places blanked.

    Takes (H, W, C), or with `is_hwc=False` (C, H, W). Raises GraphTypeError, GraphValueError or, where the image is
    smaller than a square, GraphRuntimeError.
    """

    def __init__(self, length: int, num_patches: int = 1, is_hwc: bool = True) -> None:
        self.length = integer("length", length, 1, LARGEST_SIZE)
        self.num_patches = integer("num_patches", num_patches, 1, LARGEST_SIZE)
        self.is_hwc = boolean("is_hwc", is_hwc)

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
    """The image of (C, H, W) with a rectangle at a random place replaced, with a probability (Zhong et al. 2020).

    Its area is a share drawn from `scale`, its width over its height drawn from `ratio`; `value` is a
    number, one for each of three channels, or "random". Raises GraphTypeError or GraphValueError.
    """

    def __init__(
        self,
        prob: float = 0.5,
        scale: Any = (0.02, 0.33),
        ratio: Any = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
        max_attempts: int = 10,
    ) -> None:
        self.prob = probability("prob", prob)
        self.scale = interval("scale", scale, lambda name, item: number(name, item, 0, LARGEST_SIZE))
        self.ratio = interval("ratio", ratio, lambda name, item: positive(name, item, LARGEST_SIZE))
        self.value = _erasing(value)
        self.inplace = boolean("inplace", inplace)
        self.max_attempts = integer("max_attempts", max_attempts, 1, LARGEST_SIZE)

    def apply(self, column: Any) -> Any:
        if generator().random() >= self.prob:
            return column
        if not isinstance(column, np.ndarray) or column.ndim != 3:
            text = "RandomErasing takes an array of (C, H, W); put ToTensor() before it."
            raise GraphTypeError(text)
        channels, height, width = column.shape
        box = self._box(height, width)
        if box is None:
            return column
        top, left, down, across = box
        image = column if self.inplace and column.flags.writeable else column.copy()
        image[:, top : top + down, left : left + across] = self._filling(channels, down, across)
        return image

    def _box(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        draw = generator()
        for _ in range(self.max_attempts):
            area, ratio = draw.uniform(*self.scale) * height * width, draw.uniform(*self.ratio)
            down, across = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < down < height and 0 < across < width:
                return int(draw.integers(height - down + 1)), int(draw.integers(width - across + 1)), down, across
        return None

    def _filling(self, channels: int, down: int, across: int) -> Any:
        if self.value == "random":
            return generator().standard_normal((channels, down, across))
        if isinstance(self.value, tuple) and channels != 3:
            text = f"RandomErasing has a value for each of three channels, and the image has {channels}."
            raise GraphTypeError(text)
        return np.array(self.value)[..., None, None] if isinstance(self.value, tuple) else self.value


def _erasing(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and len(value) == 3:
        return sequence("value", value, [3], _value)
    if value == "random":
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise value_error(f'value is a number, three of them, or "random", not {value!r}.')
    return _value("value", value)
