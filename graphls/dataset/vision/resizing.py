"""Images in another size."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import choice, integer, type_error
from graphls.dataset.transforms.checks import size as checked_size
from graphls.dataset.vision.image import Array, ImageOperation, check_image, pillow, wrong_shape
from graphls.dataset.vision.resampling import resized
from graphls.dataset.vision.utils import Inter
from graphls.ir.errors import GraphTypeError


def wanted_size(size: int | tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """(height, width), or both from one integer for the shorter side."""
    if not isinstance(size, int):
        return size
    if height < width:
        return size, int(size * width / height)
    return int(size * height / width), size


def resize_array(operation: object, image: Array, size: int | tuple[int, int], interpolation: Inter) -> Array:
    """An array in another size; raises GraphRuntimeError where the interpolation does not fit its dtype or shape."""
    rows = check_image(operation, image, more=True)
    check_interpolation(operation, image, interpolation)
    return resized(image, wanted_size(size, *image.shape[rows : rows + 2]), interpolation, rows)


def check_interpolation(operation: object, image: Array, interpolation: Inter) -> None:
    """Raises GraphTypeError for ANTIALIAS, GraphRuntimeError where an interpolation does not fit an array."""
    if interpolation == Inter.ANTIALIAS:
        text = f"{type(operation).__name__} has Inter.ANTIALIAS for PIL images only; put ToPIL() before it."
        raise GraphTypeError(text)
    if interpolation == Inter.PILCUBIC and (image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3):
        raise wrong_shape(operation, image, "an image of uint8 and (H, W, 3) for Inter.PILCUBIC")
    if interpolation != Inter.NEAREST and image.dtype.kind != "f" and image.dtype not in (np.uint8, np.uint16):
        raise wrong_shape(operation, image, "an image of floats, uint8 or uint16 except for Inter.NEAREST")


def pillow_filter(interpolation: Inter) -> Any:
    """Pillow's name of an interpolation; raises GraphTypeError for those it does not have."""
    if interpolation in (Inter.AREA, Inter.PILCUBIC):
        text = f"Inter.{interpolation.name} is for arrays; a PIL image has no such interpolation."
        raise GraphTypeError(text)
    return pillow().Resampling(int(interpolation))


def resize_pil(image: Any, size: int | tuple[int, int], interpolation: Inter) -> Any:
    """A PIL image in another size; Pillow smooths where it becomes smaller."""
    method = pillow_filter(interpolation)
    width, height = image.size
    if isinstance(size, int) and size == min(width, height):
        return image
    return image.resize(wanted_size(size, height, width)[::-1], method)


def _size(value: Any) -> int | tuple[int, int]:
    if isinstance(value, (list, tuple)):
        return checked_size("size", value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise type_error("size", value, "an integer or a (height, width) pair")
    return checked_size("size", value)[0]


class Resize(ImageOperation):
    """An image in the size (height, width), or with the shorter side of an integer `size` and its proportions.

    Takes (..., H, W, C), (H, W), or a PIL image. Arrays are interpolated as OpenCV does (`vision/resampling.py`), PIL
    images as Pillow does. Raises GraphTypeError, GraphValueError or, for an image that does not fit, GraphRuntimeError.
    """

    def __init__(self, size: Any, interpolation: Inter = Inter.LINEAR) -> None:
        self.size = _size(size)
        self.interpolation = choice("interpolation", interpolation, Inter)

    def on_array(self, image: Array) -> Array:
        return resize_array(self, image, self.size, self.interpolation)

    def on_pil(self, image: Any) -> Any:
        return resize_pil(image, self.size, self.interpolation)


class RandomResize(ImageOperation):
    """An array in the size of `Resize`, by NEAREST, BILINEAR, BICUBIC or AREA, drawn for each image."""

    def __init__(self, size: Any) -> None:
        self.size = _size(size)

    def on_array(self, image: Array) -> Array:
        methods = [Inter.NEAREST, Inter.BILINEAR, Inter.BICUBIC, Inter.AREA]
        return resize_array(self, image, self.size, methods[generator().integers(len(methods))])


class ResizedCrop(ImageOperation):
    """The part of (height, width) at (top, left), resized to (height, width) or a square of `size`, as an array.

    Raises GraphTypeError, GraphValueError or, where the part is not inside of the image, GraphRuntimeError.
    """

    def __init__(
        self, top: int, left: int, height: int, width: int, size: Any, interpolation: Inter = Inter.BILINEAR
    ) -> None:
        self.top, self.left = integer("top", top, 0), integer("left", left, 0)
        self.height, self.width = integer("height", height, 1), integer("width", width, 1)
        self.size = checked_size("size", size)
        self.interpolation = choice("interpolation", interpolation, Inter)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        bottom, right = self.top + self.height, self.left + self.width
        if bottom > image.shape[0] or right > image.shape[1]:
            raise wrong_shape(self, image, f"an image of {bottom} x {right} pixels or more")
        part = image[self.top : bottom, self.left : right]
        return resize_array(self, part, self.size, self.interpolation)
