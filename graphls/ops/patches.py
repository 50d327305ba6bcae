"""The windows of images as slices: for each place in a window, the elements that stand there in all windows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.elementwise import add, maximum
from graphls.ops.movement import movedim
from graphls.ops.operands import apply, tensor_of
from graphls.ops.operations_convolution import are_last, as_given, channels_first, spatial
from graphls.ops.pads import pad
from graphls.ops.record import operator_class
from graphls.ops.shapes import concat, gather, reshape
from graphls.ops.windows import Sizes, pads_of, sizes_of
from graphls.tensors.tensor import Tensor


@operator_class("ExtractImagePatches", "ksizes strides rates padding")
def image_patches(input_x: Any, ksizes: Any, strides: Any, rates: Any, padding: str = "VALID") -> Tensor:
    """The windows of images (N, C, H, W) along the channels: (N, rows * columns * C, windows...).

    `ksizes`, `strides` and `rates`, the distances of pixels in a window, are two integers or [1, rows, columns, 1]. The
    padding is "VALID" or "SAME". Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    kernel, steps, distances = _sizes("ksizes", ksizes), _sizes("strides", strides), _sizes("rates", rates)
    return concat([*_patches("ExtractImagePatches", tensor_of(input_x), kernel, steps, distances, padding)], 1)


def _sizes(name: str, value: Any) -> Sizes:
    is_whole = isinstance(value, (tuple, list)) and len(value) == 4 and value[0] == value[3] == 1
    return sizes_of(name, value[1:3] if is_whole else value, 2)


@operator_class("ExtractVolumePatches", "kernel_size strides padding")
def volume_patches(input_x: Any, kernel_size: Any, strides: Any, padding: str) -> Tensor:
    """The windows of volumes (N, C, D, H, W) along the channels: (N, C * elements of a window, windows...).

    The padding is "VALID" or "SAME". Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    kernel, steps = sizes_of("kernel_size", spatial(kernel_size, 3), 3), sizes_of("strides", spatial(strides, 3), 3)
    return concat([*_patches("ExtractVolumePatches", tensor_of(input_x), kernel, steps, (1, 1, 1), padding)], 1)


@operator_class("Dilation2D", "stride dilation pad_mode data_format")
def dilation(
    x: Any, filter: Any, stride: Any, dilation: Any, pad_mode: str = "SAME", data_format: str = "NCHW"
) -> Tensor:
    """The largest sum of a window of images (N, C, H, W) and a filter (C, height, width): dilation of grey values.

    `dilation` is the distance of pixels in a window. Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    images, weights = channels_first(x, data_format, 2), tensor_of(filter)
    weights = movedim(weights, -1, 0) if are_last(data_format, 2) else weights
    if weights.ndim != 3 or weights.shape[0] != images.shape[1]:
        message = f"Dilation2D of images {images.type} takes a filter for each channel, not {weights.type}."
        raise GraphValueError(message)
    steps, distances = sizes_of("stride", spatial(stride, 2), 2), sizes_of("dilation", spatial(dilation, 2), 2)
    found = _patches("Dilation2D", images, weights.shape[1:], steps, distances, pad_mode, -np.inf)
    flat = reshape(weights, (weights.shape[0], 1, 1, -1))
    raised = (add(part, gather(flat, place, -1)) for place, part in enumerate(found))
    return as_given(reduce(maximum, raised), data_format, 2)


def _patches(
    name: str, x: Tensor, kernel: Sizes, strides: Sizes, dilations: Sizes, padding: str, fill: Any = None
) -> Iterator[Tensor]:
    """Images (N, C, windows...) for each place in a window, in row-major order; `fill` stands in the padding."""
    if x.ndim != len(kernel) + 2:
        raise GraphValueError(f"{name} takes images of rank {len(kernel) + 2}, not {x.type}.")
    if not isinstance(padding, str) or padding.lower() not in ("valid", "same"):
        raise GraphTypeError(f"The padding of {name} is 'VALID' or 'SAME', not {padding!r}.")
    pads = pads_of(x.shape, kernel, strides, padding.lower(), 0, dilations)
    sides = [*zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)]
    x = pad(x, [n for pair in sides[::-1] for n in pair], value=fill) if any(pads) else x
    reaches = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reaches, strides, strict=True)]
    if min(counts) < 1:
        raise GraphValueError(f"{name}: no window of {kernel} fits into {x.type}.")
    for place in product(*map(range, kernel)):
        starts = [p * d for p, d in zip(place, dilations, strict=True)]
        stops = [a + s * (n - 1) + 1 for a, s, n in zip(starts, strides, counts, strict=True)]
        yield apply("slice", x, starts=(0, 0, *starts), stops=(*x.shape[:2], *stops), steps=(1, 1, *strides))
