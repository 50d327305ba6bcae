"""Blurred images."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.transforms.checks import LARGEST_SIZE, integer, number, sequence, value_error
from graphls.dataset.vision.image import Array, ImageOperation, check_image, saturated


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
        across, down = sequence("sigma", sigmas, [2], lambda name, item: number(name, item, 0, LARGEST_SIZE))
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
        raise value_error(f"Input {name} is not an odd value, but {value}.")
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
