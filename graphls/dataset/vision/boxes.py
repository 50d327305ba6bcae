"""Operations on an image and the boxes around its objects, which move with the pixels.

Boxes are float32 of (objects, 4 or more): left, top, width and height in pixels, then other numbers of the object.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError
from graphls.dataset.checks import instance, probability
from graphls.dataset.randomness import generator
from graphls.dataset.transforms.operations import as_column
from graphls.dataset.vision.cropping import RandomCrop, RandomResizedCrop
from graphls.dataset.vision.geometry import HorizontalFlip, VerticalFlip
from graphls.dataset.vision.image import Array, ImageOperation, WithProbability, check_image, wrong_shape
from graphls.dataset.vision.sizes import RandomResize, Resize, resize_array
from graphls.dataset.vision.utils import Inter

__all__ = [
    "BoundingBoxAugment", "RandomCropWithBBox", "RandomHorizontalFlipWithBBox", "RandomResizeWithBBox",
    "RandomResizedCropWithBBox", "RandomVerticalFlipWithBBox", "ResizeWithBBox",
]  # fmt: skip


class WithBoxes(ImageOperation):
    """An operation on an image, an array of (H, W, C), and its boxes, with both as results; PIL images become arrays.

    Raises GraphTypeError for other columns than these two, GraphRuntimeError for boxes that are not inside the image.
    """

    def __call__(self, *columns: object) -> tuple[Array, Array]:
        if len(columns) != 2:
            raise GraphTypeError(f"{type(self).__name__} takes an image and its boxes, not {len(columns)} columns.")
        image = np.asarray(self.prepare(columns[0]))
        check_image(self, image)
        return self.on_both(image, _boxes(self, image, as_column(columns[1])))

    def on_both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        """The results for an image and its boxes."""
        result = self.on_array(image)
        return result, scaled(boxes, image.shape[:2], result.shape[:2])


def _boxes(operation: object, image: Array, boxes: Array) -> Array:
    """Checked boxes, as a copy."""
    if boxes.dtype != np.float32 or boxes.ndim != 2 or boxes.shape[1] < 4:
        raise wrong_shape(operation, boxes, "boxes, float32 of (objects, 4 or more)")
    if (boxes[:, :4] < 0).any() or (boxes[:, :2] + boxes[:, 2:4] > image.shape[1::-1]).any():
        size = f"{image.shape[0]} x {image.shape[1]}"
        raise GraphRuntimeError(f"{type(operation).__name__} takes boxes within the image of {size}, not {boxes}.")
    return boxes.copy()


def scaled(boxes: Array, before: tuple[int, ...], after: tuple[int, ...]) -> Array:
    """The boxes of an image of (height, width) that is resized."""
    boxes[:, :4] *= np.array([after[1] / before[1], after[0] / before[0]] * 2, np.float32)
    return boxes


def cropped(boxes: Array, top: int, left: int, size: tuple[int, ...]) -> Array:
    """The boxes clipped to a part of (height, width) = `size`; those outside of it are removed."""
    starts = boxes[:, :2] - np.array([left, top], np.float32)
    ends, limits = starts + boxes[:, 2:4], np.array(size[1::-1], np.float32)
    inside = ((starts <= limits) & (ends >= 0)).all(1)
    starts, ends = np.clip(starts, 0, limits), np.clip(ends, 0, limits)
    boxes[:, :4] = np.concatenate([starts, ends - starts], 1)
    return boxes[inside]


class ResizeWithBBox(WithBoxes, Resize):
    """`Resize` of an image and its boxes.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image, boxes = np.zeros((4, 6, 3), np.uint8), np.array([[2, 1, 2, 2]], np.float32)
        >>> vision.ResizeWithBBox((8, 6))(image, boxes)[1]
        array([[2., 2., 2., 4.]], dtype=float32)
    """


class RandomResizeWithBBox(WithBoxes, RandomResize):
    """`RandomResize` of an image and its boxes; see `ResizeWithBBox`.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image, boxes = np.zeros((4, 6, 3), np.uint8), np.array([[2, 1, 2, 2]], np.float32)
        >>> vision.RandomResizeWithBBox((8, 6))(image, boxes)[1]
        array([[2., 2., 2., 4.]], dtype=float32)
    """


class RandomCropWithBBox(WithBoxes, RandomCrop):
    """`RandomCrop` of an image and its boxes, as far as they touch the part.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image, boxes = np.zeros((4, 6, 3), np.uint8), np.array([[2, 1, 2, 2]], np.float32)
        >>> vision.RandomCropWithBBox((8, 10), padding=2)(image, boxes)[1]
        array([[4., 3., 2., 2.]], dtype=float32)
    """

    def on_both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        part, top, left = self.cut(image)
        return part, cropped(boxes, top, left, self.size)


class RandomResizedCropWithBBox(WithBoxes, RandomResizedCrop):
    """`RandomResizedCrop` of an image and its boxes, as far as they touch the part; see `RandomCropWithBBox`.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image, boxes = np.zeros((4, 4, 3), np.uint8), np.array([[1, 1, 2, 2]], np.float32)
        >>> vision.RandomResizedCropWithBBox(8, scale=(1, 1), ratio=(1, 1))(image, boxes)[1]
        array([[2., 2., 4., 4.]], dtype=float32)
    """

    def on_both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        top, left, *size = self.box(*image.shape[:2])
        part = image[top : top + size[0], left : left + size[1]]
        boxes = scaled(cropped(boxes, top, left, tuple(size)), tuple(size), self.size)
        return resize_array(self, part, self.size, self.interpolation), boxes


class _Flip(WithBoxes, WithProbability):
    """An image and its boxes, mirrored along an axis of the boxes, x or y."""

    axis: int

    def on_both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        if not self.happens():
            return image, boxes
        boxes[:, self.axis] = image.shape[1 - self.axis] - boxes[:, self.axis] - boxes[:, 2 + self.axis]
        return self.operation.on_array(image), boxes


class RandomHorizontalFlipWithBBox(_Flip):
    """`RandomHorizontalFlip` of an image and its boxes.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image, boxes = np.zeros((4, 6, 3), np.uint8), np.array([[3, 1, 2, 2]], np.float32)
        >>> vision.RandomHorizontalFlipWithBBox(1.0)(image, boxes)[1]
        array([[1., 1., 2., 2.]], dtype=float32)
    """

    axis, operation = 0, HorizontalFlip()


class RandomVerticalFlipWithBBox(_Flip):
    """`RandomVerticalFlip` of an image and its boxes; see `RandomHorizontalFlipWithBBox`.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image, boxes = np.zeros((4, 6, 3), np.uint8), np.array([[3, 1, 2, 2]], np.float32)
        >>> vision.RandomVerticalFlipWithBBox(1.0)(image, boxes)[1]
        array([[3., 1., 2., 2.]], dtype=float32)
    """

    axis, operation = 1, VerticalFlip()


class BoundingBoxAugment(WithBoxes):
    """An operation on the parts of an image in some of its boxes, drawn for each image; `ratio` is their share.

    The result of the operation is resized to its box. Raises GraphTypeError or GraphValueError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image, boxes = np.zeros((2, 4, 3), np.uint8), np.array([[1, 0, 2, 2]], np.float32)
        >>> vision.BoundingBoxAugment(vision.Invert(), 1.0)(image, boxes)[0][0, :, 0]
        array([  0, 255, 255,   0], dtype=uint8)
    """

    def __init__(self, transform: ImageOperation, ratio: float = 0.3) -> None:
        self.transform: ImageOperation = instance("transform", transform, ImageOperation, "an operation on images")
        self.ratio = probability("ratio", ratio)

    def on_both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        image = image.copy()
        for index in generator().permutation(len(boxes))[: int(len(boxes) * self.ratio)]:
            left, top, width, height = boxes[index, :4].astype(int).tolist()
            part = image[top : top + height, left : left + width]
            if width and height:
                result: Any = np.asarray(self.transform(part.copy()))
                if result.shape != part.shape:
                    result = resize_array(self, result, (height, width), Inter.BILINEAR)
                part[...] = result
        return image, boxes
