"""Arrays of images turned, sheared and distorted, by the rules of OpenCV, which MindSpore warps arrays with.

A new pixel lies at a place of the old image that is known in steps of 1/32 of a pixel (whole pixels for NEAREST); what
is outside of the image has the color `fill`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.dataset.vision.image import Array, saturated
from graphls.dataset.vision.resampling import cubic_weights
from graphls.dataset.vision.utils import Inter

_STEPS = 32
_FINE = 1024


def warped_affine(image: Array, matrix: Array, size: tuple[int, int], interpolation: Inter, fill: Any) -> Array:
    """The image moved by a (2, 3) matrix from old to new (x, y), in the size (height, width)."""
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2]
    y, x = np.arange(size[0])[:, None], np.arange(size[1])
    half = _FINE // 2 if interpolation == Inter.NEAREST else _FINE // _STEPS // 2

    def places(row: Array) -> Array:
        across = np.rint(row[0] * x * _FINE).astype(np.int64)
        down = np.rint((row[1] * y + row[2]) * _FINE).astype(np.int64) + half
        return np.asarray(across + down)

    shift = 10 if interpolation == Inter.NEAREST else 5
    return _sampled(image, places(inverse[0]) >> shift, places(inverse[1]) >> shift, interpolation, fill)


def warped_perspective(image: Array, matrix: Array, interpolation: Inter) -> Array:
    """The image moved by a (3, 3) matrix from old to new (x, y, 1); black around it."""
    inverse = np.linalg.inv(matrix)
    y, x = np.arange(image.shape[0])[:, None], np.arange(image.shape[1])
    across, down, depth = (row[0] * x + row[1] * y + row[2] for row in inverse)
    scale = (1 if interpolation == Inter.NEAREST else _STEPS) / np.where(depth == 0, 1, depth)
    places = [np.where(depth == 0, 0, np.rint(np.clip(part * scale, -(2**31), 2**31 - 1))) for part in (across, down)]
    return _sampled(image, places[0].astype(np.int64), places[1].astype(np.int64), interpolation, 0)


def _sampled(image: Array, x: Array, y: Array, interpolation: Inter, fill: Any) -> Array:
    framed = _framed(image, fill)
    if interpolation == Inter.NEAREST:
        return _pixels(framed, x, y)
    first, weights = _WEIGHTS[Inter.BICUBIC if interpolation == Inter.BICUBIC else Inter.BILINEAR]
    across, down = (weights((part % _STEPS).astype(np.float32) / np.float32(_STEPS)) for part in (x, y))
    total: Any = 0
    for row in range(down.shape[-1]):
        for column in range(across.shape[-1]):
            pixels = _pixels(framed, x // _STEPS + first + column, y // _STEPS + first + row)
            weight = _rounded(down[..., row] * across[..., column], image.dtype)
            total = total + pixels * weight.reshape(weight.shape + (1,) * (image.ndim - 2))
    return saturated(_floor_half(total) if image.dtype == np.uint8 else total, image.dtype)


def _rounded(weight: Array, dtype: Any) -> Array:
    """Weights of bytes are multiples of 2 ** -15."""
    return np.rint(weight * np.float32(2**15)) / np.float32(2**15) if dtype == np.uint8 else weight


def _floor_half(values: Array) -> Array:
    return np.asarray(np.floor(values + 0.5))


def _color(image: Array, fill: Any) -> Array:
    values = np.array(fill if isinstance(fill, tuple) else (fill,) * 3)
    if image.ndim == 2:
        return np.asarray(values[0].astype(image.dtype))
    color = np.zeros(image.shape[2], image.dtype)
    count = min(len(values), len(color))
    color[:count] = values[:count]
    return color


def _framed(image: Array, fill: Any) -> Array:
    """The image with one pixel of the color on every side, which stands for all that is outside."""
    framed = np.empty((image.shape[0] + 2, image.shape[1] + 2, *image.shape[2:]), image.dtype)
    framed[...] = _color(image, fill)
    framed[1:-1, 1:-1] = image
    return framed


def _pixels(framed: Array, x: Array, y: Array) -> Array:
    height, width = framed.shape[:2]
    places = np.clip(y + 1, 0, height - 1) * width + np.clip(x + 1, 0, width - 1)
    return np.asarray(np.take(framed.reshape(-1, *framed.shape[2:]), places, 0))


def _linear_weights(share: Array) -> Array:
    return np.stack([1 - share, share], -1)


_WEIGHTS: dict[Inter, tuple[int, Callable[[Array], Array]]] = {
    Inter.BILINEAR: (0, _linear_weights),
    Inter.BICUBIC: (-1, cubic_weights),
}
