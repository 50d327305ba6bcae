"""Geometric transforms of images: flips, rotations, affine and perspective warps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.dataset import checks
from graphls.dataset.randomness import generator
from graphls.dataset.vision import image as images
from graphls.dataset.vision.image import (
    Array,
    Fill,
    FillValue,
    ImageOperation,
    Numbers,
    PilImage,
    PilOperation,
    WithProbability,
)
from graphls.dataset.vision.opencv import COMPUTED, opencv, rotation, turned_size, warped_affine, warped_perspective
from graphls.dataset.vision.sizes import checked_fill, fill_of, pillow_filter
from graphls.dataset.vision.utils import Inter

__all__ = [
    "Affine", "HorizontalFlip", "Perspective", "RandomAffine", "RandomHorizontalFlip", "RandomPerspective",
    "RandomRotation", "RandomVerticalFlip", "Rotate", "VerticalFlip",
]  # fmt: skip


class _Flip(ImageOperation):
    """An array of (..., H, W, C) or (H, W) with its rows (axis 0) or columns (1) in reverse order."""

    axis: ClassVar[int]

    def on_array(self, image: Array) -> Array:
        rows = images.check_image(self, image, more=True)
        if rows or image.dtype not in COMPUTED:
            return np.ascontiguousarray(np.flip(image, rows + self.axis))
        return opencv().flip(image, self.axis).reshape(image.shape)  # type: ignore[no-any-return]


class HorizontalFlip(_Flip):
    """The image with left and right exchanged, as an array; takes (..., H, W, C), (H, W), or a PIL image.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.arange(4, dtype=np.uint8).reshape(1, 4, 1)
        >>> vision.HorizontalFlip()(image)[0, :, 0]
        array([3, 2, 1, 0], dtype=uint8)
    """

    axis = 1


class VerticalFlip(_Flip):
    """The image with top and bottom exchanged, as an array; takes (..., H, W, C), (H, W), or a PIL image.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.arange(4, dtype=np.uint8).reshape(4, 1, 1)
        >>> vision.VerticalFlip()(image)[:, 0, 0]
        array([3, 2, 1, 0], dtype=uint8)
    """

    axis = 0


class _RandomFlip(WithProbability):
    operation: _Flip

    def check(self, image: Array) -> None:
        images.check_image(self, image, more=True)

    def on_pil(self, image: PilImage) -> Any:
        modes = images.pillow().Transpose
        mode = modes.FLIP_LEFT_RIGHT if self.operation.axis else modes.FLIP_TOP_BOTTOM
        return image.transpose(mode) if self.happens() else image


class RandomHorizontalFlip(_RandomFlip):
    """The image with left and right exchanged, with a probability; raises GraphTypeError or GraphValueError.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.RandomHorizontalFlip(1.0)(image).size
        (6, 4)
    """

    operation = HorizontalFlip()


class RandomVerticalFlip(_RandomFlip):
    """The image with top and bottom exchanged, with a probability; raises GraphTypeError or GraphValueError.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.RandomVerticalFlip(1.0)(image).size
        (6, 4)
    """

    operation = VerticalFlip()


Pair = tuple[float, float]


def check_warp(operation: object, interpolation: Inter) -> None:
    """Raises GraphTypeError for an interpolation that does not warp arrays."""
    if interpolation in (Inter.ANTIALIAS, Inter.PILCUBIC):
        text = f"{type(operation).__name__} has no Inter.{interpolation.name} for arrays; use BILINEAR or BICUBIC."
        raise GraphTypeError(text)


def _center(value: object) -> Pair:
    if not isinstance(value, tuple) or len(value) != 2:
        raise GraphValueError(f"The center is a tuple (x, y), not {value!r}.")
    return checks.number("center[0]", value[0]), checks.number("center[1]", value[1])


def checked_degrees(degrees: Numbers) -> tuple[float, float]:
    """The bounds of an angle: a (min, max) pair, or plus and minus a number of 0 or more."""
    if isinstance(degrees, (list, tuple)):
        most = checks.LARGEST_SIZE
        return checks.interval("degrees", degrees, lambda name, item: checks.number(name, item, -most, most))
    bound = checks.magnitude("degrees", degrees)
    return -bound, bound


class Rotate(ImageOperation):
    """An image turned counterclockwise by `degrees` around `center` (x, y) or its middle, as an array.

    With `expand` it grows so that the turned image is inside. `fill_value` is the color of pixels outside of the old
    image. Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Rotate(90, expand=True)(image).shape
        (6, 4, 3)
    """

    def __init__(
        self, degrees: Numbers, resample: Inter = Inter.NEAREST, expand: bool = False, center: Pair | None = None,
        fill_value: FillValue = 0,
    ) -> None:  # fmt: skip
        self.degrees = self.bounds(degrees)
        self.resample = checks.choice("resample", resample, Inter)
        self.expand = checks.boolean("expand", expand)
        self.center = None if center is None else _center(center)
        self.fill_value = checked_fill(fill_value)

    def bounds(self, degrees: Numbers) -> Pair:
        """The smallest and the largest angle."""
        return (checks.number("degrees", degrees, -checks.LARGEST_SIZE, checks.LARGEST_SIZE) % 360,) * 2

    def angle(self) -> float:
        """The angle of the rotation of an image."""
        return self.degrees[0]

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        check_warp(self, self.resample)
        degrees, (height, width) = self.angle(), image.shape[:2]
        matrix = rotation(degrees, self.center or ((width - 1) / 2, (height - 1) / 2))
        if self.expand:
            new_height, new_width = turned_size(degrees, height, width)
            matrix[:, 2] += new_width / 2 - width / 2, new_height / 2 - height / 2
            height, width = round(new_height), round(new_width)
        return warped_affine(image, matrix, (height, width), self.resample, self.fill_value)


class RandomRotation(Rotate):
    """`Rotate` by an angle drawn from a (min, max) pair, or from minus to plus one number; a PIL image stays one.

    Raises GraphValueError for arguments that Pillow refuses, GraphTypeError for an interpolation that it lacks.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.RandomRotation(30)(image).size
        (6, 4)
    """

    def bounds(self, degrees: Numbers) -> Pair:
        return checked_degrees(degrees)

    def angle(self) -> float:
        return generator().uniform(*self.degrees)

    def on_pil(self, image: PilImage) -> Any:
        degrees, method = self.angle() % 360, pillow_filter(self.resample)
        if self.resample == Inter.ANTIALIAS and (degrees % 90 or self.center):
            text = "Inter.ANTIALIAS turns PIL images by multiples of 90 degrees around their center only."
            raise GraphValueError(text)
        fill = fill_of(image, self.fill_value)
        return image.rotate(degrees, method, self.expand, self.center, fillcolor=fill)


Float = type[np.float32] | type[np.float64]


def affine_matrix(
    center: Pair, degrees: float, translate: Pair, scale: float, shear: Pair, kind: Float = np.float64
) -> Array:
    """The (2, 3) matrix of shearing, scaling and turning clockwise around (x, y), then moving by pixels.

    MindSpore computes in float32 for arrays, and in float64 for PIL images: `kind`.
    """
    turn, across, down = (kind(math.radians(kind(angle))) for angle in (degrees, *shear))
    size, slope, shrinking = kind(scale), kind(math.tan(across)), kind(math.cos(down))
    (cos, sin), (cos_down, sin_down) = ((kind(math.cos(t)), kind(math.sin(t))) for t in (turn, turn - down))
    a, c = size * cos_down / shrinking, size * sin_down / shrinking
    b = size * (-cos_down * slope / shrinking - sin)
    d = size * (-sin_down * slope / shrinking + cos)
    (x, y), (right, below), one = *np.array([center, translate], kind), kind(1)
    return np.array([[a, b, (one - a) * x - b * y + right], [c, d, (one - d) * y - c * x + below]], np.float64)


class _AffineMap(ImageOperation):
    """The base of both affine maps: the interpolation, and the color of pixels outside of the old image."""

    resample: Inter
    fill_value: Fill

    def drawn(self, height: int, width: int) -> tuple[float, Pair, float, Pair]:
        """The rotation, the move, the scale and the shear for an image of that size."""
        raise NotImplementedError

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        check_warp(self, self.resample)
        height, width = image.shape[:2]
        matrix = affine_matrix(((width - 1) / 2, (height - 1) / 2), *self.drawn(height, width), np.float32)
        return warped_affine(image, matrix, (height, width), self.resample, self.fill_value)


class Affine(_AffineMap):
    """An image turned clockwise by `degrees`, moved, scaled and sheared, as an array.

    It is moved by shares of its width and height, and sheared by degrees.

    Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Affine(90, [0, 0], 1.0, 0)(image).shape
        (4, 6, 3)
    """

    def __init__(
        self, degrees: float, translate: Sequence[float], scale: float, shear: Numbers, resample: Inter = Inter.NEAREST,
        fill_value: FillValue = 0,
    ) -> None:  # fmt: skip
        self.degrees = _angle("degrees", degrees)
        self.translate = checks.sequence("translate", translate, [2], _share)
        self.scale = checks.positive("scale", scale)
        shears = shear if isinstance(shear, (list, tuple)) else (shear, 0)
        self.shear = checks.sequence("shear", shears, [2], _angle)
        self.resample = checks.choice("resample", resample, Inter)
        self.fill_value = checked_fill(fill_value)

    def drawn(self, height: int, width: int) -> tuple[float, Pair, float, Pair]:
        across, down = (np.array(self.translate, np.float32) * np.array([width, height], np.float32)).tolist()
        return self.degrees, (across, down), self.scale, (self.shear[0], self.shear[1])


def _angle(name: str, value: object) -> float:
    return checks.number(name, value, -180, 180)


def _share(name: str, value: object) -> float:
    return checks.number(name, value, -1, 1)


class RandomAffine(_AffineMap):
    """An image turned, moved, scaled and sheared by numbers drawn evenly from (min, max) pairs.

    `degrees` is a pair or one number for minus to plus it. `translate` has the bounds of the move across, optionally
    followed by those of the move down, as shares of the image; `shear` those across, and down, in degrees. Takes (H,
    W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.RandomAffine(30)(image).size
        (6, 4)
    """

    def __init__(
        self, degrees: Numbers, translate: Sequence[float] | None = None, scale: Sequence[float] | None = None,
        shear: Numbers | None = None, resample: Inter = Inter.NEAREST, fill_value: FillValue = 0,
    ) -> None:  # fmt: skip
        self.degrees = checked_degrees(degrees)
        self.translate = _bounds("translate", translate, _share)
        self.scale = (1.0, 1.0) if scale is None else checks.interval("scale", scale, checks.magnitude)
        if not self.scale[1] > 0:
            raise GraphValueError(f"Input scale[1] must be greater than 0, but got {self.scale[1]}.")
        self.shear = _bounds("shear", _shears(shear), checks.number)
        self.resample = checks.choice("resample", resample, Inter)
        self.fill_value = checked_fill(fill_value)

    def drawn(self, height: int, width: int) -> tuple[float, Pair, float, Pair]:
        draw = generator().uniform
        degrees = draw(*self.degrees)
        across, down = (draw(*bounds) * size for bounds, size in zip(self.translate, (width, height), strict=True))
        return degrees, (across, down), draw(*self.scale), (draw(*self.shear[0]), draw(*self.shear[1]))

    def on_pil(self, image: PilImage) -> Any:
        method = pillow_filter(self.resample)
        width, height = image.size
        matrix = affine_matrix((width / 2, height / 2), *self.drawn(height, width))
        inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2].reshape(-1).tolist()
        fill = fill_of(image, self.fill_value)
        return image.transform(image.size, images.pillow().Transform.AFFINE, inverse, method, fillcolor=fill)


def _shears(shear: Numbers | None) -> Sequence[float] | None:
    if shear is None or isinstance(shear, (list, tuple)):
        return shear
    bound = checks.positive("shear", shear)
    return -bound, bound


def _bounds(name: str, value: Sequence[float] | None, check: checks.Check[float]) -> tuple[Pair, Pair]:
    """The (min, max) pairs across and down of two or four numbers."""
    if value is None:
        return (0, 0), (0, 0)
    numbers = checks.sequence(name, value, [2, 4], check)
    return checks.in_order(name, *numbers[:2]), checks.in_order(name, *(numbers[2:] or (0, 0)))


Points = Sequence[Sequence[int]]  # four (x, y)


def perspective_matrix(old: Points, new: Points) -> Array:
    """The (3, 3) matrix that maps four points (x, y) to four others; raises GraphValueError where there is none."""
    pairs = [(*map(float, start), *map(float, end)) for start, end in zip(old, new, strict=True)]
    rows = [[x, y, 1.0, 0.0, 0.0, 0.0, -x * u, -y * u, u] for x, y, u, _ in pairs]
    rows += [[0.0, 0.0, 0.0, x, y, 1.0, -x * v, -y * v, v] for x, y, _, v in pairs]
    return np.array([*_solved(rows), 1.0]).reshape(3, 3)


def _solved(rows: list[list[float]]) -> list[float]:
    """The solution of equations (coefficients, right side), in OpenCV's order of operations for the same last bits."""
    for column in range(len(rows)):
        pivot = max(range(column, len(rows)), key=lambda other: abs(rows[other][column]))
        rows[column], rows[pivot] = top, _ = rows[pivot], rows[column]
        if abs(top[column]) < _NEARLY_ZERO:
            raise GraphValueError("There is no perspective between these points: three of them are on one line.")
        for row in rows[column + 1 :]:
            share = row[column] * (-1 / top[column])
            row[:] = [value + share * above for value, above in zip(row, top, strict=True)]
    values = [0.0] * len(rows)
    for column, row in reversed(list(enumerate(rows))):
        rest = row[-1]
        for other in range(column + 1, len(rows)):
            rest -= row[other] * values[other]
        values[column] = rest / row[column]
    return values


_NEARLY_ZERO = 100 * np.finfo(np.float64).eps  # as in OpenCV


def _of_pil(image: PilImage, old: Points, new: Points, interpolation: Inter) -> Any:
    method = pillow_filter(interpolation)
    if interpolation == Inter.ANTIALIAS:
        raise GraphValueError("There is no perspective by Inter.ANTIALIAS; use BILINEAR or BICUBIC.")
    inverse = perspective_matrix(new, old).reshape(-1)[:8].tolist()
    return image.transform(image.size, images.pillow().Transform.PERSPECTIVE, inverse, method)


class Perspective(ImageOperation):
    """The image warped so that `start_points` move to `end_points`: four (x, y) each, clockwise from the top left.

    Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> corners, moved = [[0, 0], [5, 0], [5, 3], [0, 3]], [[0, 1], [5, 0], [5, 3], [0, 2]]
        >>> vision.Perspective(corners, moved)(np.full((4, 6, 3), 100, np.uint8)).shape
        (4, 6, 3)
    """

    def __init__(self, start_points: Points, end_points: Points, interpolation: Inter = Inter.BILINEAR) -> None:
        self.start_points, self.end_points = _points("start_points", start_points), _points("end_points", end_points)
        self.interpolation = checks.choice("interpolation", interpolation, Inter)

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        if self.interpolation == Inter.ANTIALIAS:
            raise GraphTypeError("Perspective has Inter.ANTIALIAS for PIL images only.")
        return warped_perspective(image, self._matrix, self.interpolation)

    @cached_property
    def _matrix(self) -> Array:
        return perspective_matrix(self.start_points, self.end_points)

    def on_pil(self, image: PilImage) -> Any:
        return _of_pil(image, self.start_points, self.end_points, self.interpolation)


def _points(name: str, value: object) -> Points:
    return checks.sequence(name, value, [4], lambda place, point: checks.sequence(place, point, [2], checks.integer))


class RandomPerspective(PilOperation):
    """A PIL image whose corners are moved inwards, with a probability.

    Each corner moves by up to `distortion_scale` (0 to 1) halves of the image's sides. Raises GraphTypeError, also for
    an array, or GraphValueError.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.RandomPerspective(prob=1.0)(image).size
        (6, 4)
    """

    def __init__(self, distortion_scale: float = 0.5, prob: float = 0.5, interpolation: Inter = Inter.BICUBIC) -> None:
        checks.instance("distortion_scale", distortion_scale, float, "a float")
        checks.instance("prob", prob, float, "a float")
        self.distortion_scale = checks.probability("distortion_scale", distortion_scale)
        self.prob = checks.probability("prob", prob)
        self.interpolation = checks.choice("interpolation", interpolation, Inter)

    def on_pil(self, image: PilImage) -> Any:
        draw = generator()
        if draw.random() >= self.prob:
            return image
        right, bottom = image.size[0] - 1, image.size[1] - 1
        reach = [int(self.distortion_scale * (size // 2)) + 1 for size in image.size]
        old = [(0, 0), (right, 0), (right, bottom), (0, bottom)]
        moves = draw.integers([0, 0], reach, (4, 2)).tolist()
        new = [(abs(x - dx), abs(y - dy)) for (x, y), (dx, dy) in zip(old, moves, strict=True)]
        return _of_pil(image, old, new, self.interpolation)
