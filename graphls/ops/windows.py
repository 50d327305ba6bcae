"""Convolution and pooling over images (batch, channels, height, width)."""

from __future__ import annotations

from typing import Any

from graphls import dispatch
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.elementwise import add
from graphls.ops.operands import apply, float_of, operand_of
from graphls.ops.shapes import reshape
from graphls.source import user_location
from graphls.tensor import Tensor

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    pad_mode: str = "valid",
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of images (N, C, H, W) with kernels (O, C / groups, height, width).

    `pad_mode` "same" gives ceil(size / stride) rows and columns, "valid" adds no padding, "pad" adds `padding`: one
    integer, or (top, bottom, left, right). `bias` has shape (O,). Raises GraphValueError where sizes do not fit.
    """
    x, weight = dispatch.promoted(operand_of(x), operand_of(weight))
    strides, dilations = pair("stride", stride), pair("dilation", dilation)
    pads = padding_of(x, weight.shape[2:], strides, pad_mode, padding, dilations)
    y = apply("convolution", x, weight, strides=strides, pads=pads, dilations=dilations, groups=groups)
    return y if bias is None else add(y, reshape(bias, (1, -1, 1, 1)))


def max_pool2d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, *, pad_mode: str = "pad") -> Tensor:
    """The largest element of each window; the stride is the size of the window unless given."""
    geometry = _pool_geometry(x, kernel_size, stride, pad_mode, padding)
    result: tuple[Tensor, Tensor] = dispatch.apply("max_pool", float_of(x), **geometry)
    return result[0]


def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    *,
    pad_mode: str = "pad",
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window; padding counts as zeros only for `pad_mode` "pad" with `count_include_pad`."""
    geometry = _pool_geometry(x, kernel_size, stride, pad_mode, padding)
    counted = bool(count_include_pad) and pad_mode == "pad"
    return apply("avg_pool", float_of(x), **geometry, count_include_pad=counted)


def _pool_geometry(x: Any, kernel_size: Any, stride: Any, pad_mode: str, padding: Any) -> dict[str, Any]:
    kernel = pair("kernel_size", kernel_size)
    strides = kernel if stride is None else pair("stride", stride)
    return {"kernel": kernel, "strides": strides, "pads": padding_of(x, kernel, strides, pad_mode, padding)}


def pair(name: str, value: Any) -> Pair:
    """One positive integer for both directions, or one for each.

    Raises GraphTypeError for anything else, GraphValueError for sizes below 1.
    """
    values = value if isinstance(value, (tuple, list)) else (value, value)
    if len(values) != 2 or not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        raise GraphTypeError(f"The {name!r} is one integer or two, not {value!r}.", user_location())
    if min(values) < 1:
        raise GraphValueError(f"The {name!r} is 1 or more, not {value!r}.", user_location())
    return int(values[0]), int(values[1])


def padding_of(x: Tensor, kernel: Any, strides: Pair, pad_mode: str, padding: Any, dilations: Pair = (1, 1)) -> Pads:
    """What is added at the top, left, bottom and right; raises GraphValueError for an unknown mode or size."""
    sides = check_padding(pad_mode, padding)
    if pad_mode != "same" or x.ndim != 4 or len(kernel) != 2:
        return sides
    totals = [
        max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
    ]
    return totals[0] // 2, totals[1] // 2, totals[0] - totals[0] // 2, totals[1] - totals[1] // 2


def check_padding(pad_mode: Any, padding: Any) -> Pads:
    """`padding` on four sides; raises GraphValueError for an unknown mode, or one that takes no padding."""
    sides = four_sides(padding)
    if pad_mode not in ("same", "valid", "pad"):
        raise GraphValueError(f"The 'pad_mode' is 'same', 'valid' or 'pad', not {pad_mode!r}.", user_location())
    if pad_mode != "pad" and any(sides):
        raise GraphValueError(f"With the pad_mode {pad_mode!r}, 'padding' is 0, not {padding!r}.", user_location())
    return sides


def four_sides(padding: Any) -> Pads:
    """`padding` as (top, left, bottom, right), from one integer, (height, width) or (top, bottom, left, right)."""
    if isinstance(padding, int) and not isinstance(padding, bool):
        sides = (padding,) * 4
    elif isinstance(padding, (tuple, list)) and len(padding) in (2, 4):
        height, width = (padding[:2], padding[2:]) if len(padding) == 4 else ((padding[0],) * 2, (padding[1],) * 2)
        sides = (height[0], width[0], height[1], width[1])
    else:
        raise GraphTypeError(f"The 'padding' is one integer, two or four, not {padding!r}.", user_location())
    if any(not isinstance(n, int) or n < 0 for n in sides):
        raise GraphValueError(f"The 'padding' is made of integers of 0 or more, not {padding!r}.", user_location())
    return sides
