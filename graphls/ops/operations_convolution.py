"""Operator classes of convolutions (see `operations`).

Images may have their channels last, "NHWC" or "NDHWC", and then so do kernels; the graph moves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops import convolution
from graphls.ops.movement import movedim
from graphls.ops.operands import apply, shape_of, tensor_of
from graphls.ops.record import operator_class
from graphls.ops.shapes import reshape, swapaxes
from graphls.ops.windows import pads_of, sizes_of
from graphls.tensors.tensor import Tensor

FORMATS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def channels_first(x: Any, data_format: Any, axes: int) -> Tensor:
    """x with its channels before its sizes, as `data_format` says where they are.

    Raises GraphValueError for another format.
    """
    x = tensor_of(x)
    return movedim(x, -1, 1) if are_last(data_format, axes) and x.ndim > 1 else x


def as_given(x: Tensor, data_format: Any, axes: int) -> Tensor:
    """Images with channels first in the format of the operator."""
    return movedim(x, 1, -1) if are_last(data_format, axes) else x


def are_last(data_format: Any, axes: int) -> bool:
    """Whether channels are last; raises GraphValueError for an unknown format."""
    if data_format not in FORMATS[axes]:
        known = " or ".join(map(repr, FORMATS[axes]))
        raise GraphValueError(f"The 'data_format' is {known}, not {data_format!r}.")
    return bool(data_format == FORMATS[axes][1])


def spatial(sizes: Any, axes: int) -> Any:
    """Sizes of windows along images: those for batch and channels, which are 1, may stand before them."""
    is_whole = isinstance(sizes, (tuple, list)) and len(sizes) == axes + 2 and tuple(sizes[:2]) == (1, 1)
    return tuple(sizes[2:]) if is_whole else sizes


def _check_kernels(name: str, weight: Tensor, count: Any, kernel_size: Any, mode: Any, axes: int) -> None:
    """Raise GraphValueError unless there are `count` kernels of that size."""
    if mode != 1:
        raise GraphValueError(f"The 'mode' of {name} is 1, a cross-correlation, not {mode!r}.")
    sizes = sizes_of("kernel_size", kernel_size, axes)
    if weight.ndim != axes + 2 or weight.shape[2:] != sizes or weight.shape[0] != count:
        message = f"{name} of {count!r} channels and kernels of size {sizes} does not fit kernels {weight.type}."
        raise GraphValueError(message)


def _convolution(name: str, function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    def convolved(
        x: Any,
        weight: Any,
        out_channel: int,
        kernel_size: Any,
        mode: int = 1,
        pad_mode: str = "valid",
        pad: Any = 0,
        stride: Any = 1,
        dilation: Any = 1,
        group: int = 1,
        data_format: str = FORMATS[axes][0],
    ) -> Any:
        x, weight = channels_first(x, data_format, axes), channels_first(weight, data_format, axes)
        _check_kernels(name, weight, out_channel, kernel_size, mode, axes)
        steps = spatial(stride, axes), pad_mode, pad, spatial(dilation, axes)
        return as_given(function(x, weight, None, *steps, group), data_format, axes)

    return convolved


@operator_class("DepthwiseConv2dNative", "channel_multiplier kernel_size mode pad_mode pad stride dilation group")
def _depthwise(
    x: Any,
    weight: Any,
    channel_multiplier: int,
    kernel_size: Any,
    mode: int = 3,
    pad_mode: str = "valid",
    pad: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    group: int = 1,
) -> Tensor:
    """The cross-correlation of each channel alone with its kernels: of images (N, C, H, W), kernels (M, C, h, w).

    Gives N images of C * M channels, those of one channel together. The `group` is that of MindSpore and not used.
    Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    x, weight = tensor_of(x), tensor_of(weight)
    if mode != 3:
        raise GraphValueError(f"The 'mode' of DepthwiseConv2dNative is 3, not {mode!r}.")
    _check_kernels("DepthwiseConv2dNative", weight, channel_multiplier, kernel_size, 1, 2)
    kernels = reshape(swapaxes(weight, 0, 1), (-1, 1, *weight.shape[2:]))
    return convolution.conv2d(
        x, kernels, None, spatial(stride, 2), pad_mode, pad, spatial(dilation, 2), weight.shape[1]
    )


@operator_class(
    "Conv2DBackpropInput Conv2DTranspose",
    "out_channel kernel_size pad_mode pad pad_list mode stride dilation group data_format",
)
def _input_gradient(
    dout: Any,
    weight: Any,
    input_size: Any,
    out_channel: int,
    kernel_size: Any,
    pad_mode: str = "valid",
    pad: Any = 0,
    pad_list: Any = None,
    mode: int = 1,
    stride: Any = 1,
    dilation: Any = 1,
    group: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    """The gradient by its images, of shape `input_size`, of a convolution whose result has the gradient `dout`.

    `pad_list`, (top, bottom, left, right), is the padding where it is given. Raises GraphTypeError and GraphValueError
    where sizes do not fit.
    """
    dout, weight = channels_first(dout, data_format, 2), channels_first(weight, data_format, 2)
    _check_kernels("Conv2DTranspose", weight, out_channel, kernel_size, mode, 2)
    shape = shape_of(input_size)
    if len(shape) != 4:
        raise GraphTypeError(f"The 'input_size' is the four sizes of the images, not {shape}.")
    shape = (shape[0], shape[3], *shape[1:3]) if are_last(data_format, 2) else shape
    strides, dilations = (sizes_of(n, spatial(v, 2), 2) for n, v in (("stride", stride), ("dilation", dilation)))
    how = (pad_mode, pad) if pad_list is None else ("pad", pad_list)
    pads = pads_of(shape, weight.shape[2:], strides, *how, dilations)
    geometry = {"strides": strides, "pads": pads, "dilations": dilations, "groups": group}
    return as_given(apply("convolution_input_gradient", dout, weight, shape=shape, **geometry), data_format, 2)


@operator_class(
    "Conv3DTranspose",
    "in_channel out_channel kernel_size mode pad_mode pad stride dilation group output_padding data_format",
    like=convolution.conv_transpose3d,
)
def _transposed_volumes(
    x: Any,
    weight: Any,
    in_channel: int,
    out_channel: int,
    kernel_size: Any,
    mode: int = 1,
    pad_mode: str = "valid",
    pad: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    group: int = 1,
    output_padding: Any = 0,
    data_format: str = "NCDHW",
) -> Tensor:
    x, weight = channels_first(x, data_format, 3), channels_first(weight, data_format, 3)
    _check_kernels("Conv3DTranspose", weight, in_channel, kernel_size, mode, 3)
    if weight.shape[1] * group != out_channel:
        message = f"Conv3DTranspose to {out_channel} channels in {group} groups does not fit kernels {weight.type}."
        raise GraphValueError(message)
    y = convolution.conv_transpose3d(
        x, weight, None, spatial(stride, 3), pad, spatial(output_padding, 3), group, spatial(dilation, 3),
        pad_mode=pad_mode,
    )  # fmt: skip
    return as_given(y, data_format, 3)


_SETTINGS = "out_channel kernel_size mode pad_mode pad stride dilation group data_format"
operator_class("Conv2D", _SETTINGS, via=lambda function: _convolution("Conv2D", function, 2))(convolution.conv2d)
operator_class("Conv3D", _SETTINGS, via=lambda function: _convolution("Conv3D", function, 3))(convolution.conv3d)
