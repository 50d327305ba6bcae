"""Arrays of images in another size, turned, sheared and distorted, by the rules of OpenCV, which MindSpore uses.

Resized: along each axis a new pixel is a weighted sum of a few old ones. Its center lies at
(i + 1/2) * old / new - 1/2; a smaller image is not smoothed first, except by AREA, whose pixel is the mean of what it
covers. Warped: a new pixel lies at a place of the old image that is known in steps of 1/32 of a pixel (whole pixels
for NEAREST); what is outside of the image has the color `fill`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from graphls.dataset.vision.image import Array, pillow, saturated
from graphls.dataset.vision.utils import Inter

_BITS = 11  # of the weights of uint8 images


class Taps(NamedTuple):
    """For each new pixel along an axis: the old pixels of shape (new, taps), and their weights."""

    places: Array
    weights: Array


def resized(image: Array, size: tuple[int, int], interpolation: Inter, rows: int = 0) -> Array:
    """The image in (height, width) = `size`; its rows are along the axis `rows`, its columns along the next.

    NEAREST takes every dtype; the others compute in float32, or float64 for that dtype, and uint8 by fixed point.
    """
    old = image.shape[rows], image.shape[rows + 1]
    if old == size:
        return image.copy()
    if interpolation == Inter.NEAREST:
        return _nearest(image, size, rows)
    if interpolation == Inter.PILCUBIC:
        return np.asarray(pillow().fromarray(image).resize(size[::-1], pillow().Resampling.BICUBIC))
    if interpolation == Inter.AREA and old[0] >= size[0] and old[1] >= size[1]:
        rule = _covered
    else:
        rule = {Inter.BICUBIC: _cubic, Inter.AREA: _linear_of_areas}.get(interpolation, _linear)
    taps = _taps(rule, old[0], size[0]), _taps(rule, old[1], size[1])
    if image.dtype == np.uint8 and rule is not _covered:
        return _fixed_point(image, taps, rows)
    kind = np.float64 if image.dtype == np.float64 else np.float32
    result = _weighted(_weighted(image.astype(kind), taps[1], rows + 1), taps[0], rows)
    return saturated(result, image.dtype)


@lru_cache(maxsize=256)
def _taps(rule: Callable[[int, int], Taps], old: int, new: int) -> Taps:
    return rule(old, new)


def _nearest(image: Array, size: tuple[int, int], rows: int) -> Array:
    for axis, new in zip((rows, rows + 1), size, strict=True):
        old = image.shape[axis]
        places = np.minimum(np.floor(np.arange(new) * (old / new)).astype(np.intp), old - 1)
        image = np.take(image, places, axis)
    return image


def _centers(old: int, new: int) -> Array:
    return np.asarray(((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32))


def _linear(old: int, new: int) -> Taps:
    centers = _centers(old, new)
    left = np.floor(centers).astype(np.intp)
    return _two_taps(left, centers - left.astype(np.float32), old)


def _linear_of_areas(old: int, new: int) -> Taps:
    numbers = np.arange(new)
    left = np.floor(numbers * (old / new)).astype(np.intp)
    share = ((numbers + 1) - (left + 1) * (new / old)).astype(np.float32)
    return _two_taps(left, np.where(share <= 0, np.float32(0), share - np.floor(share)), old)


def _two_taps(left: Array, share: Array, old: int) -> Taps:
    places = np.clip(np.stack([left, left + 1], 1), 0, old - 1)
    return Taps(places, np.stack([1 - share, share], 1).astype(np.float32))


def _cubic(old: int, new: int) -> Taps:
    centers = _centers(old, new)
    left = np.floor(centers).astype(np.intp)
    places = np.clip(left[:, None] + np.arange(-1, 3), 0, old - 1)
    return Taps(places, cubic_weights(centers - left.astype(np.float32)))


def cubic_weights(share: Array, a: float = -0.75) -> Array:
    """The weights of four neighbors for a point `share` right of the second, along a new last axis (Keys 1981)."""
    x = share.astype(np.float32)

    def inner(x: Array) -> Array:
        return np.asarray(((a + 2) * x - (a + 3)) * x * x + 1)

    first = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
    weights = [first, inner(x), inner(1 - x)]
    return np.stack([*weights, 1 - weights[0] - weights[1] - weights[2]], -1).astype(np.float32)


def _covered(old: int, new: int) -> Taps:
    scale = old / new
    starts = np.arange(new) * scale
    ends = np.minimum(starts + scale, old)
    count = int(np.ceil(scale)) + 1
    places = np.floor(starts + 1e-9).astype(np.intp)[:, None] + np.arange(count)
    shares = np.clip(np.minimum(places + 1, ends[:, None]) - np.maximum(places, starts[:, None]), 0, 1)
    shares[shares < 1e-3] = 0
    weights = shares / np.minimum(scale, old - starts)[:, None]
    return Taps(np.minimum(places, old - 1), weights.astype(np.float32))


def _weighted(image: Array, taps: Taps, axis: int) -> Array:
    """The sums along an axis, tap by tap."""
    shape = [1] * image.ndim
    shape[axis] = -1
    total: Any = 0
    for places, weights in zip(taps.places.T, taps.weights.T, strict=True):
        total = total + np.take(image, places, axis) * weights.astype(image.dtype).reshape(shape)
    return np.asarray(total)


def _fixed_point(image: Array, taps: tuple[Taps, Taps], rows: int) -> Array:
    """Sums of bytes with integer weights; two taps are cut before the last sum, as OpenCV does to stay in 32 bits."""
    down, across = (Taps(t.places, np.rint(t.weights * (1 << _BITS)).astype(np.int32)) for t in taps)
    sums = _weighted(image.astype(np.int32), across, rows + 1)
    if down.places.shape[1] == 2:
        shape = [1] * image.ndim
        shape[rows] = -1
        parts = [
            (np.take(sums, places, rows) >> 4) * weights.reshape(shape) >> 16
            for places, weights in zip(down.places.T, down.weights.T, strict=True)
        ]
        return np.asarray(np.clip((parts[0] + parts[1] + 2) >> 2, 0, 255).astype(np.uint8))
    exact = _weighted(sums.astype(np.float32), down, rows) / np.float32(1 << 2 * _BITS)
    return saturated(exact, np.uint8)


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
