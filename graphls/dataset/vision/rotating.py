"""Images turned, moved, scaled and sheared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import LARGEST_SIZE, boolean, choice, interval, number, value_error
from graphls.dataset.vision.image import Array, ImageOperation, check_image
from graphls.dataset.vision.padding import checked_fill
from graphls.dataset.vision.resizing import pillow_filter
from graphls.dataset.vision.utils import Inter
from graphls.dataset.vision.warping import warped_affine
from graphls.ir.errors import GraphTypeError

Point = tuple[float, float]


class _Turn:
    """What both ways to turn an image have: all but the angle."""

    def __init__(self, resample: Inter, expand: bool, center: Any, fill_value: Any) -> None:
        self.resample = choice("resample", resample, Inter)
        self.expand = boolean("expand", expand)
        self.center = None if center is None else _center(center)
        self.fill_value = checked_fill(fill_value)

    def array(self, operation: object, image: Array, degrees: float) -> Array:
        check_image(operation, image)
        check_warp(operation, self.resample)
        height, width = image.shape[:2]
        center = self.center or ((width - 1) / 2, (height - 1) / 2)
        matrix, size = rotation(degrees, center), (height, width)
        if self.expand:
            sin, cos = abs(math.sin(math.radians(degrees))), abs(math.cos(math.radians(degrees)))
            new_width, new_height = width * cos + height * sin, width * sin + height * cos
            matrix[:, 2] += (new_width - width) / 2, (new_height - height) / 2
            size = round(new_height), round(new_width)
        return warped_affine(image, matrix, size, self.resample, self.fill_value)

    def pil(self, image: Any, degrees: float) -> Any:
        method, degrees = pillow_filter(self.resample), degrees % 360
        if self.resample == Inter.ANTIALIAS and (degrees % 90 or self.center):
            raise value_error("Inter.ANTIALIAS turns PIL images by multiples of 90 degrees around their center only.")
        fill = self.fill_value if len(image.getbands()) == 3 else self.fill_value[0]
        return image.rotate(degrees, method, self.expand, self.center, fillcolor=fill)


def check_warp(operation: object, interpolation: Inter) -> None:
    """Raises GraphTypeError for an interpolation that does not warp arrays."""
    if interpolation in (Inter.ANTIALIAS, Inter.PILCUBIC):
        text = f"{type(operation).__name__} has no Inter.{interpolation.name} for arrays; use BILINEAR or BICUBIC."
        raise GraphTypeError(text)


def rotation(degrees: float, center: Point) -> Array:
    """The (2, 3) matrix of a turn counterclockwise around (x, y)."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = center
    return np.array([[cos, sin, (1 - cos) * x - sin * y], [-sin, cos, sin * x + (1 - cos) * y]])


def _center(value: Any) -> Point:
    if not isinstance(value, tuple) or len(value) != 2:
        raise value_error(f"The center is a tuple (x, y), not {value!r}.")
    return number("center[0]", value[0]), number("center[1]", value[1])


def checked_degrees(degrees: Any) -> tuple[float, float]:
    """The bounds of an angle: a (min, max) pair, or plus and minus a number of 0 or more."""
    if isinstance(degrees, (list, tuple)):
        return interval("degrees", degrees, lambda name, item: number(name, item, -LARGEST_SIZE, LARGEST_SIZE))
    bound = number("degrees", degrees, 0, LARGEST_SIZE)
    return -bound, bound


class Rotate(ImageOperation):
    """An image turned counterclockwise by `degrees` around `center` (x, y) or its middle, as an array.

    With `expand` it grows so that the turned image is inside. `fill_value` is the color of what is outside of the old
    image. Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self,
        degrees: float,
        resample: Inter = Inter.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill_value: Any = 0,
    ) -> None:
        self.degrees = number("degrees", degrees, -LARGEST_SIZE, LARGEST_SIZE)
        self._turn = _Turn(resample, expand, center, fill_value)

    def on_array(self, image: Array) -> Array:
        return self._turn.array(self, image, self.degrees)


class RandomRotation(ImageOperation):
    """`Rotate` by an angle drawn from a (min, max) pair, or from minus to plus one number; a PIL image stays one."""

    def __init__(
        self,
        degrees: Any,
        resample: Inter = Inter.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill_value: Any = 0,
    ) -> None:
        self.degrees = checked_degrees(degrees)
        self._turn = _Turn(resample, expand, center, fill_value)

    def on_array(self, image: Array) -> Array:
        return self._turn.array(self, image, generator().uniform(*self.degrees))

    def on_pil(self, image: Any) -> Any:
        return self._turn.pil(image, generator().uniform(*self.degrees))
