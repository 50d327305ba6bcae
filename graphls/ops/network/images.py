"""Resizing of images by separable interpolation, pixel shuffles, and colour conversion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.checks import positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32
from graphls.ops.arrays.shapes import broadcast_to, gather, reshape, stack, transpose
from graphls.ops.math.elementwise import abs as absolute
from graphls.ops.math.elementwise import (
    add,
    cast,
    clip_by_value,
    floor,
    maximum,
    minimum,
    mul,
    sub,
    where,
)
from graphls.ops.network.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from graphls.ops.operands import Sizes, float_of, in_single, shape_of, tensor_of
from graphls.ops.record import cell, operation, operator_class

Array = np.ndarray[Any, Any]
Taps = list[tuple[Array, Array]]
"""Positions along an axis and their weights: the result is the sum of the weighted elements."""

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


@cell("Upsample", "size scale_factor mode align_corners recompute_scale_factor", shown="size scale_factor mode")
@operation(names="upsample", also="mint.nn.functional")
def interpolate(
    input: TensorLike, size: TensorLike | None = None, scale_factor: TensorLike | None = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
) -> Tensor:  # fmt: skip
    """Images (N, C, sizes...) resized to `size`, or by `scale_factor`: one number, or one for each axis.

    The modes are "nearest", "nearest-exact" and "area" for one to three axes, and "linear", "bilinear", "bicubic" and
    "trilinear" for one, two, two and three. `align_corners` aligns the centres of the corner pixels, else their outer
    corners. Coordinates use the `scale_factor`, or the ratio of the sizes with `recompute_scale_factor`. Raises
    GraphTypeError and GraphValueError for arguments that do not fit.
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


def _check(x: Tensor, mode: str, align_corners: bool | None) -> None:
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
    """The new size along each axis, and the number of old elements for each new one."""
    if (size is None) == (factor is None):
        raise GraphValueError("interpolate takes either a 'size' or a 'scale_factor'.")
    if size is not None and recompute:
        raise GraphValueError("interpolate takes 'recompute_scale_factor' with a 'scale_factor' only.")
    old = x.shape[2:]
    name, argument = ("size", size) if factor is None else ("scale_factor", factor)
    values = list(argument) if isinstance(argument, (tuple, list)) else [argument] * len(old)
    kinds = (int,) if factor is None else (int, float)
    if len(values) != len(old) or any(isinstance(v, bool) or not isinstance(v, kinds) for v in values):
        raise GraphTypeError(f"The {name!r} is one number, or {len(old)}, not {argument!r}.")
    sizes = [int(v) if factor is None else math.floor(n * v) for n, v in zip(old, values, strict=True)]
    if min(sizes) < 1:
        raise GraphValueError(f"interpolate cannot make {x.type} so small: {name!r} is {argument!r}.")
    # The given factor is used, as in PyTorch: new size / old size differs from it where the size was rounded down.
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
    """The positions of new elements with the first and the last ones aligned."""
    return np.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0.0)


def scaled_positions(size: int, count: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """The positions of new elements: with aligned corners, by pixel centres, or at position * old / new."""
    if align_corners:
        return aligned_positions(size, count)
    shift = 0.5 if half_pixel_centers else 0.0
    return np.asarray((np.arange(count) + shift) * (size / count) - shift)


def picked(x: Tensor, axis: int, positions: Array) -> Tensor:
    """Elements by position; by repetition if all are repeated equally often, as its gradient is a sum."""
    times = len(positions) // x.shape[axis]
    if not np.array_equal(positions, np.repeat(np.arange(x.shape[axis]), times)):
        return gather(x, Tensor(positions), axis)
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    wide = broadcast_to(reshape(x, (*before, 1, *after)), (*before, times, *after))
    return reshape(wide, (*before[:-1], len(positions), *after))


def linear(where: Array, size: int) -> Taps:
    """The two neighbours of each position with linear weights; negative positions count as 0."""
    where = np.maximum(where, 0.0)
    low = np.minimum(where.astype(np.int64), size - 1)
    part = np.where(low < size - 1, where - low, 0.0)
    return [(low, 1 - part), (np.minimum(low + 1, size - 1), part)]


def cubic(where: Array, size: int, a: float = -0.75) -> Taps:
    """The four neighbours of each position with the weights of Keys' cubic (1981), `a` as in MindSpore and PyTorch."""
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
    for positions, weights in taps:
        if not weights.any():
            continue
        column = weights.reshape(-1, *[1] * (x.ndim - axis - 1)).astype(x.dtype.numpy)
        term = gather(x, Tensor(positions), axis) * Tensor(column, x.dtype)
        total = term if total is None else total + term
    assert total is not None
    return total


@cell("PixelShuffle", "upscale_factor", checks={"upscale_factor": positive_int}, shown="upscale_factor")
@operation(also="mint.nn.functional")
def pixel_shuffle(input: TensorLike, upscale_factor: int) -> Tensor:
    """Channels as pixels: (..., C * r * r, H, W) to (..., C, H * r, W * r), for r = `upscale_factor`.

    Raises GraphTypeError and GraphValueError where the sizes do not fit.
    """
    x, r = _shuffled("pixel_shuffle", input, upscale_factor)
    *batch, channels, height, width = x.shape
    if channels % (r * r):
        raise GraphValueError(f"pixel_shuffle cannot make {r} x {r} pixels of {channels} channels.")
    x = reshape(x, (math.prod(batch), channels // (r * r), r, r, height, width))
    return reshape(transpose(x, (0, 1, 4, 2, 5, 3)), (*batch, channels // (r * r), height * r, width * r))


@cell("PixelUnshuffle", "downscale_factor", checks={"downscale_factor": positive_int}, shown="downscale_factor")
@operation
def pixel_unshuffle(input: TensorLike, downscale_factor: int) -> Tensor:
    """Pixels as channels: (..., C, H * r, W * r) to (..., C * r * r, H, W), for r = `downscale_factor`.

    Raises GraphTypeError and GraphValueError where the sizes do not fit.
    """
    x, r = _shuffled("pixel_unshuffle", input, downscale_factor)
    *batch, channels, height, width = x.shape
    if height % r or width % r:
        raise GraphValueError(f"pixel_unshuffle cannot cut {height} x {width} pixels by {r}.")
    x = reshape(x, (math.prod(batch), channels, height // r, r, width // r, r))
    return reshape(transpose(x, (0, 1, 3, 5, 2, 4)), (*batch, channels * r * r, height // r, width // r))


def _shuffled(name: str, x: TensorLike, factor: TensorLike) -> tuple[Tensor, int]:
    x = tensor_of(x)
    if isinstance(factor, bool) or not isinstance(factor, int):
        raise GraphTypeError(f"{name} takes an integer factor, not {factor!r}.")
    if factor < 1 or x.ndim < 3:
        raise GraphValueError(f"{name} takes images of rank 3 or more and a factor of 1 or more, not {x.type} "
                              f"and {factor}.")  # fmt: skip
    return x, factor


Along = Callable[[Tensor, int, int], Tensor]


def _resized(name: str, images: TensorLike, size: Sizes, along: Along, first_axis: int = 2) -> Tensor:
    """Images resized along one axis after the other; raises GraphValueError where rank or sizes do not fit."""
    x, sizes = float_of(images), shape_of(size)
    if x.ndim != 4 or 0 in x.shape or len(sizes) != 2 or min(sizes) < 1:
        message = f"{name} takes images with pixels of rank 4 and two sizes of 1 or more, not {x.type} and {sizes}."
        raise GraphValueError(message)
    for axis, count in enumerate(sizes, first_axis):
        x = along(x, axis, count)
    return x


def _check_alignment(name: str, align_corners: bool, half_pixel_centers: bool) -> None:
    if align_corners and half_pixel_centers:
        raise GraphValueError(f"{name} takes 'align_corners' or 'half_pixel_centers', not both.")


@operator_class("ResizeBilinearV2", "align_corners half_pixel_centers")
def _bilinear(image: TensorLike, size: Sizes, align_corners: bool = False, half_pixel_centers: bool = False) -> Tensor:
    """Images (N, C, H, W) resized to two sizes by bilinear interpolation; see `nn.ResizeBilinear`."""
    _check_alignment("ResizeBilinearV2", align_corners, half_pixel_centers)

    def along(x: Tensor, axis: int, count: int) -> Tensor:
        n = x.shape[axis]
        return weighted(x, axis, linear(scaled_positions(n, count, align_corners, half_pixel_centers), n))

    return _resized("ResizeBilinearV2", image, size, along)


@operator_class("ResizeBicubic", "align_corners half_pixel_centers")
def _bicubic(image: TensorLike, size: Sizes, align_corners: bool = False, half_pixel_centers: bool = False) -> Tensor:
    """Images (N, C, H, W) resized to two sizes by bicubic interpolation.

    Keys' cubic (1981) with a = -0.75 and repeated edges; with `half_pixel_centers` a = -0.5, and the weights of
    positions outside are left out.
    """
    _check_alignment("ResizeBicubic", align_corners, half_pixel_centers)

    def along(x: Tensor, axis: int, count: int) -> Tensor:
        n = x.shape[axis]
        where = scaled_positions(n, count, align_corners, half_pixel_centers)
        return weighted(x, axis, _inside(where, n) if half_pixel_centers else cubic(where, n))

    return _resized("ResizeBicubic", image, size, along)


def _inside(where: Array, size: int) -> list[tuple[Array, Array]]:
    low, taps = np.floor(where).astype(np.int64), cubic(where, size, -0.5)
    inner_weights = [w * ((low + k >= 0) & (low + k < size)) for k, (_, w) in zip((-1, 0, 1, 2), taps, strict=True)]
    total = np.sum(inner_weights, axis=0)
    return [(positions, w / total) for (positions, _), w in zip(taps, inner_weights, strict=True)]


@operator_class("ResizeNearestNeighborV2", "align_corners half_pixel_centers")
def _nearest(image: TensorLike, size: Sizes, align_corners: bool = False, half_pixel_centers: bool = False) -> Tensor:
    """Images (N, C, H, W) resized to two sizes by the nearest pixels."""
    _check_alignment("ResizeNearestNeighbor", align_corners, half_pixel_centers)

    def along(x: Tensor, axis: int, count: int) -> Tensor:
        n, numbers = x.shape[axis], np.arange(count)
        if align_corners:
            return picked(x, axis, np.floor(scaled_positions(n, count, True, False) + 0.5).astype(np.int64))
        positions = (2 * numbers + 1) * n // (2 * count) if half_pixel_centers else numbers * n // count
        return picked(x, axis, positions)

    return _resized("ResizeNearestNeighbor", image, size, along)


@operator_class("ResizeNearestNeighbor", "size align_corners half_pixel_centers", like=_nearest)
def _nearest_to(
    input_x: TensorLike, size: Sizes, align_corners: bool = False, half_pixel_centers: bool = False
) -> Tensor:
    return _nearest(input_x, size, align_corners, half_pixel_centers)


@operator_class("ResizeArea", "align_corners")
def _area(images: TensorLike, size: Sizes, align_corners: bool = False) -> Tensor:
    """Images (N, H, W, C) resized to two sizes by the means of the areas of new pixels; float32."""

    def along(x: Tensor, axis: int, count: int) -> Tensor:
        n = x.shape[axis]
        scale = (n - 1) / (count - 1) if align_corners and count > 1 else n / count
        starts = np.arange(count) * scale
        first = np.floor(starts).astype(np.int64)
        shares = [np.minimum(first + k + 1, starts + scale) - np.maximum(first + k, starts)
                  for k in range(int(np.ceil(scale)) + 1)]  # fmt: skip
        taps = [(np.minimum(first + k, n - 1), np.maximum(share, 0) / scale) for k, share in enumerate(shares)]
        return weighted(x, axis, taps)

    return cast(_resized("ResizeArea", images, size, along, first_axis=1), float32)


@operator_class("ResizeLinear1D", "coordinate_transformation_mode")
def _linear(x: TensorLike, size: Sizes, coordinate_transformation_mode: str = "align_corners") -> Tensor:
    """Sequences (N, C, L) resized to a length, with the ends or, "half_pixel", the centres of elements aligned."""
    mode = coordinate_transformation_mode
    if mode not in ("align_corners", "half_pixel"):
        message = f"'coordinate_transformation_mode' is 'align_corners' or 'half_pixel', not {mode!r}."
        raise GraphValueError(message)
    return interpolate(x, shape_of(size), None, "linear", mode == "align_corners")


@operator_class("UpsampleNearest3D")
def _upsample_nearest(x: TensorLike, output_size: Any = None, scales: Any = None) -> Tensor:
    """Volumes (N, C, D, H, W) resized to sizes, or by factors, by the nearest elements."""
    return interpolate(x, output_size, scales, "nearest")


@operator_class("UpsampleTrilinear3D", "align_corners")
def _upsample_trilinear(
    x: TensorLike, output_size: Any = None, scales: Any = None, align_corners: bool = False
) -> Tensor:
    """Volumes (N, C, D, H, W) resized to sizes, or by factors, by trilinear interpolation."""
    return interpolate(x, output_size, scales, "trilinear", align_corners)


Colour = tuple[Tensor, Tensor, Tensor]


def _parts(x: Tensor) -> Colour:
    if not x.ndim or x.shape[-1] != 3 or not x.dtype.is_float:
        raise GraphValueError(f"Colours are three floats along the last axis, not {x.type}.")
    return gather(x, 0, -1), gather(x, 1, -1), gather(x, 2, -1)


def _hue_saturation_value(r: Tensor, g: Tensor, b: Tensor) -> Colour:
    value, least = maximum(maximum(r, g), b), minimum(minimum(r, g), b)
    spread = value - least
    safe = where(spread > 0.0, spread, 1.0)
    by_red, by_green, by_blue = (g - b) / safe, (b - r) / safe + 2.0, (r - g) / safe + 4.0
    sixths = where(value == r, by_red, where(value == g, by_green, by_blue))
    hue = where(spread > 0.0, sixths % 6.0 / 6.0, 0.0)
    saturation = where(value > 0.0, spread / where(value > 0.0, value, 1.0), 0.0)
    return hue, saturation, value


def _red_green_blue(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    sixths = (hue - floor(hue)) * 6.0
    corners = (
        absolute(sixths - 3.0) - 1.0, 2.0 - absolute(sixths - 2.0), 2.0 - absolute(sixths - 4.0)
    )  # fmt: skip
    missing = (sub(1.0, clip_by_value(corner, 0.0, 1.0)) for corner in corners)
    return stack([value * (1.0 - saturation * part) for part in missing], -1)


@operator_class("RGBToHSV")
def _to_hsv(images: TensorLike) -> Tensor:
    """Hue, saturation and value of red, green and blue along the last axis; the hue goes from 0 to 1."""
    return in_single(lambda x: stack(_hue_saturation_value(*_parts(x)), -1), images)


@operator_class("HSVToRGB")
def _to_rgb(images: TensorLike) -> Tensor:
    """Red, green and blue of hue, saturation and value along the last axis."""
    return in_single(lambda x: _red_green_blue(*_parts(x)), images)


@operator_class("AdjustHue")
def _adjust_hue(image: TensorLike, delta: TensorLike) -> Tensor:
    """Colours along the last axis with their hue shifted by `delta`, where 1 is a full turn."""

    def adjusted(x: Tensor) -> Tensor:
        hue, saturation, value = _hue_saturation_value(*_parts(x))
        return _red_green_blue(add(hue, delta), saturation, value)

    return in_single(adjusted, image)


@operator_class("AdjustSaturation")
def _adjust_saturation(image: TensorLike, scale: TensorLike) -> Tensor:
    """Colours along the last axis with their saturation times `scale`, clipped to [0, 1]."""

    def adjusted(x: Tensor) -> Tensor:
        hue, saturation, value = _hue_saturation_value(*_parts(x))
        return _red_green_blue(hue, clip_by_value(mul(saturation, scale), 0.0, 1.0), value)

    return in_single(adjusted, image)
