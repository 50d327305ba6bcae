"""Convolution of images with one to three axes, and its transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import bfloat16
from graphls.ops.arrays.arrangement import movedim
from graphls.ops.arrays.pads import check_axes, check_padding, pads_of, sizes_of
from graphls.ops.arrays.shapes import reshape, swapaxes
from graphls.ops.operands import (
    Shape,
    ShapeLike,
    Sizes,
    apply,
    operand_of,
    shape_of,
    single_session,
    tensor_of,
    weight_of,
)
from graphls.ops.record import by_axes, operator_class


@by_axes(1, 2, 3)
def conv(axes: int) -> Callable[..., Tensor]:
    """The cross-correlation of {images} (N, C, {sizes}) with kernels (O, C / groups, {lengths}).

    `pad_mode` "same" gives ceil(size / stride) windows along each axis, "valid" adds no padding, "pad" adds `padding`:
    one integer, one for each axis, or two for each axis, before and after it, as (top, bottom, left, right). `bias` has
    shape (O,). Raises GraphTypeError and GraphValueError where sizes do not fit.
    """

    @single_session
    def convolution(
        input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1,
        pad_mode: str = "valid", padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        x, weight = _operands(f"conv{axes}d", axes, input, weight)
        strides, dilations = sizes_of("stride", stride, axes), sizes_of("dilation", dilation, axes)
        pads = pads_of(x.shape, weight.shape[2:], strides, pad_mode, padding, dilations)
        geometry = {"strides": strides, "pads": pads, "dilations": dilations, "groups": _groups(groups)}
        shift = _bias_of(bias, weight.shape[0])
        if shift is not None and all(t.dtype is bfloat16 for t in dispatch.cast_operands("convolution_add", x, shift)):
            return apply("convolution_add", x, weight, shift, **geometry)  # rounds once, after the sum, as kernels do
        return _with_bias(apply("convolution", x, weight, **geometry), shift)

    return convolution


conv1d, conv2d, conv3d = conv


def _operands(name: str, axes: int, x: TensorLike, weight: TensorLike) -> tuple[Tensor, Tensor]:
    x, weight = dispatch.promoted(operand_of(x), weight_of(weight))
    check_axes(name, x, axes)
    if weight.ndim != axes + 2:
        raise GraphValueError(f"{name} takes kernels of rank {axes + 2}, not {weight.type}.")
    return x, weight


def _groups(groups: TensorLike) -> int:
    if isinstance(groups, bool) or not isinstance(groups, int):
        raise GraphTypeError(f"The 'groups' is an integer, not {groups!r}.")
    return groups


def _bias_of(bias: TensorLike | None, channels: int) -> Tensor | None:
    """The bias, if any; raises GraphValueError for another shape."""
    if bias is None:
        return None
    tensor = tensor_of(bias)
    if tensor.shape != (channels,):
        raise GraphValueError(f"The bias of {channels} channels is {tensor.type}; it must have one number for each.")
    return tensor


def _with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return y
    return y + reshape(bias, (1, -1, *[1] * (y.ndim - 2)))


@by_axes(1, 2, 3)
def conv_transpose(axes: int) -> Callable[..., Tensor]:
    """The transposed convolution of {images} (N, C, {sizes}) with kernels (C, O / groups, {lengths}).

    The gradient of a convolution in its {images}. A size becomes (size - 1) * stride + reach - padding +
    output_padding, where a kernel reaches dilation * (kernel - 1) + 1; with `pad_mode` "same" it becomes size * stride,
    and with "valid", without cropping, at least that. Raises GraphTypeError and GraphValueError where sizes do not fit,
    also for an `output_padding` without "pad" or as large as the stride.
    """
    name = f"conv_transpose{axes}d"

    def transposed(
        input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1, padding: Sizes = 0,
        output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1, *, pad_mode: str = "pad",
    ) -> Tensor:  # fmt: skip
        x, weight = _operands(name, axes, input, weight)
        strides, dilations = sizes_of("stride", stride, axes), sizes_of("dilation", dilation, axes)
        groups, extra = _groups(groups), check_output_padding(output_padding, strides, pad_mode)
        sides = check_padding(pad_mode, padding, axes)
        sizes = _sizes(x.shape, weight.shape, strides, dilations, sides, extra, pad_mode)
        shape = (x.shape[0], weight.shape[1] * max(groups, 1), *sizes)
        pads = pads_of(shape, weight.shape[2:], strides, pad_mode, padding, dilations)
        geometry = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
        if weight.shape[0] != x.shape[1]:
            raise GraphValueError(f"{name} cannot apply kernels {weight.type} to images {x.type}.")
        y = apply("convolution_input_gradient", x, weight, shape=shape, **geometry)
        return _with_bias(y, _bias_of(bias, y.shape[1]))

    return transposed


conv_transpose1d, conv_transpose2d, conv_transpose3d = conv_transpose


def _sizes(
    shape: Shape, kernels: Shape, strides: Shape, dilations: Shape, sides: Shape, extra: Shape, pad_mode: str
) -> Shape:
    """The sizes of a transposed image; raises GraphValueError where the padding leaves nothing of it."""
    sizes = []
    for i, (n, k, s, d) in enumerate(zip(shape[2:], kernels[2:], strides, dilations, strict=True)):
        reach = d * (k - 1) + 1
        uncropped = {"same": n * s, "valid": n * s + max(reach - s, 0), "pad": (n - 1) * s + reach + extra[i]}
        sizes.append(uncropped[pad_mode] - sides[i] - sides[len(strides) + i])
    if min(sizes) < 1:
        raise GraphValueError(f"The padding {sides} leaves nothing of a transposed {shape}.")
    return tuple(sizes)


def check_output_padding(output_padding: object, strides: Shape, pad_mode: str) -> Shape:
    """One non-negative integer below the stride, or one for each axis, as a tuple; 0 unless the mode is "pad"."""
    values = sizes_of("output_padding", output_padding, len(strides), least=0)
    if any(v >= s for v, s in zip(values, strides, strict=True)) or (any(values) and pad_mode != "pad"):
        raise GraphValueError(
            f"The 'output_padding' is 0, or with the pad_mode 'pad' less than the stride {strides}, "
            f"not {output_padding!r}.",
        )
    return values


FORMATS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def channels_first(x: TensorLike, data_format: str, axes: int) -> Tensor:
    """x with its channels moved from the position of `data_format` to axis 1.

    Raises GraphValueError for another format.
    """
    x = tensor_of(x)
    return movedim(x, -1, 1) if are_last(data_format, axes) and x.ndim > 1 else x


def to_format(x: Tensor, data_format: str, axes: int) -> Tensor:
    """Images with channels first, converted to `data_format`."""
    return movedim(x, 1, -1) if are_last(data_format, axes) else x


def are_last(data_format: str, axes: int) -> bool:
    """True if channels are last; raises GraphValueError for an unknown format."""
    if data_format not in FORMATS[axes]:
        known = " or ".join(map(repr, FORMATS[axes]))
        raise GraphValueError(f"The 'data_format' is {known}, not {data_format!r}.")
    return bool(data_format == FORMATS[axes][1])


def spatial(sizes: Sizes, axes: int) -> Sizes:
    """The sizes of windows along images, without leading sizes of 1 for batch and channels."""
    if isinstance(sizes, (tuple, list)) and len(sizes) == axes + 2 and tuple(sizes[:2]) == (1, 1):
        return tuple(sizes[2:])
    return sizes


def _check_kernels(name: str, weight: Tensor, count: TensorLike, kernel_size: Sizes, mode: int, axes: int) -> None:
    """Raise GraphValueError unless there are `count` kernels of that size."""
    if mode != 1:
        raise GraphValueError(f"The 'mode' of {name} is 1, a cross-correlation, not {mode!r}.")
    sizes = sizes_of("kernel_size", kernel_size, axes)
    if weight.ndim != axes + 2 or weight.shape[2:] != sizes or weight.shape[0] != count:
        message = f"{name} of {count!r} channels and kernels of size {sizes} does not fit kernels {weight.type}."
        raise GraphValueError(message)


def _convolution_operator(name: str, function: Callable[..., Tensor], axes: int) -> Callable[..., Tensor]:
    def convolved(
        x: TensorLike, weight: TensorLike, out_channel: int, kernel_size: Sizes, mode: int = 1, pad_mode: str = "valid",
        pad: Sizes = 0, stride: Sizes = 1, dilation: Sizes = 1, group: int = 1, data_format: str = FORMATS[axes][0],
    ) -> Any:  # fmt: skip
        x, weight = channels_first(x, data_format, axes), channels_first(weight, data_format, axes)
        _check_kernels(name, weight, out_channel, kernel_size, mode, axes)
        steps = spatial(stride, axes), pad_mode, pad, spatial(dilation, axes)
        return to_format(function(x, weight, None, *steps, group), data_format, axes)

    return convolved


@operator_class("DepthwiseConv2dNative", "channel_multiplier kernel_size mode pad_mode pad stride dilation group")
def _depthwise(
    x: TensorLike, weight: TensorLike, channel_multiplier: int, kernel_size: Sizes, mode: int = 3,
    pad_mode: str = "valid", pad: Sizes = 0, stride: Sizes = 1, dilation: Sizes = 1, group: int = 1,
) -> Tensor:  # fmt: skip
    """Depthwise cross-correlation of images (N, C, H, W) with kernels (M, C, h, w): each channel has M kernels.

    The result has C * M channels, those of one channel together. The `group` is that of MindSpore and ignored. Raises
    GraphTypeError and GraphValueError where sizes do not fit.
    """
    x, weight = tensor_of(x), tensor_of(weight)
    if mode != 3:
        raise GraphValueError(f"The 'mode' of DepthwiseConv2dNative is 3, not {mode!r}.")
    _check_kernels("DepthwiseConv2dNative", weight, channel_multiplier, kernel_size, 1, 2)
    kernels = reshape(swapaxes(weight, 0, 1), (-1, 1, *weight.shape[2:]))
    return conv2d(x, kernels, None, spatial(stride, 2), pad_mode, pad, spatial(dilation, 2), weight.shape[1])


@operator_class(
    "Conv2DBackpropInput Conv2DTranspose",
    "out_channel kernel_size pad_mode pad pad_list mode stride dilation group data_format",
)
def _input_gradient(
    dout: TensorLike, weight: TensorLike, input_size: ShapeLike, out_channel: int, kernel_size: Sizes,
    pad_mode: str = "valid", pad: Sizes = 0, pad_list: Sizes | None = None, mode: int = 1, stride: Sizes = 1,
    dilation: Sizes = 1, group: int = 1, data_format: str = "NCHW",
) -> Tensor:  # fmt: skip
    """The gradient in the images, of shape `input_size`, of a convolution whose result has the gradient `dout`.

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
    padding = (pad_mode, pad) if pad_list is None else ("pad", pad_list)
    pads = pads_of(shape, weight.shape[2:], strides, *padding, dilations)
    geometry = {"strides": strides, "pads": pads, "dilations": dilations, "groups": group}
    return to_format(apply("convolution_input_gradient", dout, weight, shape=shape, **geometry), data_format, 2)


@operator_class(
    "Conv3DTranspose",
    "in_channel out_channel kernel_size mode pad_mode pad stride dilation group output_padding data_format",
    like=conv_transpose3d,
)
def _transposed_volumes(
    x: TensorLike, weight: TensorLike, in_channel: int, out_channel: int, kernel_size: Sizes, mode: int = 1,
    pad_mode: str = "valid", pad: Sizes = 0, stride: Sizes = 1, dilation: Sizes = 1, group: int = 1,
    output_padding: Sizes = 0, data_format: str = "NCDHW",
) -> Tensor:  # fmt: skip
    x, weight = channels_first(x, data_format, 3), channels_first(weight, data_format, 3)
    _check_kernels("Conv3DTranspose", weight, in_channel, kernel_size, mode, 3)
    if weight.shape[1] * group != out_channel:
        message = f"Conv3DTranspose to {out_channel} channels in {group} groups does not fit kernels {weight.type}."
        raise GraphValueError(message)
    y = conv_transpose3d(
        x, weight, None, spatial(stride, 3), pad, spatial(output_padding, 3), group, spatial(dilation, 3),
        pad_mode=pad_mode,
    )  # fmt: skip
    return to_format(y, data_format, 3)


_SETTINGS = "out_channel kernel_size mode pad_mode pad stride dilation group data_format"
operator_class("Conv2D", _SETTINGS, via=lambda function: _convolution_operator("Conv2D", function, 2))(conv2d)
operator_class("Conv3D", _SETTINGS, via=lambda function: _convolution_operator("Conv3D", function, 3))(conv3d)
