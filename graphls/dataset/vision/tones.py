"""Pixel-wise intensity transforms of single channels (invert, posterize, equalize, contrast, gamma), and blur."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.dataset import checks
from graphls.dataset.randomness import generator
from graphls.dataset.vision import image as images
from graphls.dataset.vision.image import Array, ImageOperation, Integers, Numbers, PilImage, WithProbability
from graphls.dataset.vision.opencv import blurred, opencv

__all__ = [
    "AdjustGamma", "AutoContrast", "Equalize", "GaussianBlur", "Invert", "Posterize", "RandomAutoContrast",
    "RandomEqualize", "RandomInvert", "RandomPosterize", "RandomSolarize", "Solarize",
]  # fmt: skip


class Invert(ImageOperation):
    """255 - image; takes an array of (H, W, 3) or a PIL image.

    For a PIL image Pillow must be installed, otherwise it raises GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Invert()(image)[0, 0]
        array([155, 155, 155], dtype=uint8)
    """

    def on_array(self, image: Array) -> Array:
        return inverted(images.check_color(self, image))

    def on_pil(self, image: PilImage) -> Any:
        return images.pillow("ImageOps").invert(image)


class RandomInvert(WithProbability):
    """`Invert` with a probability; takes (H, W, 3).

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomInvert(1.0)(image)[0, 0]
        array([155, 155, 155], dtype=uint8)
    """

    operation = Invert()

    def check(self, image: Array) -> None:
        images.check_color(self, image)


def inverted(image: Array) -> Array:
    """255 - image in its own dtype."""
    return np.asarray(np.array(255).astype(image.dtype) - image)


class Posterize(ImageOperation):
    """The upper `bits` (0 to 8) of each value of an image of uint8.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Posterize(2)(image)[0, 0]
        array([64, 64, 64], dtype=uint8)
    """

    def __init__(self, bits: int) -> None:
        self.bits = checks.integer("bits", bits, 0, 8)

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        return np.asarray(images.check_bytes(self, image) & np.uint8(0xFF & ~((1 << (8 - self.bits)) - 1)))


class RandomPosterize(ImageOperation):
    """`Posterize` to a number of bits drawn from a (min, max) pair of 1 to 8, or to one number.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomPosterize((2, 2))(image)[0, 0]
        array([64, 64, 64], dtype=uint8)
    """

    def __init__(self, bits: Integers = (8, 8)) -> None:
        pair = bits if isinstance(bits, (list, tuple)) else (bits, bits)
        self.bits = checks.interval("bits", pair, lambda name, item: checks.integer(name, item, 1, 8))

    def on_array(self, image: Array) -> Array:
        low, high = self.bits
        return Posterize(int(generator().integers(low, high + 1))).on_array(image)


class Solarize(ImageOperation):
    """The image with values in the interval `threshold`, (low, high), inverted.

    One number, or two equal ones, are the interval [number, 255]. Takes (H, W) or (H, W, C); returns an array. Raises
    GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Solarize((50, 150))(image)[0, 0]
        array([155, 155, 155], dtype=uint8)
    """

    def __init__(self, threshold: Numbers) -> None:
        bounds = threshold if isinstance(threshold, (list, tuple)) else (threshold, 255)
        if len(bounds) != 2:
            raise checks.type_error("threshold", threshold, "a number or a pair of numbers")
        self.low, self.high = (checks.number(f"threshold[{i}]", value, 0, 255) for i, value in enumerate(bounds))
        if self.low > self.high:
            raise GraphValueError(f"threshold should be in (min, max) format, but got ({self.low}, {self.high}).")

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        if image.dtype != np.uint8:
            return self._solarized(image)
        return _by_table(image, self._solarized(np.arange(256, dtype=np.uint8)))

    def _solarized(self, image: Array) -> Array:
        high = 255 if self.low == self.high else self.high
        return np.where((image >= self.low) & (image <= high), inverted(image), image)


class RandomSolarize(ImageOperation):
    """The image with values between two numbers drawn from a (min, max) tuple inverted.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomSolarize((0, 255))(image).shape
        (4, 6, 3)
    """

    def __init__(self, threshold: tuple[int, int] = (0, 255)) -> None:
        checks.instance("threshold", threshold, tuple, "a tuple (min, max)")
        self.threshold = checks.interval("threshold", threshold, checks.byte)

    def on_array(self, image: Array) -> Array:
        low, high = self.threshold
        return Solarize(sorted(generator().integers(low, high + 1, 2).tolist())).on_array(image)


def _by_table(image: Array, table: Array) -> Array:
    """The image of uint8 with each value replaced by that in a table of 256."""
    return np.asarray(opencv().LUT(np.ascontiguousarray(image).reshape(-1), table)).reshape(image.shape)


def _by_channel(image: Array, function: Callable[[Array], Array]) -> Array:
    planes = np.moveaxis(image.reshape(*image.shape[:2], -1), 2, 0)
    return np.stack([function(np.ascontiguousarray(plane)) for plane in planes], 2).reshape(image.shape)


class Equalize(ImageOperation):
    """The image with about as many pixels of each value in each channel; takes uint8 with 1 or 3 channels, or PIL.

    For a PIL image Pillow must be installed, otherwise it raises GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Equalize()(image).shape
        (4, 6, 3)
    """

    def on_array(self, image: Array) -> Array:
        images.check_channels(self, images.check_bytes(self, image))
        return _by_channel(image, opencv().equalizeHist)

    def on_pil(self, image: PilImage) -> Any:
        return images.pillow("ImageOps").equalize(image)


class RandomEqualize(WithProbability):
    """`Equalize` with a probability.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomEqualize(1.0)(image).shape
        (4, 6, 3)
    """

    operation = Equalize()


class AutoContrast(ImageOperation):
    """The image with the darkest value of each channel mapped to 0 and the lightest to 255.

    The darkest and the lightest `cutoff` percent of the pixels, and all pixels of the values `ignore`, do not count.
    Takes uint8 with 1 or 3 channels, or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.array([[[100], [120]]], np.uint8)
        >>> vision.AutoContrast()(image)[0]
        array([[  0],
               [255]], dtype=uint8)
    """

    def __init__(self, cutoff: float = 0.0, ignore: int | Sequence[int] | None = None) -> None:
        self.cutoff = checks.number("cutoff", cutoff, 0, 50)
        if self.cutoff == 50:
            raise GraphValueError("Input cutoff is not within the required interval of [0, 50), but 50.")
        values = [] if ignore is None else ignore if isinstance(ignore, (list, tuple)) else [ignore]
        self.ignore = [checks.byte("ignore", value) for value in values]

    def on_array(self, image: Array) -> Array:
        images.check_channels(self, images.check_bytes(self, image))
        return _by_channel(image, self._stretched_contrast)

    def on_pil(self, image: PilImage) -> Any:
        return images.pillow("ImageOps").autocontrast(image, self.cutoff, self.ignore or None)

    def _stretched_contrast(self, plane: Array) -> Array:
        counts = opencv().calcHist([plane], [0], None, [256], [0, 256]).reshape(-1).astype(np.int64)
        counts[self.ignore] = 0
        least = int(counts.sum() * self.cutoff // 100)
        below, above = np.cumsum(counts), np.cumsum(counts[::-1])[::-1]
        low, high = np.argmax(below > least), 255 - np.argmax(above[::-1] > least)
        if high <= low:
            return plane
        scale = np.float32(255) / np.float32(high - low)
        table = np.arange(256, dtype=np.float32) * scale - np.float32(low) * scale
        return _by_table(plane, np.clip(table, 0, 255).astype(np.uint8))


class RandomAutoContrast(WithProbability):
    """`AutoContrast` with a probability.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.array([[[100], [120]]], np.uint8)
        >>> vision.RandomAutoContrast(prob=1.0)(image)[0]
        array([[  0],
               [255]], dtype=uint8)
    """

    def __init__(self, cutoff: float = 0.0, ignore: int | Sequence[int] | None = None, prob: float = 0.5) -> None:
        self.operation = AutoContrast(cutoff, ignore)
        super().__init__(prob)


class AdjustGamma(ImageOperation):
    """255.999 * gain * (image / 255) ** gamma of uint8, cut to integers; of floats gain * image ** gamma, in [0, 1].

    Takes (..., H, W, C), (H, W) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.AdjustGamma(2.0)(image)[0, 0]
        array([39, 39, 39], dtype=uint8)
    """

    def __init__(self, gamma: float, gain: float = 1) -> None:
        self.gamma = checks.magnitude("gamma", gamma)
        self.gain = checks.number("gain", gain)

    def on_array(self, image: Array) -> Array:
        images.check_channels(self, image, more=True)
        if image.dtype.kind == "f":
            raised = (image.astype(np.float64) ** float(np.float32(self.gamma))).astype(np.float32)
            return np.clip(np.float32(self.gain) * raised, np.float32(0), np.float32(1))
        if image.dtype != np.uint8:
            raise images.wrong_shape(self, image, "an image of uint8 or floats")
        return _by_table(image, self._table())

    def on_pil(self, image: PilImage) -> Any:
        if image.mode not in ("L", "RGB"):
            mode = image.mode
            return self.on_pil(image.convert("RGB")).convert(mode)
        return image.point(self._table().tolist() * len(image.getbands()))

    def _table(self) -> Array:
        raised = 255.999 * self.gain * (np.arange(256) / 255.0) ** self.gamma
        return np.clip(raised, 0, 255).astype(np.uint8)


class GaussianBlur(ImageOperation):
    """The image smoothed by Gaussian weights in a window of `kernel_size` (across, down), odd numbers, or one for both.

    `sigma` (across, down), or one for both, are the standard deviations; 0 or None means
    0.3 * ((width - 1) / 2 - 1) + 0.8, width the first size, both ways. Pixels beyond the border are mirrored. Takes
    (H, W), (H, W, C) or a PIL image; returns an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.GaussianBlur(3)(image).shape
        (4, 6, 3)
    """

    def __init__(self, kernel_size: Integers, sigma: Numbers | None = None) -> None:
        sizes = kernel_size if isinstance(kernel_size, (list, tuple)) else (kernel_size,) * 2
        across, down = checks.sequence("kernel_size", sizes, [2], _odd_integer)
        self.kernel_size = across, down
        sigmas = sigma if isinstance(sigma, (list, tuple)) else (0 if sigma is None else sigma,) * 2
        wide, high = checks.sequence("sigma", sigmas, [2], checks.magnitude)
        wide = wide or 0.3 * ((across - 1) / 2 - 1) + 0.8
        self.sigma = wide, high or wide

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        return blurred(image, self.kernel_size, self.sigma)


def _odd_integer(name: str, value: object) -> int:
    size = checks.integer(name, value, 1, checks.LARGEST_SIZE)
    if size % 2 == 0:
        raise GraphValueError(f"Input {name} is not an odd value, but {value}.")
    return size
