"""Each channel's values alone: inverted, cut to fewer bits, spread, equalized; and images blurred."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.checks import LARGEST_SIZE, byte, integer, magnitude, number, sequence, type_error
from graphls.dataset.vision.image import (
    Array,
    ImageOperation,
    check_bytes,
    check_channels,
    check_color,
    check_image,
    pillow,
    saturated,
    wrong_shape,
)
from graphls.ir.errors import GraphValueError


class Invert(ImageOperation):
    """255 - image; takes an array of (H, W, 3) or a PIL image."""

    def on_array(self, image: Array) -> Array:
        return inverted(check_color(self, image))

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageOps").invert(image)


def inverted(image: Array) -> Array:
    """255 - image in its own dtype."""
    return np.asarray(np.array(255).astype(image.dtype) - image)


class Posterize(ImageOperation):
    """The upper `bits` (0 to 8) of each value of an image of uint8."""

    def __init__(self, bits: int) -> None:
        self.bits = integer("bits", bits, 0, 8)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        return np.asarray(check_bytes(self, image) & np.uint8(0xFF & ~((1 << (8 - self.bits)) - 1)))


class Solarize(ImageOperation):
    """The image with values in [low, high] inverted; one number of `threshold` stands for [number, 255], and so do
    two equal ones.

    Takes (H, W) or (H, W, C), gives an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, threshold: Any) -> None:
        bounds = threshold if isinstance(threshold, (list, tuple)) else (threshold, 255)
        if len(bounds) != 2:
            raise type_error("threshold", threshold, "a number or a pair of numbers")
        self.low, self.high = (number(f"threshold[{i}]", value, 0, 255) for i, value in enumerate(bounds))
        if self.low > self.high:
            raise GraphValueError(f"threshold should be in (min, max) format, but got ({self.low}, {self.high}).")

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        high = 255 if self.low == self.high else self.high
        return np.where((image >= self.low) & (image <= high), inverted(image), image)


class Equalize(ImageOperation):
    """The image with about as many pixels of each value in each channel; takes uint8 with 1 or 3 channels, or PIL."""

    def on_array(self, image: Array) -> Array:
        check_channels(self, check_bytes(self, image))
        planes = image.reshape(*image.shape[:2], -1)
        return np.stack([_equalized(plane) for plane in np.moveaxis(planes, 2, 0)], 2).reshape(image.shape)

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageOps").equalize(image)


class AutoContrast(ImageOperation):
    """The image with the darkest value of each channel made 0 and the lightest 255, without `cutoff` percent of the
    pixels at both ends; pixels of the values `ignore` do not count.

    Takes uint8 with 1 or 3 channels, or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, cutoff: float = 0.0, ignore: Any = None) -> None:
        self.cutoff = number("cutoff", cutoff, 0, 50)
        if self.cutoff == 50:
            raise GraphValueError("Input cutoff is not within the required interval of [0, 50), but 50.")
        values = [] if ignore is None else ignore if isinstance(ignore, (list, tuple)) else [ignore]
        self.ignore = [byte("ignore", value) for value in values]

    def on_array(self, image: Array) -> Array:
        check_channels(self, check_bytes(self, image))
        planes = image.reshape(*image.shape[:2], -1)
        return np.stack([self._spread(plane) for plane in np.moveaxis(planes, 2, 0)], 2).reshape(image.shape)

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageOps").autocontrast(image, self.cutoff, self.ignore or None)

    def _spread(self, plane: Array) -> Array:
        counts = np.bincount(plane.reshape(-1), minlength=256)
        counts[self.ignore] = 0
        least = int(counts.sum() * self.cutoff // 100)
        below, above = np.cumsum(counts), np.cumsum(counts[::-1])[::-1]
        low, high = np.argmax(below > least), 255 - np.argmax(above[::-1] > least)
        if high <= low:
            return plane
        return np.clip((np.arange(256) - low) * 255 // (high - low), 0, 255).astype(np.uint8)[plane]


def _equalized(plane: Array) -> Array:
    counts = np.bincount(plane.reshape(-1), minlength=256)
    sums = np.cumsum(counts)
    first = counts[np.argmax(counts > 0)]
    if first == plane.size:
        return plane
    return saturated((sums - first) * (255 / (plane.size - first)), np.uint8)[plane]


class AdjustGamma(ImageOperation):
    """255.999 * gain * (image / 255) ** gamma of uint8, cut to integers; of floats gain * image ** gamma, in [0, 1].

    Takes (..., H, W, C), (H, W) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, gamma: float, gain: float = 1) -> None:
        self.gamma = magnitude("gamma", gamma)
        self.gain = number("gain", gain)

    def on_array(self, image: Array) -> Array:
        check_channels(self, image, more=True)
        if image.dtype.kind == "f":
            raised = np.float32(self.gain) * image.astype(np.float32) ** np.float32(self.gamma)
            return np.clip(raised, np.float32(0), np.float32(1))
        if image.dtype != np.uint8:
            raise wrong_shape(self, image, "an image of uint8 or floats")
        return self._table()[image]

    def on_pil(self, image: Any) -> Any:
        if image.mode not in ("L", "RGB"):
            mode = image.mode
            return self.on_pil(image.convert("RGB")).convert(mode)
        return image.point(self._table().tolist() * len(image.getbands()))

    def _table(self) -> Array:
        raised = 255.999 * self.gain * (np.arange(256) / 255.0) ** self.gamma
        return np.clip(raised, 0, 255).astype(np.uint8)


class GaussianBlur(ImageOperation):
    """The image smoothed by Gaussian weights in a window of `kernel_size` (across, down), odd numbers, or one for both.

    `sigma` (across, down), or one for both, are the standard deviations; 0 or None stands for
    0.3 * ((width - 1) / 2 - 1) + 0.8, width the first size, both ways. Pixels beyond the border are mirrored. Takes
    (H, W), (H, W, C) or a PIL image, gives an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, kernel_size: Any, sigma: Any = None) -> None:
        sizes = kernel_size if isinstance(kernel_size, (list, tuple)) else (kernel_size,) * 2
        self.kernel_size = sequence("kernel_size", sizes, [2], _odd)
        sigmas = sigma if isinstance(sigma, (list, tuple)) else (0 if sigma is None else sigma,) * 2
        across, down = sequence("sigma", sigmas, [2], magnitude)
        across = across or 0.3 * ((self.kernel_size[0] - 1) / 2 - 1) + 0.8
        self.sigma = across, down or across

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        windows = [gaussian(size, sigma) for size, sigma in zip(self.kernel_size, self.sigma, strict=True)]
        if image.dtype == np.uint8:
            across, down = (_in_bytes(window) for window in windows)
            sums = _smoothed(_smoothed(image.astype(np.int64), across, 1), down, 0)
            return np.clip(sums + (1 << 15) >> 16, 0, 255).astype(np.uint8)
        result = image.astype(np.float64 if image.dtype == np.float64 else np.float32)
        for axis, window in zip((1, 0), windows, strict=True):
            result = _smoothed(result, window.astype(result.dtype), axis)
        return saturated(result, image.dtype)


def _odd(name: str, value: Any) -> int:
    if integer(name, value, 1, LARGEST_SIZE) % 2 == 0:
        raise GraphValueError(f"Input {name} is not an odd value, but {value}.")
    return int(value)


def gaussian(size: int, sigma: float) -> Array:
    """The weights of a window, float64 of (size,), sum 1."""
    weights = np.exp(-((np.arange(size) - (size - 1) / 2) ** 2) / (2 * sigma * sigma))
    return np.asarray(weights / weights.sum())


def _in_bytes(weights: Array) -> Array:
    """Symmetric weights in 256ths whose sum is 256: what one loses by rounding the next one gets."""
    rest, result = 0.0, np.zeros(len(weights), np.int64)
    for place in range(len(weights) // 2):
        wanted = weights[place] * 256 + rest
        result[place] = result[-1 - place] = round(wanted)
        rest = wanted - result[place]
    result[len(weights) // 2] = 256 - result.sum()
    return result


def _smoothed(image: Array, weights: Array, axis: int) -> Array:
    half, length = len(weights) // 2, image.shape[axis]
    widths = [(0, 0)] * image.ndim
    widths[axis] = (half, half)
    wide = np.pad(image, widths, "reflect")
    parts = (np.take(wide, range(i, i + length), axis) * weight for i, weight in enumerate(weights))
    return np.asarray(sum(parts))
