"""Crops of images: fixed, centered and random crops, and grids of patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.dataset import checks
from graphls.dataset.randomness import between, generator
from graphls.dataset.vision import image as images
from graphls.dataset.vision import sizes
from graphls.dataset.vision.decoding import decoded
from graphls.dataset.vision.image import Array, FillValue, ImageOperation, Integers, PilImage, PilOperation
from graphls.dataset.vision.utils import Border, Inter, SliceMode

__all__ = [
    "CenterCrop", "Crop", "FiveCrop", "RandomCrop", "RandomCropDecodeResize", "RandomResizedCrop", "SlicePatches",
    "TenCrop",
]  # fmt: skip


class CenterCrop(ImageOperation):
    """The middle of an image in the size (height, width) or of a square; where the image is smaller, black around it.

    Takes (..., H, W, C), (H, W) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.CenterCrop(2)(image).shape
        (2, 2, 3)
    """

    def __init__(self, size: Integers) -> None:
        self.size = checks.size("size", size)

    def on_array(self, image: Array) -> Array:
        rows = images.check_image(self, image, more=True)
        for axis, new in zip((rows, rows + 1), self.size, strict=True):
            image = _centered(image, new, axis)
        return np.ascontiguousarray(image)

    def on_pil(self, image: PilImage) -> Any:
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
    return image[(slice(None),) * axis + (slice(start, start + new),)]


class Crop(ImageOperation):
    """The part of an image at (top, left) = `coordinates` in the size (height, width) or of a square, as an array.

    Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or, where the part is not inside of
    the image, GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Crop((1, 2), (2, 3))(image).shape
        (2, 3, 3)
    """

    def __init__(self, coordinates: Sequence[int], size: Integers) -> None:
        self.coordinates = checks.sequence("coordinates", coordinates, [2], checks.natural)
        self.size = checks.size("size", size)

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        (top, left), (height, width) = self.coordinates, self.size
        if top + height > image.shape[0] or left + width > image.shape[1]:
            raise images.wrong_shape(self, image, f"an image of {top + height} x {left + width} pixels or more")
        return np.array(image[top : top + height, left : left + width])


class RandomCrop(ImageOperation):
    """A part of an image at a random position, in the size (height, width) or of a square.

    First `padding` adds a border as `Pad` does; then, with `pad_if_needed`, each axis that is still too short is padded
    by the missing pixels on both sides. Takes (..., H, W, C), (H, W) or a PIL image. Raises GraphTypeError,
    GraphValueError or, for an image that is too small, GraphRuntimeError (GraphValueError for a PIL image).

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomCrop(4, padding=2)(image).shape
        (4, 4, 3)
    """

    def __init__(
        self, size: Integers, padding: Integers | None = None, pad_if_needed: bool = False, fill_value: FillValue = 0,
        padding_mode: Border = Border.CONSTANT,
    ) -> None:  # fmt: skip
        self.size = checks.size("size", size)
        self.padding = (0, 0, 0, 0) if padding is None else sizes.checked_sides(padding)
        self.pad_if_needed = checks.boolean("pad_if_needed", pad_if_needed)
        self.fill_value = sizes.checked_fill(fill_value)
        self.padding_mode = checks.choice("padding_mode", padding_mode, Border)

    def on_array(self, image: Array) -> Array:
        rows = images.check_image(self, image, more=True)
        return self._of_each(image) if rows else self.cut(image)[0]

    def cut(self, image: Array) -> tuple[Array, int, int]:
        """A part of an image of (H, W) or (H, W, C), with its offset: top and left."""
        borders, (height, width) = self._borders(*image.shape[:2]), self.size
        across, down, right, bottom = map(sum, zip(*borders, (0, 0, 0, 0), strict=True))
        rests = image.shape[0] + down + bottom - height, image.shape[1] + across + right - width
        if min(rests) < 0:
            raise images.wrong_shape(self, image, f"an image of {height} x {width} pixels or more")
        top, left = _position(*rests)
        if borders and self.padding_mode == Border.CONSTANT:  # without an array of the padded image
            position = top - down, left - across
            return sizes.window(self, image, *position, self.size, self.fill_value), *position
        for sides in borders:
            image = sizes.padded(self, image, sides, self.fill_value, self.padding_mode)
        return np.array(image[top : top + height, left : left + width]), top - down, left - across

    def _of_each(self, images: Array) -> Array:
        flat = images.reshape(-1, *images.shape[-3:])
        cut = self(*flat)
        parts = np.stack(cut if len(flat) > 1 else [cut])
        return parts.reshape(*images.shape[:-3], *parts.shape[1:])

    def on_pil(self, image: PilImage) -> Any:
        for sides in self._borders(image.size[1], image.size[0]):
            image = sizes.padded_pil(self, image, sides, self.fill_value, self.padding_mode)
        height, width = self.size
        if image.size[1] < height or image.size[0] < width:
            actual = f"{image.size[1]} x {image.size[0]}"
            raise GraphValueError(f"RandomCrop takes an image of {height} x {width} pixels or more, not {actual}.")
        top, left = _position(image.size[1] - height, image.size[0] - width)
        return image.crop((left, top, left + width, top + height))

    def _borders(self, height: int, width: int) -> list[tuple[int, int, int, int]]:
        """The borders (left, top, right, bottom) to add to an image, in order."""
        borders = [self.padding] if any(self.padding) else []
        if self.pad_if_needed:
            across = max(0, self.size[1] - width - self.padding[0] - self.padding[2])
            down = max(0, self.size[0] - height - self.padding[1] - self.padding[3])
            borders += [(across, 0, across, 0)] if across else []
            borders += [(0, down, 0, down)] if down else []
        return borders


def _position(rest_down: int, rest_across: int) -> tuple[int, int]:
    return int(generator().integers(rest_down + 1)), int(generator().integers(rest_across + 1))


class FiveCrop(PilOperation):
    """The four corners (top left, top right, bottom left, bottom right) and the center of a PIL image, as a tuple.

    Raises GraphTypeError, also for arrays, or GraphValueError, also for images that are too small.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.FiveCrop(2)(image)[0].size
        (2, 2)
    """

    def __init__(self, size: Integers) -> None:
        self.size = checks.size("size", size)

    def on_pil(self, image: PilImage) -> tuple[Any, ...]:
        (width, height), (new_height, new_width) = image.size, self.size
        if new_height > height or new_width > width:
            text = f"{type(self).__name__} of {new_height} x {new_width} takes a larger image than {height} x {width}."
            raise GraphValueError(text)
        right, bottom = width - new_width, height - new_height
        middle = round(right / 2), round(bottom / 2)
        corners = [(0, 0), (right, 0), (0, bottom), (right, bottom), middle]
        return tuple(image.crop((x, y, x + new_width, y + new_height)) for x, y in corners)


class TenCrop(FiveCrop):
    """The five crops of a PIL image, then those of its mirror image: left to right, or top to bottom.

    Raises GraphRuntimeError where Pillow is not installed.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.TenCrop(2)(image)[0].size
        (2, 2)
    """

    def __init__(self, size: Integers, use_vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.use_vertical_flip = checks.boolean("use_vertical_flip", use_vertical_flip)

    def on_pil(self, image: PilImage) -> tuple[Any, ...]:
        modes = images.pillow().Transpose
        mode = modes.FLIP_TOP_BOTTOM if self.use_vertical_flip else modes.FLIP_LEFT_RIGHT
        return super().on_pil(image) + super().on_pil(image.transpose(mode))


Box = tuple[int, int, int, int]  # top, left, height, width


class RandomResizedCrop(ImageOperation):
    """A part of an image, resized to (height, width) or a square.

    Its area is a share of the image's drawn evenly from `scale`, its width over its height drawn from `ratio`, evenly
    by its logarithm. If no part of `max_attempts` draws is inside of the image, the result is the largest part in the
    middle with a ratio within the bounds. Takes (..., H, W, C), (H, W) or a PIL image. Raises GraphTypeError,
    GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomResizedCrop(8)(image).shape
        (8, 8, 3)
    """

    def __init__(
        self, size: Integers, scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Inter = Inter.BILINEAR, max_attempts: int = 10,
    ) -> None:  # fmt: skip
        self.size = checks.size("size", size)
        self.scale = checks.interval("scale", scale, checks.magnitude)
        if not self.scale[1] > 0:
            raise GraphValueError(f"Input scale[1] must be greater than 0, but got {self.scale[1]}.")
        self.ratio = checks.interval(
            "ratio", ratio, lambda name, item: checks.positive(name, item, checks.LARGEST_SIZE)
        )
        self.interpolation = checks.choice("interpolation", interpolation, Inter)
        self.max_attempts = checks.integer("max_attempts", max_attempts, 1)

    def on_array(self, image: Array) -> Array:
        rows = images.check_image(self, image, more=True)
        top, left, height, width = self.box(*image.shape[rows : rows + 2])
        part = image[(slice(None),) * rows + (slice(top, top + height), slice(left, left + width))]
        return sizes.resize_array(self, part, self.size, self.interpolation)

    def on_pil(self, image: PilImage) -> Any:
        top, left, height, width = self.box(image.size[1], image.size[0])
        return sizes.resize_pil(image.crop((left, top, left + width, top + height)), self.size, self.interpolation)

    def box(self, height: int, width: int) -> Box:
        """The chosen part of an image of (height, width): its top, left, height and width."""
        draw = generator()
        low, high = (math.log(bound) for bound in self.ratio)
        for _ in range(self.max_attempts):
            area = between(draw, *self.scale) * height * width
            ratio = math.exp(between(draw, low, high))
            new_width, new_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < new_width <= width and 0 < new_height <= height:
                top, left = draw.integers(height - new_height + 1), draw.integers(width - new_width + 1)
                return int(top), int(left), new_height, new_width
        return self._center_box(height, width)

    def _center_box(self, height: int, width: int) -> Box:
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
    """`Decode`, then `RandomResizedCrop`; takes an array of the bytes of an image, uint8 of one axis.

    Raises GraphRuntimeError for bytes that are not an image, or a too large one.

    Examples:
        >>> import cv2
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> encoded = cv2.imencode(".png", np.zeros((40, 60, 3), np.uint8))[1]
        >>> vision.RandomCropDecodeResize(16)(encoded.ravel()).shape
        (16, 16, 3)
    """

    def prepare(self, column: object) -> Any:
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype != np.uint8:
            raise checks.type_error("image", column, "an array of bytes, uint8 of one axis")
        return decoded(column)


class SlicePatches(ImageOperation):
    """The num_height * num_width equal patches of an image, row by row, as a tuple of arrays (one array if it is one).

    If the sides are not divisible, the image is padded at the right and the bottom by `fill_value` (PAD), or the
    remainder is removed (DROP). Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.SlicePatches(2, 3)(image)[0].shape
        (2, 2, 3)
    """

    def __init__(
        self, num_height: int = 1, num_width: int = 1, slice_mode: SliceMode = SliceMode.PAD, fill_value: int = 0
    ) -> None:
        self.num_height = checks.integer("num_height", num_height, 1)
        self.num_width = checks.integer("num_width", num_width, 1)
        self.slice_mode = checks.choice("slice_mode", slice_mode, SliceMode)
        self.fill_value = checks.byte("fill_value", fill_value)

    def on_array(self, image: Array) -> Any:
        images.check_image(self, image)
        if self.num_height > image.shape[0] or self.num_width > image.shape[1]:
            raise images.wrong_shape(self, image, f"an image of {self.num_height} x {self.num_width} pixels or more")
        if self.slice_mode == SliceMode.PAD:
            rests = -image.shape[1] % self.num_width, -image.shape[0] % self.num_height
            image = sizes.padded(self, image, (0, 0, *rests), (self.fill_value,) * 3, Border.CONSTANT)
        height, width = image.shape[0] // self.num_height, image.shape[1] // self.num_width
        corners = [(y * height, x * width) for y in range(self.num_height) for x in range(self.num_width)]
        patches = tuple(image[top : top + height, left : left + width].copy() for top, left in corners)
        return patches if len(patches) > 1 else patches[0]
