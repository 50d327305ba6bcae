"""Images under affine maps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import LARGEST_SIZE, choice, interval, number, positive, sequence, value_error
from graphls.dataset.vision.image import Array, ImageOperation, check_image
from graphls.dataset.vision.padding import checked_fill
from graphls.dataset.vision.resizing import pillow_filter
from graphls.dataset.vision.rotating import check_warp, checked_degrees
from graphls.dataset.vision.utils import Inter
from graphls.dataset.vision.warping import warped_affine

Pair = tuple[float, float]


def affine_matrix(center: Pair, degrees: float, translate: Pair, scale: float, shear: Pair) -> Array:
    """The (2, 3) matrix of shearing, scaling and turning clockwise around (x, y), then moving by pixels."""
    turn, across, down = (math.radians(angle) for angle in (degrees, *shear))
    stretch = math.cos(turn - down) / math.cos(down), math.sin(turn - down) / math.cos(down)
    linear = scale * np.array(
        [
            [stretch[0], -stretch[0] * math.tan(across) - math.sin(turn)],
            [stretch[1], -stretch[1] * math.tan(across) + math.cos(turn)],
        ]
    )
    moved = np.array(center) + np.array(translate) - linear @ np.array(center)
    return np.concatenate([linear, moved[:, None]], 1)


class Affine(ImageOperation):
    """An image turned clockwise by `degrees`, moved by shares of its width and height, scaled, and sheared by degrees,
    as an array.

    Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self,
        degrees: float,
        translate: Any,
        scale: float,
        shear: Any,
        resample: Inter = Inter.NEAREST,
        fill_value: Any = 0,
    ) -> None:
        self.degrees = _angle("degrees", degrees)
        self.translate = sequence("translate", translate, [2], _share)
        self.scale = positive("scale", scale)
        shears = shear if isinstance(shear, (list, tuple)) else (shear, 0)
        self.shear = sequence("shear", shears, [2], _angle)
        self.resample = choice("resample", resample, Inter)
        self.fill_value = checked_fill(fill_value)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        check_warp(self, self.resample)
        height, width = image.shape[:2]
        moved = self.translate[0] * width, self.translate[1] * height
        center = (width - 1) / 2, (height - 1) / 2
        matrix = affine_matrix(center, self.degrees, moved, self.scale, (self.shear[0], self.shear[1]))
        return warped_affine(image, matrix, (height, width), self.resample, self.fill_value)


def _angle(name: str, value: Any) -> float:
    return number(name, value, -180, 180)


def _share(name: str, value: Any) -> float:
    return number(name, value, -1, 1)


def _not_negative(name: str, value: Any) -> float:
    return number(name, value, 0, LARGEST_SIZE)


class RandomAffine(ImageOperation):
    """An image turned, moved, scaled and sheared by numbers drawn evenly from (min, max) pairs.

    `degrees` is a pair or one number for minus to plus it. `translate` has the bounds of the move across, and may have
    those of the move down behind it, as shares of the image; `shear` those across, and down, in degrees. Takes (H, W),
    (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        resample: Inter = Inter.NEAREST,
        fill_value: Any = 0,
    ) -> None:
        self.degrees = checked_degrees(degrees)
        self.translate = _bounds("translate", translate, _share)
        self.scale = (1.0, 1.0) if scale is None else interval("scale", scale, _not_negative)
        if not self.scale[1] > 0:
            raise value_error(f"Input scale[1] must be greater than 0, but got {self.scale[1]}.")
        self.shear = _bounds("shear", _shears(shear), number)
        self.resample = choice("resample", resample, Inter)
        self.fill_value = checked_fill(fill_value)

    def _drawn(self, height: int, width: int) -> tuple[float, Pair, float, Pair]:
        draw = generator().uniform
        degrees = draw(*self.degrees)
        across, down = (draw(*bounds) * size for bounds, size in zip(self.translate, (width, height), strict=True))
        return degrees, (across, down), draw(*self.scale), (draw(*self.shear[0]), draw(*self.shear[1]))

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        check_warp(self, self.resample)
        height, width = image.shape[:2]
        matrix = affine_matrix(((width - 1) / 2, (height - 1) / 2), *self._drawn(height, width))
        return warped_affine(image, matrix, (height, width), self.resample, self.fill_value)

    def on_pil(self, image: Any) -> Any:
        method = pillow_filter(self.resample)
        width, height = image.size
        matrix = affine_matrix((width / 2, height / 2), *self._drawn(height, width))
        inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2]
        fill = self.fill_value if len(image.getbands()) == 3 else self.fill_value[0]
        return image.transform(image.size, 0, inverse.reshape(-1).tolist(), method, fillcolor=fill)


def _shears(shear: Any) -> Any:
    if shear is None or isinstance(shear, (list, tuple)):
        return shear
    bound = positive("shear", shear)
    return -bound, bound


def _bounds(name: str, value: Any, check: Any) -> tuple[Pair, Pair]:
    """The (min, max) pairs across and down of two or four numbers."""
    if value is None:
        return (0, 0), (0, 0)
    numbers = sequence(name, value, [2, 4], check)
    pairs = (numbers[0], numbers[1]), (numbers[2:4] or (0, 0))
    for low, high in pairs:
        if low > high:
            raise value_error(f"{name} should be in (min, max) format, but got ({low}, {high}).")
    return pairs
