"""Resizing and padding of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.dataset.checks import byte, choice, integer, natural, sequence, type_error
from graphls.dataset.checks import size as checked_size
from graphls.dataset.randomness import generator
from graphls.dataset.vision import image as images
from graphls.dataset.vision.image import Array, Fill, FillValue, ImageOperation, Integers, PilImage
from graphls.dataset.vision.opencv import bordered, resized
from graphls.dataset.vision.utils import Border, Inter

__all__ = ["Pad", "PadToSize", "RandomResize", "Resize", "ResizedCrop"]


def target_size(size: int | tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """(height, width) as it is, or both from one integer for the shorter side."""
    if not isinstance(size, int):
        return size
    if height < width:
        return size, int(size * width / height)
    return int(size * height / width), size


def resize_array(operation: object, image: Array, size: int | tuple[int, int], interpolation: Inter) -> Array:
    """An array in another size; raises GraphRuntimeError where the interpolation does not fit its dtype or shape."""
    rows = images.check_image(operation, image, more=True)
    check_interpolation(operation, image, interpolation)
    return resized(image, target_size(size, *image.shape[rows : rows + 2]), interpolation, rows)


def check_interpolation(operation: object, image: Array, interpolation: Inter) -> None:
    """Raises GraphTypeError for ANTIALIAS, GraphRuntimeError where an interpolation does not fit an array."""
    if interpolation == Inter.ANTIALIAS:
        text = f"{type(operation).__name__} has Inter.ANTIALIAS for PIL images only; put ToPIL() before it."
        raise GraphTypeError(text)
    if interpolation == Inter.PILCUBIC and (image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3):
        raise images.wrong_shape(operation, image, "an image of uint8 and (H, W, 3) for Inter.PILCUBIC")
    if interpolation != Inter.NEAREST and image.dtype.kind != "f" and image.dtype not in (np.uint8, np.uint16):
        raise images.wrong_shape(operation, image, "an image of floats, uint8 or uint16 except for Inter.NEAREST")


def pillow_filter(interpolation: Inter) -> Any:
    """Pillow's constant of an interpolation; raises GraphTypeError for those it lacks."""
    if interpolation in (Inter.AREA, Inter.PILCUBIC):
        raise GraphTypeError(f"Inter.{interpolation.name} is for arrays; a PIL image has no such interpolation.")
    return images.pillow().Resampling(int(interpolation))


def resize_pil(image: PilImage, size: int | tuple[int, int], interpolation: Inter) -> Any:
    """A PIL image in another size; Pillow smooths where it becomes smaller."""
    method = pillow_filter(interpolation)
    width, height = image.size
    if isinstance(size, int) and size == min(width, height):
        return image
    return image.resize(target_size(size, height, width)[::-1], method)


def _size(value: object) -> int | tuple[int, int]:
    if isinstance(value, (list, tuple)):
        return checked_size("size", value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise type_error("size", value, "an integer or a (height, width) pair")
    return checked_size("size", value)[0]


class Resize(ImageOperation):
    """An image in the size (height, width), or with the shorter side of an integer `size` and its proportions.

    Takes (..., H, W, C), (H, W), or a PIL image. Arrays are interpolated as OpenCV does (`vision/opencv.py`), PIL
    images as Pillow does. Raises GraphTypeError, GraphValueError or, for an image that does not fit, GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Resize((8, 8))(image).shape
        (8, 8, 3)
    """

    def __init__(self, size: Integers, interpolation: Inter = Inter.LINEAR) -> None:
        self.size = _size(size)
        self.interpolation = choice("interpolation", interpolation, Inter)

    def on_array(self, image: Array) -> Array:
        return resize_array(self, image, self.size, self.interpolation)

    def on_pil(self, image: PilImage) -> Any:
        return resize_pil(image, self.size, self.interpolation)


class RandomResize(ImageOperation):
    """An array in the size of `Resize`, by NEAREST, BILINEAR, BICUBIC or AREA, drawn for each image.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomResize((8, 8))(image).shape
        (8, 8, 3)
    """

    def __init__(self, size: Integers) -> None:
        self.size = _size(size)

    def on_array(self, image: Array) -> Array:
        methods = [Inter.NEAREST, Inter.BILINEAR, Inter.BICUBIC, Inter.AREA]
        return resize_array(self, image, self.size, methods[generator().integers(len(methods))])


class ResizedCrop(ImageOperation):
    """The part of (height, width) at (top, left), resized to (height, width) or a square of `size`, as an array.

    Raises GraphTypeError, GraphValueError or, where the part is not inside of the image, GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.ResizedCrop(0, 0, 2, 3, (8, 8))(image).shape
        (8, 8, 3)
    """

    def __init__(
        self, top: int, left: int, height: int, width: int, size: Integers, interpolation: Inter = Inter.BILINEAR
    ) -> None:
        self.top, self.left = integer("top", top, 0), integer("left", left, 0)
        self.height, self.width = integer("height", height, 1), integer("width", width, 1)
        self.size = checked_size("size", size)
        self.interpolation = choice("interpolation", interpolation, Inter)

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        bottom, right = self.top + self.height, self.left + self.width
        if bottom > image.shape[0] or right > image.shape[1]:
            raise images.wrong_shape(self, image, f"an image of {bottom} x {right} pixels or more")
        part = image[self.top : bottom, self.left : right]
        return resize_array(self, part, self.size, self.interpolation)


Sides = tuple[int, int, int, int]  # left, top, right, bottom


def checked_sides(value: object) -> Sides:
    """(left, top, right, bottom) of one integer, of two (left and right, top and bottom), or of four."""
    if not isinstance(value, (list, tuple)):
        value = (integer("padding", value, 0),) * 4
    if len(value) not in (2, 4):
        raise GraphValueError(f"The padding has 1, 2 or 4 sizes, not {len(value)}.")
    sides = sequence("padding", value, [2, 4], natural)
    return (sides * 2)[:4]  # type: ignore[return-value]


def checked_fill(value: object) -> Fill:
    """The bytes of red, green and blue, from a tuple of three or one for all; raises GraphTypeError otherwise."""
    if isinstance(value, tuple):
        red, green, blue = sequence("fill_value", value, [3], byte)
        return red, green, blue
    return (byte("fill_value", value),) * 3


def fill_of(image: PilImage, fill: Fill) -> Any:
    """The color in Pillow's form for an image."""
    return fill if len(image.getbands()) == 3 else fill[0]


def padded(operation: object, image: Array, sides: Sides, fill: Fill, mode: Border) -> Array:
    """An array of (H, W) or (H, W, C) with a border; raises GraphRuntimeError where a color does not fit."""
    images.check_image(operation, image)
    if mode == Border.CONSTANT:
        left, top, right, bottom = sides
        size = image.shape[0] + top + bottom, image.shape[1] + left + right
        return window(operation, image, -top, -left, size, fill)
    return bordered(image, sides, mode)


def window(operation: object, image: Array, top: int, left: int, size: tuple[int, int], fill: Fill) -> Array:
    """The part at (top, left) in (height, width) = `size` of an image of (H, W) or (H, W, C), in a plane of a color.

    Raises GraphRuntimeError where the color does not fit.
    """
    channels = image.shape[2] if image.ndim == 3 else 1
    if channels not in (1, 3):
        raise images.wrong_shape(operation, image, "an image of 1 or 3 channels")
    result = np.zeros((*size, *image.shape[2:]), image.dtype)
    if any(fill):
        result[...] = np.array(fill[:channels] if image.ndim == 3 else fill[0]).astype(image.dtype)
    part = image[max(top, 0) : max(top + size[0], 0), max(left, 0) : max(left + size[1], 0)]
    result[max(-top, 0) :, max(-left, 0) :][: part.shape[0], : part.shape[1]] = part
    return result


def padded_pil(operation: object, image: PilImage, sides: Sides, fill: Fill, mode: Border) -> Any:
    """A PIL image with a border."""
    if mode != Border.CONSTANT:
        return images.pillow().fromarray(padded(operation, np.asarray(image), sides, fill, mode))
    return images.pillow("ImageOps").expand(image, sides, fill_of(image, fill))


class Pad(ImageOperation):
    """An image with a border: a constant color, or the edge or the mirror of the image.

    `padding` is its number of pixels: one number, (left and right, top and bottom), or (left, top, right, bottom).

    Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Pad(1)(image).shape
        (6, 8, 3)
    """

    def __init__(self, padding: Integers, fill_value: FillValue = 0, padding_mode: Border = Border.CONSTANT) -> None:
        self.padding = checked_sides(padding)
        self.fill_value = checked_fill(fill_value)
        self.padding_mode = choice("padding_mode", padding_mode, Border)

    def on_array(self, image: Array) -> Array:
        return padded(self, image, self.padding, self.fill_value, self.padding_mode)

    def on_pil(self, image: PilImage) -> Any:
        return padded_pil(self, image, self.padding, self.fill_value, self.padding_mode)


class PadToSize(ImageOperation):
    """An array in the size (height, width), or of as many pixels both ways, with a border around the image.

    `offset` is the number of pixels above and to the left of the image; without it the image is in the middle. Raises
    GraphTypeError, GraphValueError or, where the image is larger, GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.PadToSize((8, 8))(image).shape
        (8, 8, 3)
    """

    def __init__(
        self, size: Integers, offset: Integers | None = None, fill_value: FillValue = 0,
        padding_mode: Border = Border.CONSTANT,
    ) -> None:  # fmt: skip
        self.size = checked_size("size", size)
        self.offset = None if offset is None else _offset(offset)
        self.fill_value = checked_fill(fill_value)
        self.padding_mode = choice("padding_mode", padding_mode, Border)

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        rests = [new - old for new, old in zip(self.size, image.shape, strict=False)]
        top, left = self.offset if self.offset is not None else (rests[0] // 2, rests[1] // 2)
        sides = left, top, rests[1] - left, rests[0] - top
        if min(sides) < 0:
            raise images.wrong_shape(self, image, f"an image that fits into {self.size[0]} x {self.size[1]} pixels")
        return padded(self, image, sides, self.fill_value, self.padding_mode)


def _offset(value: object) -> tuple[int, int]:
    if not isinstance(value, (list, tuple)):
        return (integer("offset", value, 0),) * 2
    if len(value) != 2:
        raise GraphValueError(f"The offset has two numbers, not {len(value)}.")
    top, left = sequence("offset", value, [2], natural)
    return top, left
