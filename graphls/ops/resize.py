"""Images in another size: interpolation along one axis after the other, and pixels moved to channels and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from graphls.ops.elementwise import add, mul
from graphls.ops.operands import float_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import broadcast_to, gather, reshape, transpose
from graphls.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]
Taps = list[tuple[Array, Array]]
"""Positions along an axis and their weights, of which the weighted elements are summed."""

_RANKS = {
    "nearest": (3, 4, 5),
    "nearest-exact": (3, 4, 5),
    "linear": (3,),
    "bilinear": (4,),
    "trilinear": (5,),
    "bicubic": (4,),
    "area": (3, 4, 5),
}
_ALIGNED = ("linear", "bilinear", "trilinear", "bicubic")


@operation(names="upsample")
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """Images (N, C, sizes...) resized to `size`, or by `scale_factor`: one number, or one for each axis.

    The modes are "nearest", "nearest-exact" and "area" for one to three axes, and "linear", "bilinear", "bicubic" and
    "trilinear" for one, two, two and three. With `align_corners` the centres of the corners meet, else the corners
    themselves. Coordinates follow from the `scale_factor` unless `recompute_scale_factor` takes them from the sizes.
    Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """
    x = float_of(input)
    _check(x, mode, align_corners)
    sizes, scales = _sizes(x, size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[x.ndim - 3]
        return pool(x, sizes)
    for axis, (count, scale) in enumerate(zip(sizes, scales, strict=True), 2):
        x = _along(x, axis, count, mode, scale, bool(align_corners))
    return x


def _check(x: Tensor, mode: Any, align_corners: bool | None) -> None:
    if not isinstance(mode, str) or mode not in _RANKS:
        known = ", ".join(map(repr, _RANKS))
        raise GraphValueError(f"The 'mode' of interpolate is one of {known}, not {mode!r}.")
    if x.ndim not in _RANKS[mode] or 0 in x.shape[2:]:
        ranks = " or ".join(map(str, _RANKS[mode]))
        raise GraphValueError(
            f"interpolate with the mode {mode!r} takes images with elements of rank {ranks}, not {x.type}.",
        )
    if align_corners is not None and mode not in _ALIGNED:
        raise GraphValueError(f"interpolate takes no 'align_corners' with the mode {mode!r}.")


def _sizes(x: Tensor, size: Any, factor: Any, recompute: bool) -> tuple[list[int], list[float]]:
    """The size along each axis, and how many old elements a new one covers."""
    if (size is None) == (factor is None):
        raise GraphValueError("interpolate takes either a 'size' or a 'scale_factor'.")
    if size is not None and recompute:
        raise GraphValueError("interpolate takes 'recompute_scale_factor' with a 'scale_factor' only.")
    old = x.shape[2:]
    name, given = ("size", size) if factor is None else ("scale_factor", factor)
    values = list(given) if isinstance(given, (tuple, list)) else [given] * len(old)
    kinds = (int,) if factor is None else (int, float)
    if len(values) != len(old) or any(isinstance(v, bool) or not isinstance(v, kinds) for v in values):
        raise GraphTypeError(f"The {name!r} is one number, or {len(old)}, not {given!r}.")
    sizes = [int(v) if factor is None else math.floor(n * v) for n, v in zip(old, values, strict=True)]
    if min(sizes) < 1:
        raise GraphValueError(f"interpolate cannot make {x.type} so small: {name!r} is {given!r}.")
    by_factor = factor is not None and not recompute
    return sizes, [1 / v if by_factor else n / m for n, m, v in zip(old, sizes, values, strict=True)]


def _along(x: Tensor, axis: int, count: int, mode: str, scale: float, align_corners: bool) -> Tensor:
    size = x.shape[axis]
    if count == size and (scale == 1 or align_corners):
        return x
    if mode.startswith("nearest"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        return picked(x, axis, np.minimum(((np.arange(count) + shift) * scale).astype(np.int64), size - 1))
    where = aligned_positions(size, count) if align_corners else (np.arange(count) + 0.5) * scale - 0.5
    return weighted(x, axis, cubic(where, size) if mode == "bicubic" else linear(where, size))


def aligned_positions(size: int, count: int) -> Array:
    """Where new elements lie if the first and the last stay where they are."""
    return np.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0.0)


def scaled_positions(size: int, count: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Where new elements lie: with aligned corners, between the centres of pixels, or at position * old / new."""
    if align_corners:
        return aligned_positions(size, count)
    shift = 0.5 if half_pixel_centers else 0.0
    return np.asarray((np.arange(count) + shift) * (size / count) - shift)


def picked(x: Tensor, axis: int, places: Array) -> Tensor:
    """Elements by position; repeated where each is repeated as often, whose gradient is a sum."""
    times = len(places) // x.shape[axis]
    if not np.array_equal(places, np.repeat(np.arange(x.shape[axis]), times)):
        return gather(x, Tensor(places), axis)
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    wide = broadcast_to(reshape(x, (*before, 1, *after)), (*before, times, *after))
    return reshape(wide, (*before[:-1], len(places), *after))


def linear(where: Array, size: int) -> Taps:
    """Both neighbours of each position, weighted by how near they are; positions before 0 count as 0."""
    where = np.maximum(where, 0.0)
    low = np.minimum(where.astype(np.int64), size - 1)
    part = np.where(low < size - 1, where - low, 0.0)
    return [(low, 1 - part), (np.minimum(low + 1, size - 1), part)]


def cubic(where: Array, size: int, a: float = -0.75) -> Taps:
    """Four neighbours of each position, weighted by Keys' cubic of 1981."""
    low = np.floor(where).astype(np.int64)
    taps = []
    for step in (-1, 0, 1, 2):
        d = np.abs(where - low - step)
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        taps.append((np.clip(low + step, 0, size - 1), np.where(d <= 1, near, far)))
    return taps


def weighted(x: Tensor, axis: int, taps: Taps) -> Tensor:
    """The sum over the taps of elements along an axis times their weights."""
    total = None
    for places, weights in taps:
        if not weights.any():
            continue
        column = weights.reshape(-1, *[1] * (x.ndim - axis - 1)).astype(x.dtype.numpy)
        term = mul(gather(x, Tensor(places), axis), Tensor(column, x.dtype))
        total = term if total is None else add(total, term)
    assert total is not None
    return total


@operation
def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Channels as pixels: (..., C * r * r, H, W) to (..., C, H * r, W * r), for r = `upscale_factor`.

    Raises GraphTypeError and GraphValueError where that does not work out.
    """
    x, r = _shuffled("pixel_shuffle", input, upscale_factor)
    *batch, channels, height, width = x.shape
    if channels % (r * r):
        raise GraphValueError(f"pixel_shuffle cannot make {r} x {r} pixels of {channels} channels.")
    x = reshape(x, (math.prod(batch), channels // (r * r), r, r, height, width))
    return reshape(transpose(x, (0, 1, 4, 2, 5, 3)), (*batch, channels // (r * r), height * r, width * r))


@operation
def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """Pixels as channels: (..., C, H * r, W * r) to (..., C * r * r, H, W), for r = `downscale_factor`.

    Raises GraphTypeError and GraphValueError where that does not work out.
    """
    x, r = _shuffled("pixel_unshuffle", input, downscale_factor)
    *batch, channels, height, width = x.shape
    if height % r or width % r:
        raise GraphValueError(f"pixel_unshuffle cannot cut {height} x {width} pixels by {r}.")
    x = reshape(x, (math.prod(batch), channels, height // r, r, width // r, r))
    return reshape(transpose(x, (0, 1, 3, 5, 2, 4)), (*batch, channels * r * r, height // r, width // r))


def _shuffled(name: str, x: Any, factor: Any) -> tuple[Tensor, int]:
    x = tensor_of(x)
    if isinstance(factor, bool) or not isinstance(factor, int):
        raise GraphTypeError(f"{name} takes an integer factor, not {factor!r}.")
    if factor < 1 or x.ndim < 3:
        raise GraphValueError(f"{name} takes images of rank 3 or more and a factor of 1 or more, not {x.type} "
                              f"and {factor}.")  # fmt: skip
    return x, factor
