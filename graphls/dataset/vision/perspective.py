"""Images as seen from another side."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import choice, instance, integer, probability, sequence
from graphls.dataset.vision.image import Array, ImageOperation, PilOperation, check_image, pillow
from graphls.dataset.vision.resizing import pillow_filter
from graphls.dataset.vision.utils import Inter
from graphls.dataset.vision.warping import warped_perspective
from graphls.ir.errors import GraphTypeError, GraphValueError

Points = Any  # four (x, y)


def perspective_matrix(old: Points, new: Points) -> Array:
    """The (3, 3) matrix that brings four points (x, y) to four others; raises GraphValueError where there is none."""
    rows = []
    for (x, y), (u, v) in zip(old, new, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    try:
        values = np.linalg.solve(np.array(rows, np.float64), np.array(new, np.float64).reshape(-1))
    except np.linalg.LinAlgError:
        text = "There is no perspective between these points: three of them are on one line."
        raise GraphValueError(text) from None
    return np.append(values, 1).reshape(3, 3)


def _of_pil(image: Any, old: Points, new: Points, interpolation: Inter) -> Any:
    method = pillow_filter(interpolation)
    if interpolation == Inter.ANTIALIAS:
        raise GraphValueError("There is no perspective by Inter.ANTIALIAS; use BILINEAR or BICUBIC.")
    inverse = perspective_matrix(new, old).reshape(-1)[:8].tolist()
    return image.transform(image.size, pillow().Transform.PERSPECTIVE, inverse, method)


class Perspective(ImageOperation):
    """The image with its `start_points` brought to the `end_points`: four (x, y) each, top left and on clockwise.

    Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, start_points: Points, end_points: Points, interpolation: Inter = Inter.BILINEAR) -> None:
        self.start_points, self.end_points = _points("start_points", start_points), _points("end_points", end_points)
        self.interpolation = choice("interpolation", interpolation, Inter)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        if self.interpolation == Inter.ANTIALIAS:
            raise GraphTypeError("Perspective has Inter.ANTIALIAS for PIL images only.")
        matrix = perspective_matrix(self.start_points, self.end_points)
        return warped_perspective(image, matrix, self.interpolation)

    def on_pil(self, image: Any) -> Any:
        return _of_pil(image, self.start_points, self.end_points, self.interpolation)


def _points(name: str, value: Any) -> Points:
    return sequence(name, value, [4], lambda place, point: sequence(place, point, [2], integer))


class RandomPerspective(PilOperation):
    """A PIL image whose corners are moved inwards, with a probability.

    Each corner moves by up to `distortion_scale` (0 to 1) halves of the image's sides. Raises GraphTypeError, also for
    an array, or GraphValueError.
    """

    def __init__(
        self, distortion_scale: float = 0.5, prob: float = 0.5, interpolation: Inter = Inter.BICUBIC
    ) -> None:
        instance("distortion_scale", distortion_scale, float, "a float")
        instance("prob", prob, float, "a float")
        self.distortion_scale = probability("distortion_scale", distortion_scale)
        self.prob = probability("prob", prob)
        self.interpolation = choice("interpolation", interpolation, Inter)

    def on_pil(self, image: Any) -> Any:
        draw = generator()
        if draw.random() >= self.prob:
            return image
        right, bottom = image.size[0] - 1, image.size[1] - 1
        reach = [int(self.distortion_scale * (size // 2)) + 1 for size in image.size]
        old = [(0, 0), (right, 0), (right, bottom), (0, bottom)]
        moves = draw.integers([0, 0], reach, (4, 2)).tolist()
        new = [(abs(x - dx), abs(y - dy)) for (x, y), (dx, dy) in zip(old, moves, strict=True)]
        return _of_pil(image, old, new, self.interpolation)
