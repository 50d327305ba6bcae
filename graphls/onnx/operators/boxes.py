"""Pooling of image regions given by boxes: RoiAlign and MaxRoiPool."""

from __future__ import annotations

from itertools import product

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.operators.sampling import elements
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Ints
from graphls.ops.operands import apply, tensor_of


@operator("RoiAlign")
def roi_align(
    x: Input, boxes: Input, numbers: Input, *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    if sampling_ratio < 1:
        raise GraphValueError("its number of sampling points depends on the box; export it with a sampling_ratio.")
    x, boxes = tensor_of(x), tensor_of(boxes)
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    rows = _points(boxes, 1, output_height, sampling_ratio, spatial_scale, shift)
    columns = _points(boxes, 0, output_width, sampling_ratio, spatial_scale, shift)
    images = ops.gather(x, ops.cast(numbers, "int64"), 0)
    grid = (images.shape[0], rows.shape[1], columns.shape[1])
    positions = [ops.broadcast_to(ops.expand_dims(rows, 2), grid), ops.broadcast_to(ops.expand_dims(columns, 1), grid)]
    terms = []
    pairs = [_clamped(position, size) for position, size in zip(positions, x.shape[2:], strict=True)]
    for corner in product(*(pair[0] for pair in pairs)):
        weight = ops.expand_dims(corner[0][1] * corner[1][1], 1)
        terms.append(elements(images, [position for position, _ in corner], "border", True) * weight)
    inside = ops.expand_dims(ops.logical_and(pairs[0][1], pairs[1][1]), 1)
    shape = (*images.shape[:2], output_height, sampling_ratio, output_width, sampling_ratio)
    if mode == "avg":
        total = ops.where(inside, terms[0] + terms[1] + terms[2] + terms[3], ops.zeros((), x.dtype))
        return ops.mean(ops.reshape(total, shape), (3, 5))
    largest = ops.maximum(ops.maximum(terms[0], terms[1]), ops.maximum(terms[2], terms[3]))
    largest = ops.where(inside, largest, ops.zeros((), x.dtype))
    return apply("max", ops.reshape(largest, shape), axis=(3, 5))


def _points(boxes: Tensor, at: int, count: int, each: int, scale: float, shift: float) -> Tensor:
    """The coordinates of the sampling points of each box along an axis, (boxes, points)."""
    low, high = boxes[:, at] * scale - shift, boxes[:, at + 2] * scale - shift
    length = high - low if shift else ops.maximum(high - low, 1.0)
    steps = Tensor(((np.arange(count * each) + 0.5) / (count * each)).astype(boxes.dtype.numpy))
    return ops.expand_dims(low, 1) + ops.expand_dims(length, 1) * steps


def _clamped(position: Tensor, size: int) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Both neighbours of a position with their weights, and whether it is at most one element outside of the image."""
    inside = ops.logical_and(ops.greater_equal(position, -1.0), ops.less_equal(position, float(size)))
    position = ops.clip_by_value(position, 0.0, size - 1.0)
    low = ops.floor(position)
    return [(low, 1 - (position - low)), (ops.minimum(low + 1, size - 1.0), position - low)], inside


@operator("MaxRoiPool")
def max_roi_pool(x: Input, boxes: Input, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Tensor:
    """The largest element of each bin of boxes (number of the image, x1, y1, x2, y2); 0 for an empty bin."""
    x, boxes = tensor_of(x), tensor_of(boxes)
    images = ops.gather(x, ops.cast(boxes[:, 0], "int64"), 0)
    corners = ops.floor(boxes[:, 1:] * spatial_scale + 0.5)
    for axis, (low, high) in ((2, (1, 3)), (3, (0, 2))):
        inside = _in_bins(corners[:, low], corners[:, high], pooled_shape[axis - 2], x.shape[axis])
        images = _largest(images, inside, axis)
    return ops.where(ops.equal(images, -np.inf), ops.zeros_like(images), images)


def _in_bins(low: Tensor, high: Tensor, count: int, size: int) -> Tensor:
    """Masks of the elements of an axis that are in each bin, (boxes, bins, elements)."""
    each = ops.reshape(ops.maximum(high - low + 1, 1.0) / count, (-1, 1))
    bins = Tensor(np.arange(count).astype(low.dtype.numpy))
    first = ops.expand_dims(ops.floor(bins * each) + ops.reshape(low, (-1, 1)), -1)
    last = ops.expand_dims(ops.ceil((bins + 1) * each) + ops.reshape(low, (-1, 1)), -1)
    positions = Tensor(np.arange(size).astype(low.dtype.numpy))
    return ops.logical_and(ops.greater_equal(positions, first), ops.less(positions, last))


def _largest(x: Tensor, inside: Tensor, axis: int) -> Tensor:
    """Images whose elements along an axis are replaced by the largest element in each bin."""
    wide = ops.expand_dims(ops.movedim(x, axis, -1), -2)
    column = ops.reshape(inside, (inside.shape[0], 1, 1, *inside.shape[1:]))
    masked = ops.where(column, wide, ops.cast(-np.inf, x.dtype))
    return ops.movedim(apply("max", masked, axis=(-1,)), -1, axis)
