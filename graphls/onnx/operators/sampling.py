"""Sampling at computed positions: GridSample and DeformConv; and Col2Im."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product, starmap
from math import prod

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.ir.types import DType
from graphls.onnx.operators.products import Shape, geometry, padded, with_bias
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Ints, OptionalInput, integers
from graphls.ops.operands import apply, tensor_of

Corner = tuple[tuple[Tensor, Tensor | None], ...]
"""A position along each axis with its weight."""
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@operator("GridSample")
def grid_sample(
    x: Input, grid: Input, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    x, grid = tensor_of(x), ops.cast(grid, tensor_of(x).dtype)
    mode = _MODES.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise GraphValueError(f"the mode {mode!r} with the padding {padding_mode!r} is not known.")
    sizes = x.shape[2:]
    positions = []
    for i, size in enumerate(sizes):
        position = grid[..., len(sizes) - 1 - i]
        position = (position + 1) * ((size - 1) / 2) if align_corners else ((position + 1) * size - 1) / 2
        positions.append(_onto(position, size, padding_mode, bool(align_corners), mode == "cubic"))

    def term(corner: Corner) -> Tensor:
        y = elements(x, [position for position, _ in corner], padding_mode, bool(align_corners))
        for _, weight in corner:
            y = y if weight is None else y * ops.expand_dims(weight, 1)
        return y

    return reduce(ops.add, map(term, product(*[_taps(position, mode) for position in positions])))


def _onto(position: Tensor, size: int, padding: str, aligned: bool, is_cubic: bool) -> Tensor:
    """A position moved onto the image as its padding says; for the cubic, each of the neighbours is moved instead."""
    if is_cubic or padding == "zeros":
        return position
    position = _reflected(position, size, aligned) if padding == "reflection" else position
    clipped: Tensor = ops.clip_by_value(position, 0.0, size - 1.0)
    return clipped


def _reflected(position: Tensor, size: int, aligned: bool) -> Tensor:
    """A triangle wave: positions beyond an edge are reflected at it."""
    low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
    if not span:
        return position * 0.0
    return span - ops.abs(ops.mod(position - low, 2 * span) - span) + low


def _taps(position: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """Integer positions and their weights, None for a weight of 1."""
    if mode == "nearest":
        return [(ops.round(position), None)]
    low = ops.floor(position)
    part = position - low
    if mode == "linear":
        return [(low, 1 - part), (low + 1, part)]
    a, taps = -0.75, list[tuple[Tensor, Tensor | None]]()
    for step in (-1, 0, 1, 2):
        d = ops.abs(part - step)
        is_near = step in (0, 1)
        weight = ((a + 2) * d - (a + 3)) * d * d + 1 if is_near else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        taps.append((low + step, weight))
    return taps


def elements(x: Tensor, positions: Sequence[Tensor], padding: str, aligned: bool) -> Tensor:
    """The elements (batch, channels, ...) at integer positions, one tensor of them for each axis of the image."""
    sizes, inside, flat = x.shape[2:], None, None
    for position, size in zip(positions, sizes, strict=True):
        moved = _reflected(position, size, aligned) if padding == "reflection" else position
        index: Tensor = ops.clip_by_value(ops.cast(moved, "int64"), 0, size - 1)
        if padding == "zeros":
            here = ops.logical_and(ops.greater_equal(position, 0), ops.less_equal(position, size - 1))
            inside = here if inside is None else ops.logical_and(inside, here)
        flat = index if flat is None else flat * size + index
    batch, channels, count = x.shape[0], x.shape[1], prod(positions[0].shape[1:])
    rows = ops.broadcast_to(ops.reshape(flat, (batch, 1, count)), (batch, channels, count))
    y = ops.gather_elements(ops.reshape(x, (batch, channels, prod(sizes))), 2, rows)
    y = ops.reshape(y, (batch, channels, *positions[0].shape[1:]))
    return y if inside is None else ops.where(ops.expand_dims(inside, 1), y, ops.zeros((), x.dtype))


@operator("Col2Im", known=(1, 2))
def col2im(
    x: Input, image: Array, block: Array, *, dilations: Ints | None = None, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """The sum of overlapping windows: the gradient of an image from that of its windows."""
    x, sizes, kernel = tensor_of(x), integers(image), integers(block)
    axes = len(sizes)
    pads, strides, dilations = pads or [0] * 2 * axes, strides or [1] * axes, dilations or [1] * axes
    wide = [n + pads[i] + pads[axes + i] for i, n in enumerate(sizes)]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(wide, kernel, dilations, strides, strict=True)]
    batch, channels = x.shape[0], x.shape[1] // prod(kernel)
    windows = ops.reshape(x, (batch, channels, prod(kernel), *counts))
    shape, steps = (batch, channels, *wide), (1, 1, *strides)

    def part(number: int, tap: Shape) -> Tensor:
        starts = (0, 0, *(int(p * d) for p, d in zip(tap, dilations, strict=True)))
        stops = (batch, channels, *(s + t * (n - 1) + 1 for s, t, n in zip(starts[2:], strides, counts, strict=True)))
        return apply("slice_gradient", windows[:, :, number], shape=shape, starts=starts, stops=stops, steps=steps)

    total = reduce(ops.add, starmap(part, enumerate(np.ndindex(*kernel))))
    return padded(total, [(-pads[i], -pads[axes + i]) for i in range(axes)])


@operator("DeformConv")
def deform_conv(
    x: Input, w: Input, offset: Input, bias: OptionalInput = None, mask: OptionalInput = None, *,
    dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, offset_group: int = 1,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """A convolution whose windows sample at computed positions, with computed weights."""
    x, w, offset = tensor_of(x), tensor_of(w), tensor_of(offset)
    kernel, shown, batch = w.shape[2:], offset.shape[2:], x.shape[0]
    at, count = geometry(x.shape, kernel, "NOTSET", pads, strides, dilations), prod(kernel)
    rows = (batch * offset_group, count, len(kernel), *shown)
    moved = ops.reshape(offset, rows)
    taps = [_taps(moved[:, :, i] + Tensor(_fixed(i, kernel, shown, at, x.dtype)), "linear") for i in range(len(kernel))]
    images = ops.reshape(x, (batch * offset_group, -1, *x.shape[2:]))

    def term(corner: Corner) -> Tensor:
        weight = reduce(ops.mul, [part for _, part in corner if part is not None])
        return elements(images, [position for position, _ in corner], "zeros", True) * ops.expand_dims(weight, 1)

    total = reduce(ops.add, map(term, product(*taps)))
    if mask is not None:
        total = total * ops.reshape(mask, (batch * offset_group, 1, count, *shown))
    windows = ops.reshape(total, (batch, group, w.shape[1] * count, prod(shown)))
    weights = ops.reshape(w, (group, w.shape[0] // group, w.shape[1] * count))
    return with_bias(ops.reshape(ops.matmul(weights, windows), (batch, w.shape[0], *shown)), bias)


def _fixed(axis: int, kernel: Shape, shown: Shape, at: dict[str, Shape], dtype: DType) -> Array:
    """The coordinates of window elements along an axis of the image, without offsets, (elements of the kernel, ...)."""
    taps = np.indices(kernel)[axis].reshape(-1) * at["dilations"][axis]
    starts = np.indices(shown)[axis] * at["strides"][axis] - at["pads"][axis]
    return np.asarray(taps.reshape(-1, *[1] * len(shown)) + starts, dtype.numpy)
