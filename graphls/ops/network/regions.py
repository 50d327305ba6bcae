"""Features of regions of images, sampled in a grid of each region."""

from __future__ import annotations

import numpy as np

from graphls.base.checks import integer, number, positive_int
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32, int64
from graphls.ops.arrays.shapes import check_range, cut, expand_dims, reshape, transpose
from graphls.ops.math.elementwise import cast, logical_and, maximum, where
from graphls.ops.math.reductions import mean
from graphls.ops.network.sampling import between, columns_of, cropped
from graphls.ops.operands import float_of
from graphls.ops.record import operator_class
from graphls.ops.state import stop_gradient


@operator_class("ROIAlign", "pooled_height pooled_width spatial_scale sample_num roi_end_mode")
def _roi_align(
    features: TensorLike, rois: TensorLike, pooled_height: int, pooled_width: int, spatial_scale: float,
    sample_num: int = 2, roi_end_mode: int = 1,
) -> Tensor:  # fmt: skip
    """The features (N, C, H, W) of each region, (regions, C, pooled_height, pooled_width): means of points in its bins.

    A region is a row of `rois`, (number of the image, x0, y0, x1, y1), in which `spatial_scale` turns pixels of the
    image into those of the features. Each bin has `sample_num` times as many points, between four features each, and
    a point more than one pixel outside is 0. With the `roi_end_mode` 1, the corner (x1, y1) is a pixel further, and
    with 0 a region is at least one feature wide. There is a gradient by the features alone. From He et al., Mask R-CNN
    (2017). Raises GraphTypeError and GraphValueError for arguments that do not fit, GraphIndexError for a number of an
    image that is known and out of range.
    """
    name = "ROIAlign"
    x, regions = float_of(features), stop_gradient(float_of(rois))
    _check(name, x, regions)
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


def _check(name: str, x: Tensor, regions: Tensor) -> None:
    if x.ndim != 4 or regions.ndim != 2 or regions.shape[1] != 5 or 0 in x.shape:
        message = f"{name} takes features (N, C, H, W) and regions (K, 5), not {x.type} and {regions.type}."
        raise GraphValueError(message)


def _points(first: Tensor, last: Tensor, scale: float, count: int, is_further: bool) -> Tensor:
    """Where the points of each region lie along an axis, (regions, points)."""
    start, end = first * scale, (last + 1.0 if is_further else last) * scale
    length = end - start if is_further else maximum(end - start, 1.0)
    steps = Tensor((np.arange(count) + 0.5) / count, start.dtype)
    return expand_dims(start, 1) + expand_dims(length, 1) * steps


def _at_points(x: Tensor, images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The features (N, H, W, C) between four others at each row and column of a region: (regions, rows, columns, C)."""
    places, known = [], []
    for positions, size in ((rows, x.shape[1]), (columns, x.shape[2])):
        known.append((positions >= -1.0) & (positions <= float(size)))
        places.append(between(positions, 0.0, size - 1.0))
    inside = logical_and(expand_dims(known[0], 2), expand_dims(known[1], 1))
    return where(expand_dims(inside, 3), cropped(x, images, places[0], places[1], "bilinear"), 0.0)
