"""Operations of `tones` that happen with a probability, or with bounds drawn at random; all give arrays."""

from __future__ import annotations

from typing import Any

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import byte, integer, interval, probability, type_error
from graphls.dataset.vision.image import Array, ImageOperation, check_color, check_image
from graphls.dataset.vision.tones import AutoContrast, Equalize, Invert, Posterize, Solarize


class RandomInvert(ImageOperation):
    """`Invert` with a probability; takes (H, W, 3)."""

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = probability("prob", prob)

    def on_array(self, image: Array) -> Array:
        check_color(self, image)
        return Invert().on_array(image) if generator().random() < self.prob else image


class RandomEqualize(ImageOperation):
    """`Equalize` with a probability."""

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = probability("prob", prob)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        return Equalize().on_array(image) if generator().random() < self.prob else image


class RandomAutoContrast(ImageOperation):
    """`AutoContrast` with a probability."""

    def __init__(self, cutoff: float = 0.0, ignore: Any = None, prob: float = 0.5) -> None:
        self._contrast = AutoContrast(cutoff, ignore)
        self.prob = probability("prob", prob)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        return self._contrast.on_array(image) if generator().random() < self.prob else image


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
