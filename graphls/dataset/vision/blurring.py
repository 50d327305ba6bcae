"""Blurred images."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.transforms.checks import LARGEST_SIZE, integer, number, sequence, value_error
from graphls.dataset.vision.image import Array, ImageOperation, check_image, saturated


class GaussianBlur(ImageOperation):
    """The image smoothed by Gaussian weights in a window of `kernel_size` (across, down), odd numbers, or one for both.

    `sigma` (across, down), or one for both, are the standard deviations; 0 or None stands for
    0.3 * ((size - 1) / 2 - 1) + 0.8. Pixels beyond the border are mirrored. Takes (H, W), (H, W, C) or a PIL image, gives
    an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, kernel_size: Any, sigma: Any = None) -> None:
        sizes = kernel_size if isinstance(kernel_size, (list, tuple)) else (kernel_size,) * 2
        self.kernel_size = sequence("kernel_size", sizes, [2], _odd)
        sigmas = sigma if isinstance(sigma, (list, tuple)) else (0 if sigma is None else sigma,) * 2
        self.sigma = sequence("sigma", sigmas, [2], lambda name, item: number(name, item, 0, LARGEST_SIZE))

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        result = image.astype(np.float64 if image.dtype == np.float64 else np.float32)
        for axis, size, sigma in zip((1, 0), self.kernel_size, self.sigma, strict=True):
            result = _smoothed(result, gaussian(size, sigma), axis)
        return saturated(result, image.dtype)


def _odd(name: str, value: Any) -> int:
    if integer(name, value, 1, LARGEST_SIZE) % 2 == 0:
        raise value_error(f"Input {name} is not an odd value, but {value}.")
    return int(value)


def gaussian(size: int, sigma: float) -> Array:
    """The weights of a window, float64 of (size,), sum 1; those of a small window without sigma are OpenCV's."""
    if sigma == 0 and size in _SMALL:
        return np.array(_SMALL[size])
    sigma = sigma or 0.3 * ((size - 1) / 2 - 1) + 0.8
    weights = np.exp(-((np.arange(size) - (size - 1) / 2) ** 2) / (2 * sigma * sigma))
    return np.asarray(weights / weights.sum())


_SMALL = {
    1: [1.0],
    3: [0.25, 0.5, 0.25],
    5: [0.0625, 0.25, 0.375, 0.25, 0.0625],
    7: [0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125],
}


def _smoothed(image: Array, weights: Array, axis: int) -> Array:
    half, length = len(weights) // 2, image.shape[axis]
    widths = [(0, 0)] * image.ndim
    widths[axis] = (half, half)
    wide = np.pad(image, widths, "reflect")
    parts = (np.take(wide, range(i, i + length), axis) * image.dtype.type(w) for i, w in enumerate(weights))
    return np.asarray(sum(parts))
