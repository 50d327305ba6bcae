"""Elements at positions that are computed, and windows put together again."""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import DType
from graphls.onnx.operators.products import Shape, geometry, padded, with_bias
from graphls.onnx.table import operator
from graphls.onnx.values import Array, integers
from graphls.ops.operands import apply, tensor_of

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@operator("GridSample")
def grid_sample(x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros") -> Any:
    x, grid = tensor_of(x), ops.cast(grid, tensor_of(x).dtype)
    mode = _MODES.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise GraphValueError(f"the mode {mode!r} with the padding {padding_mode!r} is not known.")
    sizes = x.shape[2:]
    positions = []
    for i, size in enumerate(sizes):
        place = grid[..., len(sizes) - 1 - i]
        place = (place + 1) * ((size - 1) / 2) if align_corners else ((place + 1) * size - 1) / 2
        positions.append(_onto(place, size, padding_mode, bool(align_corners), mode == "cubic"))
    taps = [_taps(place, mode) for place in positions]
    total: Any = None
    for corner in product(*taps):
        places = [place for place, _ in corner]
        term = elements(x, places, padding_mode, bool(align_corners))
        for _, share in corner:
            term = term if share is None else term * ops.expand_dims(share, 1)
        total = term if total is None else total + term
    return total


def _onto(place: Any, size: int, padding: str, aligned: bool, later: bool) -> Any:
    """A position on the image, by its padding; for the cubic, each of the neighbours is moved instead."""
    if later or padding == "zeros":
        return place
    return ops.clip_by_value(_reflected(place, size, aligned) if padding == "reflection" else place, 0.0, size - 1.0)


def _reflected(place: Any, size: int, aligned: bool) -> Any:
    """A triangle wave: positions beyond an edge come back from it."""
    low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
    if not span:
        return place * 0.0
    return span - ops.abs(ops.mod(place - low, 2 * span) - span) + low


def _taps(place: Any, mode: str) -> list[tuple[Any, Any]]:
    """Whole positions and their shares, None for all of it."""
    if mode == "nearest":
        return [(ops.round(place), None)]
    low = ops.floor(place)
    part = place - low
    if mode == "linear":
        return [(low, 1 - part), (low + 1, part)]
    a, taps = -0.75, []
    for step in (-1, 0, 1, 2):
        d = ops.abs(part - step)
        is_near = step in (0, 1)
        share = ((a + 2) * d - (a + 3)) * d * d + 1 if is_near else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        taps.append((low + step, share))
    return taps


def elements(x: Any, places: list[Any], padding: str, aligned: bool) -> Any:
    """The elements (batch, channels, ...) at whole positions."""
    sizes, inside, number = x.shape[2:], None, None
    for place, size in zip(places, sizes, strict=True):
        moved = _reflected(place, size, aligned) if padding == "reflection" else place
        whole = ops.clip_by_value(ops.cast(moved, "int64"), 0, size - 1)
        if padding == "zeros":
            here = ops.logical_and(ops.greater_equal(place, 0), ops.less_equal(place, size - 1))
            inside = here if inside is None else ops.logical_and(inside, here)
        number = whole if number is None else number * size + whole
    batch, channels, count = x.shape[0], x.shape[1], prod(places[0].shape[1:])
    rows = ops.broadcast_to(ops.reshape(number, (batch, 1, count)), (batch, channels, count))
    found = ops.gather_elements(ops.reshape(x, (batch, channels, prod(sizes))), 2, rows)
    found = ops.reshape(found, (batch, channels, *places[0].shape[1:]))
    return found if inside is None else ops.where(ops.expand_dims(inside, 1), found, ops.zeros((), x.dtype))


@operator("Col2Im", known=(1, 2))
def col2im(x: Any, image: Any, block: Any, *, dilations: Any = None, pads: Any = None, strides: Any = None) -> Any:
    """Windows that overlap add up: the gradient of an image from that of its windows."""
    x, sizes, kernel = tensor_of(x), integers(image), integers(block)
    axes = len(sizes)
    pads, strides, dilations = pads or [0] * 2 * axes, strides or [1] * axes, dilations or [1] * axes
    wide = [n + pads[i] + pads[axes + i] for i, n in enumerate(sizes)]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(wide, kernel, dilations, strides, strict=True)]
    batch, channels = x.shape[0], x.shape[1] // prod(kernel)
    windows = ops.reshape(x, (batch, channels, prod(kernel), *counts))
    total: Any = None
    for number, place in enumerate(np.ndindex(*kernel)):
        starts = (0, 0, *(int(p * d) for p, d in zip(place, dilations, strict=True)))
        steps = (1, 1, *strides)
        stops = (batch, channels, *(s + t * (n - 1) + 1 for s, t, n in zip(starts[2:], strides, counts, strict=True)))
        shape = (batch, channels, *wide)
        part = apply("slice_gradient", windows[:, :, number], shape=shape, starts=starts, stops=stops, steps=steps)
        total = part if total is None else total + part
    return padded(total, [(-pads[i], -pads[axes + i]) for i in range(axes)])


@operator("DeformConv")
def deform_conv(
    x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None, *, dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, offset_group: int = 1, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """A convolution whose windows take elements at positions that are computed, and with weights that are."""
    x, w, offset = tensor_of(x), tensor_of(w), tensor_of(offset)
    kernel, shown, batch = w.shape[2:], offset.shape[2:], x.shape[0]
    at, count = geometry(x.shape, kernel, "NOTSET", pads, strides, dilations), prod(kernel)
    rows = (batch * offset_group, count, len(kernel), *shown)
    moved = ops.reshape(offset, rows)
    taps = [_taps(moved[:, :, i] + Tensor(_fixed(i, kernel, shown, at, x.dtype)), "linear") for i in range(len(kernel))]
    images, total = ops.reshape(x, (batch * offset_group, -1, *x.shape[2:])), None
    for corner in product(*taps):
        share = reduce(ops.mul, [part for _, part in corner])
        term = elements(images, [place for place, _ in corner], "zeros", True) * ops.expand_dims(share, 1)
        total = term if total is None else total + term
    if mask is not None:
        total = total * ops.reshape(mask, (batch * offset_group, 1, count, *shown))
    windows = ops.reshape(total, (batch, group, w.shape[1] * count, prod(shown)))
    weights = ops.reshape(w, (group, w.shape[0] // group, w.shape[1] * count))
    return with_bias(ops.reshape(ops.matmul(weights, windows), (batch, w.shape[0], *shown)), bias)


def _fixed(axis: int, kernel: Shape, shown: Shape, at: dict[str, Shape], dtype: DType) -> Array:
    """Where the elements of windows lie along an axis of the image without offsets, (elements of the kernel, ...)."""
    taps = np.indices(kernel)[axis].reshape(-1) * at["dilations"][axis]
    starts = np.indices(shown)[axis] * at["strides"][axis] - at["pads"][axis]
    return np.asarray(taps.reshape(-1, *[1] * len(shown)) + starts, dtype.numpy)
