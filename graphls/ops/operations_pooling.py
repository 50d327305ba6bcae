"""Operator classes of pooling (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from graphls.ir.types import int32, int64
from graphls.ops import adaptive, pooling, unpooling
from graphls.ops.creation import arange
from graphls.ops.elementwise import add, cast, mul
from graphls.ops.operands import shape_of
from graphls.ops.operations_convolution import FORMATS, are_last, as_given, channels_first, spatial
from graphls.ops.record import operator_class
from graphls.ops.shapes import reshape
from graphls.ops.windows import pads_of, sizes_of
from graphls.tensors.pytree import map_leaves
from graphls.tensors.tensor import Tensor


def _lower(pad_mode: Any) -> Any:
    """The mode of padding, of which MindSpore also writes "SAME" and "VALID"."""
    return pad_mode.lower() if isinstance(pad_mode, str) else pad_mode


def _pool(function: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(
        x: Any, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid", data_format: str = "NCHW"
    ) -> Any:
        windows = spatial(kernel_size, 2), spatial(strides, 2)
        y = function(channels_first(x, data_format, 2), *windows, pad_mode=_lower(pad_mode))
        return map_leaves(lambda t: as_given(t, data_format, 2), y)

    return pooled


@operator_class("MaxPool3D", "kernel_size strides pad_mode pad_list ceil_mode data_format", like=pooling.max_pool3d)
def _max_pool_volumes(
    x: Any,
    kernel_size: Any = 1,
    strides: Any = 1,
    pad_mode: str = "VALID",
    pad_list: Any = 0,
    ceil_mode: bool | None = None,
    data_format: str = "NCDHW",
) -> Tensor:
    is_ceiled = bool(ceil_mode) and _lower(pad_mode) == "pad"
    y = pooling.max_pool3d(
        channels_first(x, data_format, 3), spatial(kernel_size, 3), spatial(strides, 3), pad_list,
        ceil_mode=is_ceiled, pad_mode=_lower(pad_mode),
    )  # fmt: skip
    return as_given(y, data_format, 3)


@operator_class(
    "AvgPool3D", "kernel_size strides pad_mode pad ceil_mode count_include_pad divisor_override data_format"
)
def _avg_pool_volumes(
    x: Any,
    kernel_size: Any = 1,
    strides: Any = 1,
    pad_mode: str = "valid",
    pad: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
    data_format: str = "NCDHW",
) -> Tensor:
    """The mean of each window of (N, C, D, H, W); see `ops.avg_pool3d`.

    Padding counts as zeros with `count_include_pad`, that of the mode "same" too.
    """
    x, mode = channels_first(x, data_format, 3), _lower(pad_mode)
    kernel, steps = (sizes_of(n, spatial(v, 3), 3) for n, v in (("kernel_size", kernel_size), ("strides", strides)))
    if mode == "same" and count_include_pad:
        sides = pads_of(x.shape, kernel, steps, mode, pad)
        mode, pad = "pad", tuple(n for pair in zip(sides[:3], sides[3:], strict=True) for n in pair)
    y = pooling.avg_pool3d(x, kernel, steps, pad, ceil_mode, count_include_pad, divisor_override, pad_mode=mode)
    return as_given(y, data_format, 3)


def _max_pool_with_places(x: Any, kernel_size: Any, stride: Any, *, pad_mode: str) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its int32 position among all elements of its (C, H, W)."""
    y, places = pooling.max_pool2d(x, kernel_size, stride, pad_mode=pad_mode, return_indices=True)
    before = mul(reshape(arange(y.shape[-3]), (-1, 1, 1)), prod(x.shape[-2:]))
    return y, cast(add(places, before), int32)


def _with_places(function: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(
        x: Any,
        kernel_size: Any,
        strides: Any = None,
        pads: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        argmax_type: Any = int64,
    ) -> tuple[Tensor, Tensor]:
        y, places = function(x, kernel_size, strides, pads, dilation, True, ceil_mode)
        return y, cast(places, argmax_type)

    return pooled


@operator_class(
    "MaxPool3DWithArgmax", "ksize strides pads dilation ceil_mode data_format argmax_type", like=pooling.max_pool3d
)
def _volumes_with_places(
    x: Any,
    ksize: Any,
    strides: Any,
    pads: Any,
    dilation: Any = (1, 1, 1),
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    argmax_type: Any = int64,
) -> Any:
    pooled = _with_places(pooling.max_pool3d)
    y = pooled(channels_first(x, data_format, 3), ksize, strides, pads, dilation, ceil_mode, argmax_type)
    return map_leaves(lambda t: as_given(t, data_format, 3), y)


@operator_class("AdaptiveMaxPool2D", "output_size", like=adaptive.adaptive_max_pool2d)
def _largest(x: Any, output_size: Any) -> tuple[Tensor, Tensor]:
    y, places = adaptive.adaptive_max_pool2d(x, output_size, return_indices=True)
    return y, places


@operator_class("AdaptiveMaxPool3D", like=adaptive.adaptive_max_pool3d)
def _largest_of_volumes(x: Any, output_size: Any) -> tuple[Tensor, Tensor]:
    y, places = adaptive.adaptive_max_pool3d(x, shape_of(output_size), return_indices=True)
    return y, cast(places, int32)


def _unpool(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    def unpooled(
        x: Any,
        argmax: Any,
        ksize: Any,
        strides: Any = 0,
        pads: Any = 0,
        output_shape: Any = (),
        data_format: str = FORMATS[axes][0],
    ) -> Tensor:
        x, places = (channels_first(t, data_format, axes) for t in (x, argmax))
        whole = tuple(output_shape) or None
        if whole and are_last(data_format, axes):
            whole = (whole[0], whole[-1], *whole[1:-1])
        y = function(x, places, ksize, strides, pads, whole)
        return as_given(y, data_format, axes)

    return unpooled


_SETTINGS = "kernel_size strides pad_mode data_format"
operator_class("AvgPool", _SETTINGS, defaults={"pad_mode": "VALID"}, via=_pool)(pooling.avg_pool2d)
operator_class("MaxPool", _SETTINGS, via=_pool)(pooling.max_pool2d)
operator_class("MaxPoolWithArgmax", _SETTINGS, via=_pool)(_max_pool_with_places)
_SETTINGS = "kernel_size strides pads dilation ceil_mode argmax_type"
operator_class("MaxPoolWithArgmaxV2", _SETTINGS, defaults={"dilation": (1, 1)}, via=_with_places)(pooling.max_pool2d)
_SETTINGS = "ksize strides pads output_shape data_format"
operator_class("MaxUnpool2D", _SETTINGS, via=lambda function: _unpool(function, 2))(unpooling.max_unpool2d)
operator_class("MaxUnpool3D", _SETTINGS, via=lambda function: _unpool(function, 3))(unpooling.max_unpool3d)
