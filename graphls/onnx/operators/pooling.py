"""Pooling over windows and over entire images."""

from __future__ import annotations

from math import prod

import numpy as np

from graphls import ops
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.operators.products import Shape, geometry
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Ints
from graphls.ops.math.transcendental import root
from graphls.ops.operands import apply, tensor_of
from graphls.primitives.windows import Geometry


@operator("GlobalAveragePool")
def global_average_pool(x: Input) -> Tensor:
    x = tensor_of(x)
    return ops.mean(x, tuple(range(2, x.ndim)), True)


@operator("GlobalMaxPool")
def global_max_pool(x: Input) -> Tensor:
    x = tensor_of(x)
    return apply("max", x, axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Input, *, p: int = 2) -> Tensor:
    x = tensor_of(x)
    axes = tuple(range(2, x.ndim))
    return _root(ops.sum(_power(x, p), axes, True), p)


def _power(x: Tensor, p: float) -> Tensor:
    return ops.square(x) if p == 2 else ops.abs(x) if p == 1 else ops.pow(ops.abs(x), float(p))


def _root(x: Tensor, p: float) -> Tensor:
    return x if p == 1 else root(x, p)


@operator("AveragePool")
def average_pool(
    x: Input, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    x, kernel = tensor_of(x), tuple(kernel_shape)
    at = geometry(x.shape, kernel, auto_pad, pads, strides, dilations)
    wide = _with_last_windows(x.shape, kernel, at) if ceil_mode else at
    total = _sums(x, kernel, wide)
    counted = _counts(x.shape, kernel, at if count_include_pad else None, wide)
    return ops.div(total, ops.cast(tensor_of(counted), total.dtype))


def _sums(x: Tensor, kernel: Shape, at: dict[str, Shape]) -> Tensor:
    """The sums of windows, from their means or, where these do not suffice, by a depthwise convolution with ones."""
    reach = Geometry.over(kernel, at["strides"], at["pads"], at["dilations"])
    is_plain = set(at["dilations"]) == {1} and all(max(s) < k for s, k in zip(reach.sides(), kernel, strict=True))
    if is_plain and len(kernel) <= 3:
        mean = apply("avg_pool", x, kernel=kernel, strides=at["strides"], pads=at["pads"], count_include_pad=True)
        return mean * prod(kernel)
    rows = ops.reshape(x, (-1, 1, *x.shape[2:]))
    ones = ops.ones((1, 1, *kernel), x.dtype)
    y = apply("convolution", rows, ones, **at)
    return ops.reshape(y, (*x.shape[:2], *y.shape[2:]))


def _counts(shape: Shape, kernel: Shape, counted: dict[str, Shape] | None, at: dict[str, Shape]) -> Array:
    """The number of elements of each window that lie on the image or, with `counted`, on its padding."""
    axes = len(kernel)
    counts = np.ones((1, 1, *[1] * axes))
    for i in range(axes):
        before, step, gap = at["pads"][i], at["strides"][i], at["dilations"][i]
        room = shape[2 + i] + before + at["pads"][axes + i] - (gap * (kernel[i] - 1) + 1)
        positions = np.arange(room // step + 1)[:, None] * step + np.arange(kernel[i]) * gap - before
        low, high = (0, shape[2 + i]) if counted is None else (-before, shape[2 + i] + counted["pads"][axes + i])
        inside = ((positions >= low) & (positions < high)).sum(1)
        counts = counts * inside.reshape([-1 if j == i + 2 else 1 for j in range(axes + 2)])
    return counts


def _with_last_windows(shape: Shape, kernel: Shape, at: dict[str, Shape]) -> dict[str, Shape]:
    """The windows with more padding behind the image, for a last window that starts on the image or before it."""
    axes = len(kernel)
    windows = Geometry.over(kernel, at["strides"], at["pads"], at["dilations"])
    pads = list(at["pads"])
    for i, (room, step) in enumerate(zip(windows.room(shape, kernel), at["strides"], strict=True)):
        count = -(-room // step) + 1
        if (count - 1) * step >= shape[2 + i] + at["pads"][i]:
            count -= 1
        pads[axes + i] += max((count - 1) * step - room, 0)
    return {**at, "pads": tuple(pads)}


@operator("LpPool")
def lp_pool(
    x: Input, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints | None = None,
    p: int = 2, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    x, kernel = tensor_of(x), tuple(kernel_shape)
    at = geometry(x.shape, kernel, auto_pad, pads, strides, dilations)
    return _root(_sums(_power(x, p), kernel, _with_last_windows(x.shape, kernel, at) if ceil_mode else at), p)


@operator("MaxPool")
def max_pool(
    x: Input, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints | None = None,
    pads: Ints | None = None, storage_order: int = 0, strides: Ints | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    x, kernel = tensor_of(x), tuple(kernel_shape)
    at = geometry(x.shape, kernel, auto_pad, pads, strides, dilations)
    at = _with_last_windows(x.shape, kernel, at) if ceil_mode else at
    dtype, wide = x.dtype, x if x.dtype.is_float else ops.cast(x, "float32")
    y, positions = dispatch.apply("max_pool", wide, kernel=kernel, **at)
    return ops.cast(y, dtype), _by_columns(positions, x.shape) if storage_order else positions


def _by_columns(positions: Tensor, shape: Shape) -> Tensor:
    """Row-major positions in an image as column-major ones."""
    sizes, image = shape[2:], prod(shape[2:])
    start, rest = apply("floor_div", positions, tensor_of(image)), ops.mod(positions, image)
    parts, step = [], 1
    for size in reversed(sizes):
        parts.append(ops.mod(rest, size))
        rest = apply("floor_div", rest, tensor_of(size))
    total = start * image
    for part, size in zip(reversed(parts), sizes, strict=True):
        total, step = total + part * step, step * size
    return total
