"""Colors and tones changed by chance: by factors drawn at random, or with a probability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.dataset.checks import (
    LARGEST_SIZE,
    byte,
    integer,
    interval,
    magnitude,
    number,
    type_error,
)
from graphls.dataset.randomness import generator
from graphls.dataset.vision import colors
from graphls.dataset.vision.image import (
    Array,
    ImageOperation,
    WithProbability,
    check_color,
    is_pil,
    pillow,
    saturated,
)
from graphls.dataset.vision.tones import AutoContrast, Equalize, Invert, Posterize, Solarize
from graphls.ir.errors import GraphValueError

Bounds = tuple[float, float]


def _bounds(name: str, value: Any, center: float, low: float, high: float) -> Bounds:
    """A (min, max) pair, or `center` plus and minus one number."""
    if isinstance(value, (list, tuple)):
        return interval(name, value, lambda place, item: number(place, item, low, high))
    distance = number(name, value, 0)
    if center + distance > high:
        raise GraphValueError(f"Input {name} is not within the required interval of [0, {high - center}], but {value}.")
    return max(low, center - distance), center + distance


class RandomColorAdjust(ImageOperation):
    """The image with brightness, contrast, saturation and hue changed by factors drawn evenly, in random order.

    A factor's bounds are a (min, max) pair, or 1 plus and minus a number (for the hue: plus and minus it, at most 0.5).
    Takes (H, W, 3) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self, brightness: Any = (1, 1), contrast: Any = (1, 1), saturation: Any = (1, 1), hue: Any = (0, 0)
    ) -> None:
        self.brightness = _bounds("brightness", brightness, 1, 0, LARGEST_SIZE)
        self.contrast = _bounds("contrast", contrast, 1, 0, LARGEST_SIZE)
        self.saturation = _bounds("saturation", saturation, 1, 0, LARGEST_SIZE)
        self.hue = _bounds("hue", hue, 0, -0.5, 0.5)

    def apply(self, column: Any) -> Any:
        image = column if not isinstance(column, np.ndarray) else check_color(self, column)
        steps: list[tuple[Callable[[float], ImageOperation], Bounds, float]] = [
            (colors.AdjustBrightness, self.brightness, 1),
            (colors.AdjustContrast, self.contrast, 1),
            (colors.AdjustSaturation, self.saturation, 1),
            (colors.AdjustHue, self.hue, 0),
        ]
        draw = generator()
        for step in draw.permutation(len(steps)):
            adjust, bounds, neutral = steps[step]
            factor = draw.uniform(*bounds)
            image = image if factor == neutral else adjust(factor).apply(image)
        return image


class RandomColor(ImageOperation):
    """`AdjustSaturation` by a factor drawn evenly from a (min, max) pair; takes (H, W, 3) or a PIL image."""

    def __init__(self, degrees: Any = (0.1, 1.9)) -> None:
        self.degrees = interval("degrees", degrees, magnitude)

    def apply(self, column: Any) -> Any:
        return colors.AdjustSaturation(generator().uniform(*self.degrees)).apply(column)


class RandomSharpness(RandomColor):
    """`AdjustSharpness` by a factor drawn evenly from a (min, max) pair; a PIL image stays one."""

    def apply(self, column: Any) -> Any:
        factor = generator().uniform(*self.degrees)
        if is_pil(column):
            return pillow("ImageEnhance").Sharpness(column).enhance(factor)
        return colors.AdjustSharpness(factor).apply(column)


class RandomAdjustSharpness(WithProbability):
    """`AdjustSharpness` by the factor `degree`, with a probability; gives an array."""

    def __init__(self, degree: float, prob: float = 0.5) -> None:
        self.operation = colors.AdjustSharpness(magnitude("degree", degree))
        super().__init__(prob)


class RandomLighting(ImageOperation):
    """The image plus noise along the main directions of color in ImageNet, of the standard deviation `alpha`.

    Takes (H, W, 3) or a PIL image (Krizhevsky et al. 2012). Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.
    """

    def __init__(self, alpha: float = 0.05) -> None:
        self.alpha = magnitude("alpha", alpha)

    def on_array(self, image: Array) -> Array:
        noise = _PRINCIPAL @ generator().normal(0, self.alpha, 3)
        return saturated(check_color(self, image) + noise.astype(np.float32), image.dtype)

    def on_pil(self, image: Any) -> Any:
        lit = pillow().fromarray(self.on_array(np.asarray(image.convert("RGB"))))
        return lit.convert(image.mode)


_PRINCIPAL = (
    np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
    * np.array([0.2175, 0.0188, 0.0045])
    * 255
)  # eigenvectors times eigenvalues of RGB in [0, 1]


class RandomInvert(WithProbability):
    """`Invert` with a probability; takes (H, W, 3)."""

    operation = Invert()

    def check(self, image: Array) -> None:
        check_color(self, image)


class RandomEqualize(WithProbability):
    """`Equalize` with a probability."""

    operation = Equalize()


class RandomAutoContrast(WithProbability):
    """`AutoContrast` with a probability."""

    def __init__(self, cutoff: float = 0.0, ignore: Any = None, prob: float = 0.5) -> None:
        self.operation = AutoContrast(cutoff, ignore)
        super().__init__(prob)


class RandomPosterize(ImageOperation):
    """`Posterize` to a number of bits drawn from a (min, max) pair of 1 to 8, or to one number."""

    def __init__(self, bits: Any = (8, 8)) -> None:
        pair = bits if isinstance(bits, (list, tuple)) else (bits, bits)
        self.bits = interval("bits", pair, lambda name, item: integer(name, item, 1, 8))

    def on_array(self, image: Array) -> Array:
        low, high = self.bits
        return Posterize(int(generator().integers(low, high + 1))).on_array(image)


class RandomSolarize(ImageOperation):
    """The image with values between two numbers drawn from a (min, max) tuple inverted."""

    def __init__(self, threshold: tuple[int, int] = (0, 255)) -> None:
        if not isinstance(threshold, tuple):
            raise type_error("threshold", threshold, "a tuple (min, max)")
        self.threshold = interval("threshold", threshold, byte)

    def on_array(self, image: Array) -> Array:
        low, high = self.threshold
        return Solarize(sorted(generator().integers(low, high + 1, 2).tolist())).on_array(image)
