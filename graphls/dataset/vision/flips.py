"""Mirrored images."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import probability
from graphls.dataset.vision.image import Array, ImageOperation, check_image, pillow


def mirrored(operation: object, image: Array, axis: int) -> Array:
    """An array of (..., H, W, C) or (H, W) with its rows (0) or columns (1) in reverse order."""
    rows = check_image(operation, image, more=True)
    return np.ascontiguousarray(np.flip(image, rows + axis))


class HorizontalFlip(ImageOperation):
    """The image with left and right exchanged, as an array; takes (..., H, W, C), (H, W), or a PIL image."""

    def on_array(self, image: Array) -> Array:
        return mirrored(self, image, 1)


class VerticalFlip(ImageOperation):
    """The image with top and bottom exchanged, as an array; takes (..., H, W, C), (H, W), or a PIL image."""

    def on_array(self, image: Array) -> Array:
        return mirrored(self, image, 0)


class RandomHorizontalFlip(ImageOperation):
    """The image with left and right exchanged, with a probability; raises GraphTypeError or GraphValueError."""

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = probability("prob", prob)

    def on_array(self, image: Array) -> Array:
        check_image(self, image, more=True)
        return mirrored(self, image, 1) if generator().random() < self.prob else image

    def on_pil(self, image: Any) -> Any:
        return image.transpose(pillow().Transpose.FLIP_LEFT_RIGHT) if generator().random() < self.prob else image


class RandomVerticalFlip(ImageOperation):
    """The image with top and bottom exchanged, with a probability; raises GraphTypeError or GraphValueError."""

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = probability("prob", prob)

    def on_array(self, image: Array) -> Array:
        check_image(self, image, more=True)
        return mirrored(self, image, 0) if generator().random() < self.prob else image

    def on_pil(self, image: Any) -> Any:
        return image.transpose(pillow().Transpose.FLIP_TOP_BOTTOM) if generator().random() < self.prob else image
