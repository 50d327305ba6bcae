"""Image operations by OpenCV, with the bits of MindSpore, which uses it, for OpenCV 4 and 5.

Comments give the reasons where calling its function is not enough. Resized images are not smoothed first, except by
AREA. Warped images have the color `fill` outside of the old image.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.base.reporting import load_package
from graphls.dataset.checks import Function
from graphls.dataset.vision.image import Array, Fill, pillow, saturated
from graphls.dataset.vision.utils import Border, Inter

COMPUTED = frozenset(map(np.dtype, (np.uint8, np.uint16, np.float32, np.float64)))
_MOVED = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64}


@cache
def opencv() -> ModuleType:
    """OpenCV; raises GraphRuntimeError that says how to install it.

    In forked processes and those of `multiprocessing` it computes in one thread, as there are others beside them; but
    if it was loaded before, its threads may be those of the parent, which cannot be ended.
    """
    loaded = "cv2" in sys.modules
    subject = "Arrays of images are changed by OpenCV, which"
    cv2: ModuleType = load_package("cv2", subject, 'pip install "graphls[train]"')
    if multiprocessing.parent_process() is not None and not loaded:
        cv2.setNumThreads(1)
    if hasattr(os, "register_at_fork"):
        _fork_with_one_thread(cv2)
    return cv2


def _fork_with_one_thread(cv2: ModuleType) -> None:
    """Let OpenCV end its threads before a fork: a child that ends them itself waits for threads that it lacks."""
    counts: list[int] = []

    def before() -> None:
        counts.append(cv2.getNumThreads())
        cv2.setNumThreads(1)

    os.register_at_fork(before=before, after_in_parent=lambda: cv2.setNumThreads(counts.pop()))


@contextmanager
def _exact() -> Iterator[ModuleType]:
    """OpenCV without Intel's library IPP, which MindSpore is built without and whose resized images and grays differ.

    Raises GraphRuntimeError for images that OpenCV refuses, such as those of more than 32,767 pixels on a side.
    """
    cv2 = opencv()
    used = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        yield cv2
    except cv2.error as error:
        reason = " ".join(str(getattr(error, "err", "") or error).split())
        raise GraphRuntimeError(f"OpenCV refuses the image: {reason}.") from None
    finally:
        cv2.ipp.setUseIPP(used)


def computed(image: Array, function: Function, moved: bool = False) -> Array:
    """Apply a function of OpenCV and an image, keeping all axes and the image's dtype.

    Dtypes that OpenCV does not support become float32, or others of their size if pixels are only `moved`.
    """
    if image.ndim == 3 and image.shape[2] > 4:  # more channels than OpenCV takes
        parts = np.split(image, range(4, image.shape[2], 4), 2)
        return np.concatenate([computed(part, function, moved) for part in parts], 2)
    if moved := moved and image.itemsize in _MOVED:
        known = image.view(_MOVED[image.itemsize])
    else:
        known = image if image.dtype in COMPUTED else image.astype(np.float32)
    with _exact() as cv2:
        result: Array = function(cv2, known)
    result = result.reshape(*result.shape[:2], *image.shape[2:])  # OpenCV drops an axis of one channel
    return result.view(image.dtype) if moved or result.dtype == image.dtype else saturated(result, image.dtype)


def resized(image: Array, size: tuple[int, int], interpolation: Inter, rows: int = 0) -> Array:
    """The image in (height, width) = `size`; its rows are along the axis `rows`, its columns along the next."""
    if image.shape[rows : rows + 2] == size:
        return image.copy()
    if rows:
        parts = image.reshape(-1, *image.shape[rows:])
        result = np.empty((len(parts), *size, image.shape[-1]), image.dtype)
        for index, part in enumerate(parts):
            result[index] = resized(part, size, interpolation)
        return result.reshape(*image.shape[:rows], *result.shape[1:])
    if interpolation == Inter.PILCUBIC:
        return np.asarray(pillow().fromarray(image).resize(size[::-1], pillow().Resampling.BICUBIC))

    def resize(cv2: ModuleType, image: Array) -> Any:
        return cv2.resize(image, size[::-1], interpolation=getattr(cv2, _METHODS[interpolation]))

    return computed(image, resize, interpolation == Inter.NEAREST)


_METHODS = {
    Inter.NEAREST: "INTER_NEAREST", Inter.BILINEAR: "INTER_LINEAR", Inter.BICUBIC: "INTER_CUBIC",
    Inter.AREA: "INTER_AREA",
}  # fmt: skip


# OpenCV 5 warps by other rules, so positions are computed here by the rules of OpenCV 4, and `remap` reads the pixels.
_BITS = 5
_STEPS = 1 << _BITS  # of a pixel
_FINE = 1024
_AT_ONCE = 2**15  # pixels, so that intermediate arrays stay in fast memory


def rotation(degrees: float, center: tuple[float, float]) -> Array:
    """The (2, 3) matrix of a turn counterclockwise around (x, y)."""
    return np.asarray(opencv().getRotationMatrix2D(center, float(np.float32(degrees)), 1.0))


def turned_size(degrees: float, height: int, width: int) -> tuple[float, float]:
    """The height and the width of a turned image, by the corners of OpenCV's `RotatedRect` in float32."""
    angle, signs = math.radians(float(np.float32(degrees))), np.array([1, -1], np.float32)
    cos, sin = np.array([math.cos(angle), math.sin(angle)], np.float32) * np.float32(0.5)
    rows, columns = np.array([height, width], np.float32)
    y, x = np.array([(height - 1) / 2, (width - 1) / 2], np.float32)
    down = y + signs * (cos * rows) - sin * columns
    across = x - signs * (sin * rows) - cos * columns
    ends = (np.concatenate([some, 2 * middle - some]) for some, middle in ((down, y), (across, x)))
    new_height, new_width = map(float, map(np.ptp, ends))
    return new_height, new_width


def warped_affine(image: Array, matrix: Array, size: tuple[int, int], interpolation: Inter, fill: Fill) -> Array:
    """The image moved by a (2, 3) matrix from old to new (x, y), in the size (height, width)."""
    inverse = opencv().invertAffineTransform(np.asarray(matrix, np.float64)) * _FINE
    step = _FINE if interpolation == Inter.NEAREST else _FINE // _STEPS
    across = np.rint(inverse[:, :1] * np.arange(size[1]))[:, None]
    down = np.rint(inverse[:, 1:2] * np.arange(size[0]) + inverse[:, 2:])[..., None]
    if max(abs(x) * size[1] + abs(y) * size[0] + abs(one) for x, y, one in inverse.tolist()) < 2**22:
        across, down = (across / _FINE).astype(np.float32), ((down + 0.5) / _FINE).astype(np.float32)  # exact
        memory = np.empty((2, _rows_at_once(size[1]), size[1]), np.float32)
        return _sampled(image, size, lambda rows: _sums(down[:, rows], across, memory), interpolation, fill)

    def positions(rows: slice) -> Array:
        return np.asarray(np.floor((down[:, rows] + across + step // 2) / step) * (step / _FINE))

    return _sampled(image, size, positions, interpolation, fill)


def _sums(down: Array, across: Array, memory: Array) -> Array:
    """All sums of (N, rows, 1) and (N, 1, columns), as products of matrices: a broadcast addition is half as fast."""
    left, right = np.concatenate([down, np.ones_like(down)], 2), np.concatenate([np.ones_like(across), across], 1)
    return np.matmul(left, right, out=memory[:, : down.shape[1]])


def warped_perspective(image: Array, matrix: Array, interpolation: Inter) -> Array:
    """The image moved by a (3, 3) matrix from old to new (x, y, 1); black around it."""
    inverse, (height, width) = opencv().invert(matrix)[1], image.shape[:2]
    steps = 1 if interpolation == Inter.NEAREST else _STEPS
    block = min(1024 // min(16, height), width)  # OpenCV adds up from a block's first pixel
    columns, along, constant = inverse.T[..., None, None]
    starts, across = columns * np.arange(0, width, block), columns * np.arange(block)
    memory = np.empty((3, _rows_at_once(width) * starts.shape[2], block))

    def positions(rows: slice) -> Array:
        down = starts + along * np.arange(rows.start, rows.stop)[:, None] + constant
        *numerators, depth = _sums(down.reshape(3, -1, 1), across, memory)
        depth[depth == 0] = np.inf  # such a pixel is that at (0, 0)
        scale = np.divide(steps, depth, out=depth)
        for numbers in numerators:
            np.rint(np.multiply(numbers, scale, out=numbers), out=numbers)
        pixels = memory[:2, : len(depth)].reshape(2, down.shape[1], -1)[..., :width].astype(np.float32, order="C")
        return np.multiply(pixels, np.float32(1 / steps), out=pixels)

    return _sampled(image, (height, width), positions, interpolation, (0, 0, 0))


def _rows_at_once(width: int) -> int:
    return max(1, _AT_ONCE // max(1, width))


Positions = Callable[[slice], Array]
"""The (x, y) in the old image of the pixels of some new rows, to be rounded to pixels for NEAREST, else to steps."""


def _sampled(image: Array, size: tuple[int, int], positions: Positions, interpolation: Inter, fill: Fill) -> Array:
    if interpolation == Inter.BICUBIC and image.dtype == np.float64:  # OpenCV 5 truncates it to integers at the border
        return _sampled(image.astype(np.float32), size, positions, interpolation, fill).astype(np.float64)
    moved = interpolation == Inter.NEAREST
    method = _METHODS[interpolation if moved or interpolation == Inter.BICUBIC else Inter.BILINEAR]
    rows = _rows_at_once(size[1])

    def remap(cv2: ModuleType, known: Array) -> Any:
        color = np.array(fill).astype(image.dtype)
        values = (color.view if moved and image.itemsize in _MOVED else color.astype)(known.dtype)
        border = {"borderMode": cv2.BORDER_CONSTANT, "borderValue": values.tolist()}
        result = np.empty((*size, *known.shape[2:]), known.dtype)
        for part in (slice(start, min(start + rows, size[0])) for start in range(0, size[0], rows)):
            maps = positions(part).astype(np.float32, copy=False)
            if not moved:  # whole pixels and their fractions in steps, as OpenCV 5 does not round floats to steps
                maps = cv2.convertMaps(*maps, cv2.CV_16SC2)
            cv2.remap(known, *maps, getattr(cv2, method), result[part], **border)
        return result

    return computed(image, remap, moved)


def blurred(image: Array, size: tuple[int, int], sigma: tuple[float, float]) -> Array:
    """The image smoothed by Gaussian weights in a window of (across, down), mirrored at its border."""

    def blur(cv2: ModuleType, image: Array) -> Any:
        return cv2.GaussianBlur(image, size, float(np.float32(sigma[0])), sigmaY=float(np.float32(sigma[1])))

    return computed(image, blur)


def scaled(image: Array, factor: float, shift: float) -> Array:
    """image * factor + shift as float32, rounded once."""
    if image.dtype == np.uint8 and image.size:  # from a table, without an array of floats
        with _exact() as cv2:
            return np.asarray(cv2.LUT(image.reshape(-1, 1), _scaled_bytes(factor, shift))).reshape(image.shape)
    numbers = np.array([[factor, shift]], np.float32)
    known = image.astype(np.float32 if np.can_cast(image.dtype, np.float32) else np.float64, "C", copy=False)
    if not image.size:
        return known.astype(np.float32)
    with _exact() as cv2:
        return np.asarray(cv2.transform(known.reshape(-1, 1), numbers), np.float32).reshape(image.shape)


@lru_cache(maxsize=64)
def _scaled_bytes(factor: float, shift: float) -> Array:
    """The table of scaled bytes, float32 of (256, 1)."""
    return scaled(np.arange(256, dtype=np.float32)[:, None], factor, shift)


def bordered(image: Array, sides: tuple[int, int, int, int], mode: Border) -> Array:
    """The image with pixels (left, top, right, bottom) around it: its edge, or its mirror."""
    left, top, right, bottom = sides

    def border(cv2: ModuleType, image: Array) -> Any:
        return cv2.copyMakeBorder(image, top, bottom, left, right, getattr(cv2, _BORDERS[mode]))

    return computed(image, border, moved=True)


_BORDERS = {Border.EDGE: "BORDER_REPLICATE", Border.REFLECT: "BORDER_REFLECT_101", Border.SYMMETRIC: "BORDER_REFLECT"}


def smoothed(image: Array) -> Array:
    """Each pixel, weighted five times, averaged with its eight neighbors; the outermost ones stay."""
    result = image.copy()
    weights = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / np.float32(13)
    inside = computed(image, lambda cv2, image: cv2.filter2D(image, -1, weights))
    result[1:-1, 1:-1] = inside[1:-1, 1:-1]
    return result


def blended(image: Array, other: Array, factor: float, other_first: bool = False) -> Array:
    """image * factor + other * (1 - factor); floats are added in float64, and bytes round by the order of terms."""
    share, kind = float(np.float32(factor)), image.dtype if image.dtype in (np.uint8, np.uint16) else np.float64
    terms = [(image.astype(kind, copy=False), share), (other.astype(kind, copy=False), 1 - share)]
    with _exact() as cv2:
        result = cv2.addWeighted(*terms[other_first], *terms[not other_first], 0)
    result = result.reshape(image.shape)
    return result if kind == image.dtype else saturated(result, image.dtype)


def recolored(image: Array, conversion: str) -> Array:
    """The image after a color conversion with OpenCV's name, such as RGB2GRAY."""
    known = image if image.dtype in (np.uint8, np.uint16) else image.astype(np.float32, copy=False)
    with _exact() as cv2:
        result = cv2.cvtColor(known, getattr(cv2, f"COLOR_{conversion.removeprefix('COLOR_')}"))
    return np.asarray(result, image.dtype)
