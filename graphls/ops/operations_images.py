"""Operator classes of images in other sizes, or taken apart (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.ir.errors import GraphValueError
from graphls.ir.types import float32
from graphls.ops import batch_blocks, blocks, layers
from graphls.ops.elementwise import cast
from graphls.ops.operands import float_of, shape_of, tensor_of
from graphls.ops.record import operator_class
from graphls.ops.resize import cubic, interpolate, linear, picked, scaled_positions, weighted
from graphls.ops.shapes import reshape
from graphls.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]
Along = Callable[[Tensor, int, int], Tensor]


def _resized(name: str, images: Any, size: Any, along: Along, first_axis: int = 2) -> Tensor:
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
def _bilinear(image: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Tensor:
    """Images (N, C, H, W) resized to two sizes, between their four neighbours; see `nn.ResizeBilinear`."""
    _check_alignment("ResizeBilinearV2", align_corners, half_pixel_centers)

    def along(x: Tensor, axis: int, count: int) -> Tensor:
        n = x.shape[axis]
        return weighted(x, axis, linear(scaled_positions(n, count, align_corners, half_pixel_centers), n))

    return _resized("ResizeBilinearV2", image, size, along)


@operator_class("ResizeBicubic", "align_corners half_pixel_centers")
def _bicubic(image: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Tensor:
    """Images (N, C, H, W) resized to two sizes, between their sixteen neighbours.

    By Keys' cubic of 1981 with a = -0.75 and edges repeated; with `half_pixel_centers` with a = -0.5, and weights of
    what lies outside are left out of the mean.
    """
    _check_alignment("ResizeBicubic", align_corners, half_pixel_centers)

    def along(x: Tensor, axis: int, count: int) -> Tensor:
        n = x.shape[axis]
        where = scaled_positions(n, count, align_corners, half_pixel_centers)
        return weighted(x, axis, _inside(where, n) if half_pixel_centers else cubic(where, n))

    return _resized("ResizeBicubic", image, size, along)


def _inside(where: Array, size: int) -> list[tuple[Array, Array]]:
    low, taps = np.floor(where).astype(np.int64), cubic(where, size, -0.5)
    kept = [w * ((low + k >= 0) & (low + k < size)) for k, (_, w) in zip((-1, 0, 1, 2), taps, strict=True)]
    total = np.sum(kept, axis=0)
    return [(places, w / total) for (places, _), w in zip(taps, kept, strict=True)]


@operator_class("ResizeNearestNeighborV2", "align_corners half_pixel_centers")
def _nearest(image: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Tensor:
    """Images (N, C, H, W) resized to two sizes, each pixel that of the nearest position."""
    _check_alignment("ResizeNearestNeighbor", align_corners, half_pixel_centers)

    def along(x: Tensor, axis: int, count: int) -> Tensor:
        n, numbers = x.shape[axis], np.arange(count)
        if align_corners:
            return picked(x, axis, np.floor(scaled_positions(n, count, True, False) + 0.5).astype(np.int64))
        places = (2 * numbers + 1) * n // (2 * count) if half_pixel_centers else numbers * n // count
        return picked(x, axis, places)

    return _resized("ResizeNearestNeighbor", image, size, along)


@operator_class("ResizeNearestNeighbor", "size align_corners half_pixel_centers", like=_nearest)
def _nearest_to(input_x: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Tensor:
    return _nearest(input_x, size, align_corners, half_pixel_centers)


@operator_class("ResizeArea", "align_corners")
def _area(images: Any, size: Any, align_corners: bool = False) -> Tensor:
    """Images (N, H, W, C) resized to two sizes, each pixel the mean of the area that it covers; float32."""

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
def _linear(x: Any, size: Any, coordinate_transformation_mode: str = "align_corners") -> Tensor:
    """Sequences (N, C, L) resized to a length, with the ends or, "half_pixel", the centres of elements aligned."""
    mode = coordinate_transformation_mode
    if mode not in ("align_corners", "half_pixel"):
        message = f"'coordinate_transformation_mode' is 'align_corners' or 'half_pixel', not {mode!r}."
        raise GraphValueError(message)
    return interpolate(x, shape_of(size), None, "linear", mode == "align_corners")


@operator_class("UpsampleNearest3D")
def _upsample_nearest(x: Any, output_size: Any = None, scales: Any = None) -> Tensor:
    """Volumes (N, C, D, H, W) in other sizes, or by factors, each element that of the nearest position."""
    return interpolate(x, output_size, scales, "nearest")


@operator_class("UpsampleTrilinear3D", "align_corners")
def _upsample_trilinear(x: Any, output_size: Any = None, scales: Any = None, align_corners: bool = False) -> Tensor:
    """Volumes (N, C, D, H, W) in other sizes, or by factors, between their eight neighbours."""
    return interpolate(x, output_size, scales, "trilinear", align_corners)


@operator_class("Im2Col", "ksizes strides dilations pads")
def _columns(x: Any, ksizes: Any, strides: Any = 1, dilations: Any = 1, pads: Any = 0) -> Tensor:
    """The windows of images as columns: from (N, C, H, W) to (N, C, height * width of a window, windows)."""
    images = tensor_of(x)
    found = blocks.unfold(images, ksizes, dilations, pads, strides)
    return reshape(found, (*images.shape[:2], found.shape[1] // max(images.shape[1], 1), found.shape[2]))


@operator_class("Col2Im", "kernel_size dilation padding stride", like=batch_blocks.col2im)
def _of_columns(
    x: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    return batch_blocks.col2im(x, shape_of(output_size), kernel_size, dilation, padding, stride)


@operator_class("SpaceToBatch", "block_size paddings", like=batch_blocks.space_to_batch_nd)
def _space_to_batch(input_x: Any, block_size: int, paddings: Any) -> Tensor:
    return batch_blocks.space_to_batch_nd(input_x, block_size, paddings)


@operator_class("BatchToSpace", "block_size crops", like=batch_blocks.batch_to_space_nd)
def _batch_to_space(input_x: Any, block_size: int, crops: Any) -> Tensor:
    return batch_blocks.batch_to_space_nd(input_x, block_size, crops)


@operator_class("SpaceToBatchND", "block_shape paddings", like=batch_blocks.space_to_batch_nd)
def _space_to_batch_of(input_x: Any, block_shape: Any, paddings: Any) -> Tensor:
    return batch_blocks.space_to_batch_nd(input_x, block_shape, paddings)


@operator_class("ChannelShuffle", "group", like=layers.channel_shuffle)
def _shuffled(x: Any, group: int) -> Tensor:
    return layers.channel_shuffle(x, group)
