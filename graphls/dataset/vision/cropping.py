"""Parts of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import boolean, choice, integer, sequence
from graphls.dataset.transforms.checks import size as checked_size
from graphls.dataset.vision.image import Array, ImageOperation, PilOperation, check_image, pillow, wrong_shape
from graphls.dataset.vision.padding import checked_fill, checked_sides, padded, padded_pil
from graphls.dataset.vision.utils import Border
from graphls.ir.errors import GraphValueError


class CenterCrop(ImageOperation):
    """The middle of an image in the size (height, width) or of a square; where the image is smaller, black around it.

    Takes (..., H, W, C), (H, W) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, size: Any) -> None:
        self.size = checked_size("size", size)

    def on_array(self, image: Array) -> Array:
        rows = check_image(self, image, more=True)
        for axis, new in zip((rows, rows + 1), self.size, strict=True):
            image = _centered(image, new, axis)
        return np.ascontiguousarray(image)

    def on_pil(self, image: Any) -> Any:
        (width, height), (new_height, new_width) = image.size, self.size
        top, left = round((height - new_height) / 2), round((width - new_width) / 2)
        return image.crop((left, top, left + new_width, top + new_height))


def _centered(image: Array, new: int, axis: int) -> Array:
    rest = new - image.shape[axis]
    if rest > 0:
        widths = [(0, 0)] * image.ndim
        widths[axis] = (rest - rest // 2, rest // 2)
        return np.pad(image, widths)
    start = -rest // 2
    return np.take(image, range(start, start + new), axis)


class Crop(ImageOperation):
    """The part of an image at (top, left) = `coordinates` in the size (height, width) or of a square, as an array.

    Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or, where the part is not inside of
    the image, GraphRuntimeError.
    """

    def __init__(self, coordinates: Any, size: Any) -> None:
        self.coordinates = sequence("coordinates", coordinates, [2], lambda name, item: integer(name, item, 0))
        self.size = checked_size("size", size)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        (top, left), (height, width) = self.coordinates, self.size
        if top + height > image.shape[0] or left + width > image.shape[1]:
            raise wrong_shape(self, image, f"an image of {top + height} x {left + width} pixels or more")
        return np.array(image[top : top + height, left : left + width])


class RandomCrop(ImageOperation):
    """A part of an image at a place drawn at random, in the size (height, width) or of a square.

    First `padding` puts a border around it as `Pad` does; then, with `pad_if_needed`, each side that is still too short
    gets what it lacks before and behind. Takes (..., H, W, C), (H, W) or a PIL image. Raises GraphTypeError,
    GraphValueError or, for an image that is too small, GraphRuntimeError (GraphValueError for a PIL image).
    """

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill_value: Any = 0,
        padding_mode: Border = Border.CONSTANT,
    ) -> None:
        self.size = checked_size("size", size)
        self.padding = (0, 0, 0, 0) if padding is None else checked_sides(padding)
        self.pad_if_needed = boolean("pad_if_needed", pad_if_needed)
        self.fill_value = checked_fill(fill_value)
        self.padding_mode = choice("padding_mode", padding_mode, Border)

    def on_array(self, image: Array) -> Array:
        rows = check_image(self, image, more=True)
        if rows:
            return self._of_each(image)
        for sides in self._borders(*image.shape[:2]):
            image = padded(self, image, sides, self.fill_value, self.padding_mode)
        height, width = self.size
        if image.shape[0] < height or image.shape[1] < width:
            raise wrong_shape(self, image, f"an image of {height} x {width} pixels or more")
        top, left = _place(image.shape[0] - height, image.shape[1] - width)
        return np.array(image[top : top + height, left : left + width])

    def _of_each(self, images: Array) -> Array:
        flat = images.reshape(-1, *images.shape[-3:])
        cut = self(*flat)
        parts = np.stack(cut if len(flat) > 1 else [cut])
        return parts.reshape(*images.shape[:-3], *parts.shape[1:])

    def on_pil(self, image: Any) -> Any:
        for sides in self._borders(image.size[1], image.size[0]):
            image = padded_pil(self, image, sides, self.fill_value, self.padding_mode)
        height, width = self.size
        if image.size[1] < height or image.size[0] < width:
            found = f"{image.size[1]} x {image.size[0]}"
            text = f"RandomCrop takes an image of {height} x {width} pixels or more, not {found}."
            raise GraphValueError(text)
        top, left = _place(image.size[1] - height, image.size[0] - width)
        return image.crop((left, top, left + width, top + height))

    def _borders(self, height: int, width: int) -> list[tuple[int, int, int, int]]:
        """The borders (left, top, right, bottom) to put around an image, one after the other."""
        borders = [self.padding] if any(self.padding) else []
        if self.pad_if_needed:
            across = max(0, self.size[1] - width - self.padding[0] - self.padding[2])
            down = max(0, self.size[0] - height - self.padding[1] - self.padding[3])
            borders += [(across, 0, across, 0)] if across else []
            borders += [(0, down, 0, down)] if down else []
        return borders


def _place(rest_down: int, rest_across: int) -> tuple[int, int]:
    return int(generator().integers(rest_down + 1)), int(generator().integers(rest_across + 1))


class FiveCrop(PilOperation):
    """The four corners (top left, top right, bottom left, bottom right) and the center of a PIL image, as a tuple.

    Raises GraphTypeError, also for arrays, or GraphValueError, also for images that are too small.
    """

    def __init__(self, size: Any) -> None:
        self.size = checked_size("size", size)

    def on_pil(self, image: Any) -> tuple[Any, ...]:
        (width, height), (new_height, new_width) = image.size, self.size
        if new_height > height or new_width > width:
            text = f"{type(self).__name__} of {new_height} x {new_width} takes a larger image than {height} x {width}."
            raise GraphValueError(text)
        right, bottom = width - new_width, height - new_height
        middle = round(right / 2), round(bottom / 2)
        corners = [(0, 0), (right, 0), (0, bottom), (right, bottom), middle]
        return tuple(image.crop((x, y, x + new_width, y + new_height)) for x, y in corners)


class TenCrop(FiveCrop):
    """The five crops of a PIL image, then those of its mirror image: left to right, or top to bottom."""

    def __init__(self, size: Any, use_vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.use_vertical_flip = boolean("use_vertical_flip", use_vertical_flip)

    def on_pil(self, image: Any) -> tuple[Any, ...]:
        modes = pillow().Transpose
        mode = modes.FLIP_TOP_BOTTOM if self.use_vertical_flip else modes.FLIP_LEFT_RIGHT
        return super().on_pil(image) + super().on_pil(image.transpose(mode))
