"""Images sampled at arbitrary points: affine grids, crops of boxes, features of regions; and functions of boxes."""

from __future__ import annotations

import math
from itertools import product
from math import prod
from typing import Any

import numpy as np

from graphls.base.checks import integer, number, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32, int32, int64
from graphls.ops.arrays.creation import arange
from graphls.ops.arrays.shapes import check_range, cut, expand_dims, gather, reshape, squeeze, stack, transpose
from graphls.ops.math.arithmetic import div_no_nan
from graphls.ops.math.elementwise import (
    abs,
    addn,
    cast,
    clip_by_value,
    exp,
    floor,
    log,
    logical_and,
    maximum,
    minimum,
    round,
    where,
)
from graphls.ops.math.reductions import mean
from graphls.ops.operands import Sizes, float_of, floats, in_graph, in_single, shape_of, tensor_of
from graphls.ops.record import operation, operator_class
from graphls.ops.state import stop_gradient

MODES = ("bilinear", "nearest")
PADDINGS = ("zeros", "border", "reflection")


@operation(classes="AffineGrid", settings="align_corners")
def affine_grid(theta: TensorLike, size: Sizes, align_corners: bool = False) -> Tensor:
    """The grid of points for `grid_sample` that transforms images by the affine maps `theta`.

    Matrices (N, 2, 3) and a size (N, C, H, W) give points (N, H, W, 2); (N, 3, 4) and (N, C, D, H, W) give
    (N, D, H, W, 3). Raises GraphValueError for other shapes.
    """
    matrices, sizes = float_of(theta), shape_of(size)
    axes = len(sizes) - 2
    if axes not in (2, 3) or matrices.shape != (sizes[0], axes, axes + 1) or min(sizes) < 1:
        message = f"affine_grid cannot map points of {sizes} by {matrices.type}."
        raise GraphValueError(message)
    return in_single(lambda m: _mapped(m, sizes[2:], bool(align_corners)), matrices)


def _mapped(matrices: Tensor, sizes: tuple[int, ...], align_corners: bool) -> Tensor:
    """The matrices applied to coordinates; the first column belongs to the last axis."""
    axes = len(sizes)
    columns = [reshape(cut(matrices, 2, i, i + 1), (-1, *[1] * axes, axes)) for i in range(axes + 1)]
    terms = columns[-1]
    for i, count in enumerate(reversed(sizes)):
        positions = cast(in_graph(arange(count)), matrices.dtype)
        if align_corners:
            spread = (positions - (count - 1) / 2) * (2 / max(count - 1, 1))
        else:
            spread = (positions - (count - 1) / 2) * (2 / count)
        terms = terms + reshape(spread, (-1, *[1] * (i + 1))) * columns[i]
    return terms


@operation(also="mint.nn.functional")
def grid_sample(
    input: TensorLike, grid: TensorLike, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Images (N, C, H, W) at points (N, h, w, 2), or volumes (N, C, D, H, W) at points (N, d, h, w, 3).

    A point is (x, y) or (x, y, z), from -1 to 1 across the image: from corner to corner or, with `align_corners`,
    between the centres of the outermost elements. "bilinear" weighs all neighbours, "nearest" selects one. Outside, the
    image is zero for "zeros", the nearest element for "border", and mirrored for "reflection". A nan is outside. Raises
    GraphValueError for another mode and for shapes that do not fit.
    """
    x, points = floats(input, grid)
    for name, value, known in (("mode", mode, MODES), ("padding_mode", padding_mode, PADDINGS)):
        if value not in known:
            listed = ", ".join(map(repr, known))
            raise GraphValueError(f"The {name!r} of grid_sample is one of {listed}, not {value!r}.")
    if align_corners is not None and not isinstance(align_corners, bool):
        raise GraphTypeError(f"'align_corners' is a bool or None, not {align_corners!r}.")
    axes = x.ndim - 2
    if axes not in (2, 3) or points.shape != (x.shape[0], *points.shape[1:-1], axes) or points.ndim != x.ndim:
        message = f"grid_sample cannot sample {x.type} at points {points.type}."
        raise GraphValueError(message)
    if 0 in x.shape[2:]:
        raise GraphValueError(f"grid_sample takes images with elements, not {x.type}.")
    return in_single(lambda x, p: _sampled(x, p, mode, padding_mode, bool(align_corners)), x, points)


def _sampled(x: Tensor, points: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    n, channels, *sizes = x.shape
    count = prod(points.shape[1:-1])
    flat = reshape(points, (n, count, len(sizes)))
    positions: list[Tensor] = []
    for i, size in enumerate(reversed(sizes)):
        position = reshape(cut(flat, 2, i, i + 1), (n, count))
        positions.insert(0, _inside(_scaled(position, size, align_corners), size, padding_mode, align_corners))
    rows = reshape(transpose(x, (0, *range(2, x.ndim), 1)), (n * prod(sizes), channels))
    samples = _nearest(rows, positions, sizes) if mode == "nearest" else _weighted(rows, positions, sizes)
    return reshape(transpose(samples, (0, 2, 1)), (n, channels, *points.shape[1:-1]))


def _scaled(points: Tensor, size: int, align_corners: bool) -> Tensor:
    """Coordinates from -1 to 1 as positions of elements."""
    return points * (((size - 1) if align_corners else size) / 2) + (size - 1) / 2


def _inside(positions: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Positions clipped or mirrored onto the image; for "zeros", clipped to just outside of it."""
    if padding_mode == "zeros":
        return between(positions, -2.0, size + 1.0)
    if padding_mode == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        # A triangle wave of the period 2 * span mirrors positions beyond an edge.
        wave = span - abs((positions - low) % (2 * span) - span) if span else positions * 0.0
        positions = wave + low if span else wave
    return between(positions, 0.0, size - 1.0)


def between(positions: Tensor, low: float, high: float) -> Tensor:
    """Positions clipped to two bounds, a nan to the lower one; clipped positions have no gradient."""
    positions = where(positions > low, positions, low)
    return where(positions < high, positions, high)


def _nearest(rows: Tensor, positions: list[Tensor], sizes: list[int]) -> Tensor:
    return _picked(rows, [cast(round(position), int64) for position in positions], sizes)


def _weighted(rows: Tensor, positions: list[Tensor], sizes: list[int]) -> Tensor:
    """The sum over all neighbours of a position, times their weights."""
    lows = [floor(position) for position in positions]
    shares = [position - low for position, low in zip(positions, lows, strict=True)]
    terms = []
    for corner in product((0, 1), repeat=len(sizes)):
        share = None
        for is_high, part in zip(corner, shares, strict=True):
            own = part if is_high else 1.0 - part
            share = own if share is None else share * own
        assert share is not None
        corners = [cast(low + float(step), int64) for low, step in zip(lows, corner, strict=True)]
        terms.append(_picked(rows, corners, sizes) * expand_dims(share, -1))
    return addn(terms)


def _picked(rows: Tensor, positions: list[Tensor], sizes: list[int]) -> Tensor:
    """The elements (N, points, C) at integer positions; zeros outside of the image."""
    number = reshape(in_graph(arange(positions[0].shape[0])), (-1, 1)) * prod(sizes)
    inside = None
    for i, (position, size) in enumerate(zip(positions, sizes, strict=True)):
        known = (position >= 0) & (position <= size - 1)
        inside = known if inside is None else logical_and(inside, known)
        number = number + maximum(minimum(position, size - 1), 0) * prod(sizes[i + 1 :])
    assert inside is not None
    return where(expand_dims(inside, -1), gather(rows, number, 0), 0.0)


@operator_class(
    "GridSampler2D GridSampler3D",
    "interpolation_mode padding_mode align_corners",
    defaults={"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False},
)
def _sampled_operator(
    input_x: Any, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any
) -> Tensor:
    """Images or volumes at points, see `grid_sample`."""
    return grid_sample(input_x, grid, interpolation_mode, padding_mode, align_corners)


METHODS = ("bilinear", "nearest")


@operation(classes="BoundingBoxEncode", settings="means stds")
def bounding_box_encode(
    anchor_box: TensorLike, groundtruth_box: TensorLike, means: TensorLike = (0.0, 0.0, 0.0, 0.0),
    stds: TensorLike = (1.0, 1.0, 1.0, 1.0),
) -> Tensor:  # fmt: skip
    """Boxes (N, 4) of (x0, y0, x1, y1) relative to anchors: (dx, dy, log of the widths, log of the heights).

    dx and dy are the distances of the centres, divided by the size of the anchor; a box from 2 to 3 is two wide.
    `means` are subtracted, then `stds` divide. From Girshick et al. (2014), as in MindSpore. Raises GraphTypeError
    unless means and stds are tuples of four numbers, GraphValueError for other shapes.
    """
    name = "bounding_box_encode"
    codes = _four(name, "means", means), _four(name, "stds", stds)

    def encoded(anchors: Tensor, boxes: Tensor) -> Tensor:
        (px, py, pw, ph), (gx, gy, gw, gh) = _centred(anchors), _centred(boxes)
        deltas = ((gx - px) / pw, (gy - py) / ph, log(gw / pw), log(gh / ph))
        return stack([(d - m) / s for d, m, s in zip(deltas, *codes, strict=True)], -1)

    return in_single(encoded, *_boxes(name, anchor_box, groundtruth_box))


@operation(classes="BoundingBoxDecode", settings="max_shape means stds wh_ratio_clip")
def bounding_box_decode(
    anchor_box: TensorLike, deltas: TensorLike, max_shape: TensorLike, means: TensorLike = (0.0, 0.0, 0.0, 0.0),
    stds: TensorLike = (1.0, 1.0, 1.0, 1.0), wh_ratio_clip: float = 0.016,
) -> Tensor:  # fmt: skip
    """The inverse of `bounding_box_encode`: boxes (N, 4) of (x0, y0, x1, y1) from anchors and deltas.

    They are clipped to the image of the height and width `max_shape`, and the logarithms of sizes to
    |log(wh_ratio_clip)|. Raises as `bounding_box_encode`, and GraphValueError for a `max_shape` that is not two numbers
    and a `wh_ratio_clip` that is not above 0.
    """
    name = "bounding_box_decode"
    codes = _four(name, "stds", stds), _four(name, "means", means)
    limits = _numbers(name, "max_shape", max_shape, 2)
    if number(name, "wh_ratio_clip", wh_ratio_clip) <= 0:
        raise GraphValueError(f"The 'wh_ratio_clip' is above 0, not {wh_ratio_clip}.")
    most = abs(math.log(wh_ratio_clip))

    def decoded(anchors: Tensor, deltas: Tensor) -> Tensor:
        px, py, pw, ph = _centred(anchors)
        dx, dy, dw, dh = (d * s + m for d, s, m in zip(columns_of(deltas), *codes, strict=True))
        ends = []
        for p, size, d, log_size, limit in ((px, pw, dx, dw, limits[1]), (py, ph, dy, dh, limits[0])):
            half = size * exp(clip_by_value(log_size, -most, most)) * 0.5 - 0.5
            centre = p + size * d
            ends.append([clip_by_value(end, 0.0, limit - 1) for end in (centre - half, centre + half)])
        return stack([ends[0][0], ends[1][0], ends[0][1], ends[1][1]], -1)

    return in_single(decoded, *_boxes(name, anchor_box, deltas))


@operation(classes="CheckValid")
def check_valid(bboxes: TensorLike, img_metas: TensorLike) -> Tensor:
    """True where boxes (N, 4) of (x0, y0, x1, y1) are inside of an image, given as (height, width, ratio).

    x goes from 0 to width * ratio - 1, y to height * ratio - 1. Raises GraphValueError for other shapes.
    """
    boxes, metas = (cast(t, float32) if t.dtype.is_half else t for t in floats(bboxes, img_metas))
    if boxes.ndim != 2 or boxes.shape[1] != 4 or metas.shape != (3,):
        message = f"check_valid takes boxes (N, 4) and three numbers, not {boxes.type} and {metas.type}."
        raise GraphValueError(message)
    x0, y0, x1, y1 = columns_of(boxes)
    bottom, right = (metas[i] * metas[2] - 1.0 for i in range(2))
    starts = (x0 >= 0.0) & (y0 >= 0.0)
    return starts & ((x1 <= right) & (y1 <= bottom))


def _boxes(name: str, first: TensorLike, second: TensorLike) -> tuple[Tensor, ...]:
    pair = floats(first, second)
    if pair[0].ndim != 2 or pair[0].shape[1] != 4 or pair[1].shape != pair[0].shape:
        message = f"{name} takes boxes (N, 4) of one shape, not {pair[0].type} and {pair[1].type}."
        raise GraphValueError(message)
    return pair


def columns_of(boxes: Tensor) -> list[Tensor]:
    return [squeeze(cut(boxes, 1, i, i + 1), 1) for i in range(4)]


def _centred(boxes: Tensor) -> tuple[Tensor, ...]:
    """The centres of boxes, x and y, and their widths and heights."""
    x0, y0, x1, y1 = columns_of(boxes)
    centres = (x0 + x1) * 0.5, (y0 + y1) * 0.5
    return *centres, x1 - x0 + 1.0, y1 - y0 + 1.0


def _four(name: str, argument: str, values: TensorLike) -> list[float]:
    return _numbers(name, argument, values, 4)


def _numbers(name: str, argument: str, values: TensorLike, count: int) -> list[float]:
    if not isinstance(values, (tuple, list)) or len(values) != count:
        text = f"For {name!r}, the {argument!r} must be a tuple of {count} numbers, but got {values!r}."
        raise GraphTypeError(text)
    return [number(name, argument, value) for value in values]


@operation(classes="CropAndResize", settings="method extrapolation_value")
def crop_and_resize(
    image: TensorLike, boxes: TensorLike, box_indices: TensorLike, crop_size: TensorLike, method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Crops of images (N, H, W, C) by boxes, each resized to `crop_size`: float32 (boxes, height, width, C).

    Boxes (boxes, 4) are (y0, x0, y1, x1), from 0 to 1 across the centres of the outermost pixels; a larger first
    coordinate mirrors the crop. `box_indices` are the images of the boxes. "bilinear" weighs four pixels, "nearest"
    selects one; points outside of the image are `extrapolation_value`. Raises GraphTypeError and GraphValueError for
    arguments that do not fit, GraphIndexError for a constant index out of range.
    """
    name = "crop_and_resize"
    x, corners, numbers = cast(tensor_of(image), float32), cast(float_of(boxes), float32), tensor_of(box_indices)
    height, width = _crop_sizes(name, x, corners, numbers, crop_size, method)
    outside = number(name, "extrapolation_value", extrapolation_value)
    check_range(x, numbers, 0)
    y0, x0, y1, x1 = columns_of(corners)
    rows, columns = _crop_positions(y0, y1, x.shape[1], height), _crop_positions(x0, x1, x.shape[2], width)
    crops = cropped(x, expand_dims(cast(numbers, int64), -1), rows, columns, method)
    inside = logical_and(expand_dims(_is_inside(rows, x.shape[1]), 2), expand_dims(_is_inside(columns, x.shape[2]), 1))
    return where(expand_dims(inside, -1), crops, outside)


def _crop_sizes(
    name: str, x: Tensor, boxes: Tensor, numbers: Tensor, crop_size: TensorLike, method: TensorLike
) -> tuple[int, int]:
    if method not in METHODS:
        raise GraphValueError(f"The 'method' of {name} is 'bilinear' or 'nearest', not {method!r}.")
    sizes = shape_of(crop_size)
    if numbers.dtype not in (int32, int64):
        raise GraphTypeError(f"{name} takes int32 or int64 indices of images, not {numbers.type}.")
    fits = x.ndim == 4 and boxes.ndim == 2 and boxes.shape[1:] == (4,) and numbers.shape == boxes.shape[:1]
    if not fits or len(sizes) != 2 or min(sizes) < 1 or 0 in x.shape[1:3]:
        message = f"{name} cannot make crops of {crop_size} of {x.type} by {boxes.type} and {numbers.type}."
        raise GraphValueError(message)
    return sizes[0], sizes[1]


def _crop_positions(first: Tensor, last: Tensor, size: int, count: int) -> Tensor:
    """The positions in the image of each row or column of the crops: (boxes, count)."""
    if count == 1:
        return expand_dims((first + last) * (0.5 * (size - 1)), 1)
    steps = cast(in_graph(arange(count)), first.dtype) * ((size - 1) / (count - 1))
    return expand_dims(first * float(size - 1), 1) + expand_dims(last - first, 1) * steps


def _is_inside(positions: Tensor, size: int) -> Tensor:
    return (positions >= 0.0) & (positions <= float(size - 1))


def cropped(x: Tensor, numbers: Tensor, rows: Tensor, columns: Tensor, method: str) -> Tensor:
    def pixels(row: Tensor, column: Tensor) -> Tensor:
        lines = numbers * x.shape[1] + row
        positions = expand_dims(lines * x.shape[2], 2) + expand_dims(column, 1)
        return gather(reshape(x, (-1, x.shape[3])), positions, 0)

    if method == "nearest":
        return pixels(_rounded_down(rows + 0.5, x.shape[1]), _rounded_down(columns + 0.5, x.shape[2]))
    top, left = _rounded_down(rows, x.shape[1]), _rounded_down(columns, x.shape[2])
    down, right = minimum(top + 1, x.shape[1] - 1), minimum(left + 1, x.shape[2] - 1)
    along = reshape(columns - cast(left, columns.dtype), (columns.shape[0], 1, -1, 1))
    upper, lower = (pixels(row, left) * (1.0 - along) + pixels(row, right) * along for row in (top, down))
    below = reshape(rows - cast(top, rows.dtype), (rows.shape[0], -1, 1, 1))
    return upper * (1.0 - below) + lower * below


def _rounded_down(positions: Tensor, size: int) -> Tensor:
    """Positions rounded down, clipped to the image."""
    positive = where(positions >= 0.0, positions, 0.0)
    return cast(floor(maximum(minimum(positive, float(size - 1)), 0.0)), int64)


@operation(classes="IOU", settings="mode")
def iou(anchor_boxes: TensorLike, gt_boxes: TensorLike, mode: str = "iou") -> Tensor:
    """The intersection of boxes over their union, or with "iof" over the second ones; 0 without an area.

    The boxes (x0, y0, x1, y1) have shapes (n, 4) and (m, 4), the result (m, n). Raises GraphValueError for other shapes
    and modes.
    """
    anchors, truths = floats(anchor_boxes, gt_boxes)
    if any(boxes.ndim != 2 or boxes.shape[-1] != 4 for boxes in (anchors, truths)):
        raise GraphValueError(f"iou takes rows of four numbers, not {anchors.type} and {truths.type}.")
    if mode not in ("iou", "iof"):
        raise GraphValueError(f"The mode of iou is 'iou' or 'iof', not {mode!r}.")
    return in_single(lambda a, t: _overlap(expand_dims(a, 0), expand_dims(t, 1), mode), anchors, truths)


def _overlap(anchors: Tensor, truths: Tensor, mode: str) -> Tensor:
    (low, high), (other_low, other_high) = _corners(anchors), _corners(truths)
    overlap, area = _area(maximum(low, other_low), minimum(high, other_high)), _area(other_low, other_high)
    return div_no_nan(overlap, area if mode == "iof" else area + _area(low, high) - overlap)


def _corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    return cut(boxes, 2, 0, 2), cut(boxes, 2, 2, 4)


def _area(low: Tensor, high: Tensor) -> Tensor:
    """The areas of boxes by their corners; 0 where a side is negative."""
    sides = maximum(high - low, 0.0)
    return squeeze(cut(sides, 2, 0, 1) * cut(sides, 2, 1, 2), 2)


@operator_class("ROIAlign", "pooled_height pooled_width spatial_scale sample_num roi_end_mode")
def _roi_align(
    features: TensorLike, rois: TensorLike, pooled_height: int, pooled_width: int, spatial_scale: float,
    sample_num: int = 2, roi_end_mode: int = 1,
) -> Tensor:  # fmt: skip
    """The features (N, C, H, W) of regions, (regions, C, pooled_height, pooled_width): means of points in their bins.

    A region is a row of `rois`, (index of the image, x0, y0, x1, y1), which `spatial_scale` converts from pixels of the
    image to those of the features. Each bin has a grid of `sample_num` x `sample_num` points, interpolated bilinearly;
    points more than one pixel outside are 0. With the `roi_end_mode` 1, the corner (x1, y1) is one pixel further, and
    with 0 a region is at least one feature wide. Only the features have a gradient. From He et al., Mask R-CNN (2017).
    Raises GraphTypeError and GraphValueError for arguments that do not fit, GraphIndexError for a constant index of an
    image out of range.
    """
    name = "ROIAlign"
    x, regions = float_of(features), stop_gradient(float_of(rois))
    _check_regions(name, x, regions)
    height, width, samples = (
        positive_int(name, key, value)
        for key, value in (("pooled_height", pooled_height), ("pooled_width", pooled_width), ("sample_num", sample_num))
    )
    if integer(name, "roi_end_mode", roi_end_mode) not in (0, 1):
        raise GraphValueError(f"The 'roi_end_mode' of {name} is 0 or 1, not {roi_end_mode}.")
    scale = number(name, "spatial_scale", spatial_scale)
    images = cast(cut(regions, 1, 0, 1), int64)
    check_range(x, images, 0)
    wide = float32 if x.dtype.is_half else x.dtype
    x0, y0, x1, y1 = columns_of(cast(cut(regions, 1, 1, 5), wide))
    rows = _points(y0, y1, scale, height * samples, roi_end_mode == 1)
    columns = _points(x0, x1, scale, width * samples, roi_end_mode == 1)
    points = _at_points(transpose(cast(x, wide), (0, 2, 3, 1)), images, rows, columns)
    bins = reshape(points, (regions.shape[0], height, samples, width, samples, x.shape[1]))
    return cast(transpose(mean(bins, (2, 4)), (0, 3, 1, 2)), x.dtype)


def _check_regions(name: str, x: Tensor, regions: Tensor) -> None:
    if x.ndim != 4 or regions.ndim != 2 or regions.shape[1] != 5 or 0 in x.shape:
        message = f"{name} takes features (N, C, H, W) and regions (K, 5), not {x.type} and {regions.type}."
        raise GraphValueError(message)


def _points(first: Tensor, last: Tensor, scale: float, count: int, is_further: bool) -> Tensor:
    """The positions of the points of each region along an axis, (regions, points)."""
    start, end = first * scale, (last + 1.0 if is_further else last) * scale
    length = end - start if is_further else maximum(end - start, 1.0)
    steps = Tensor((np.arange(count) + 0.5) / count, start.dtype)
    return expand_dims(start, 1) + expand_dims(length, 1) * steps


def _at_points(x: Tensor, images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The interpolated features (N, H, W, C) at each row and column of a region: (regions, rows, columns, C)."""
    clipped, is_inside = [], []
    for positions, size in ((rows, x.shape[1]), (columns, x.shape[2])):
        is_inside.append((positions >= -1.0) & (positions <= float(size)))
        clipped.append(between(positions, 0.0, size - 1.0))
    inside = logical_and(expand_dims(is_inside[0], 2), expand_dims(is_inside[1], 1))
    return where(expand_dims(inside, 3), cropped(x, images, clipped[0], clipped[1], "bilinear"), 0.0)
