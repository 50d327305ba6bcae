"""Convolution of images with one to three axes, and its transpose."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.elementwise import add
from graphls.ops.operands import apply, operand_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import reshape
from graphls.ops.windows import Sizes, check_axes, check_padding, pads_of, sizes_of
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor


@operation
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    pad_mode: str = "valid",
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of sequences (N, C, L) with kernels (O, C / groups, length); see `conv2d`."""
    return _convolution("conv1d", 1, input, weight, bias, stride, pad_mode, padding, dilation, groups)


@operation
def conv2d(
    input: Any,
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
    integer, one for each axis, or (top, bottom, left, right). `bias` has shape (O,). Raises GraphTypeError and
    GraphValueError where sizes do not fit.
    """
    return _convolution("conv2d", 2, input, weight, bias, stride, pad_mode, padding, dilation, groups)


@operation
def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    pad_mode: str = "valid",
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The cross-correlation of volumes (N, C, D, H, W) with kernels (O, C / groups, depth, height, width).

    See `conv2d`; six numbers of `padding` are (head, tail, top, bottom, left, right).
    """
    return _convolution("conv3d", 3, input, weight, bias, stride, pad_mode, padding, dilation, groups)


def _convolution(
    name: str,
    axes: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    pad_mode: str,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    x, weight = _operands(name, axes, x, weight)
    strides, dilations = sizes_of("stride", stride, axes), sizes_of("dilation", dilation, axes)
    pads = pads_of(x.shape, weight.shape[2:], strides, pad_mode, padding, dilations)
    groups = _groups(groups)
    y = apply("convolution", x, weight, strides=strides, pads=pads, dilations=dilations, groups=groups)
    return _with_bias(y, bias)


def _operands(name: str, axes: int, x: Any, weight: Any) -> tuple[Tensor, Tensor]:
    x, weight = dispatch.promoted(operand_of(x), operand_of(weight))
    check_axes(name, x, axes)
    if weight.ndim != axes + 2:
        raise GraphValueError(f"{name} takes kernels of rank {axes + 2}, not {weight.type}.")
    return x, weight


def _groups(groups: Any) -> int:
    if isinstance(groups, bool) or not isinstance(groups, int):
        raise GraphTypeError(f"The 'groups' is an integer, not {groups!r}.")
    return groups


def _with_bias(y: Tensor, bias: Any) -> Tensor:
    if bias is None:
        return y
    bias = tensor_of(bias)
    if bias.shape != y.shape[1:2]:
        raise GraphValueError(f"The bias of {y.shape[1]} channels is {bias.type}; it must have one number for each.")
    return add(y, reshape(bias, (1, -1, *[1] * (y.ndim - 2))))


@operation
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    pad_mode: str = "pad",
) -> Tensor:
    """The transposed convolution of (N, C, L) with kernels (C, O / groups, length); see `conv_transpose2d`."""
    return _transposed(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation, pad_mode
    )


@operation
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    pad_mode: str = "pad",
) -> Tensor:
    """The transposed convolution of images (N, C, H, W) with kernels (C, O / groups, height, width).

    The gradient of the images of a convolution. A size becomes (size - 1) * stride + reach - padding + output_padding,
    where a kernel reaches dilation * (kernel - 1) + 1; with `pad_mode` "same" it becomes size * stride, and with
    "valid", where nothing is taken away, at least that. Raises GraphTypeError and GraphValueError where sizes do not
    fit, also for an `output_padding` without "pad" or as large as the stride.
    """
    return _transposed(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation, pad_mode
    )


@operation
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    pad_mode: str = "pad",
) -> Tensor:
    """The transposed convolution of (N, C, D, H, W) with kernels (C, O / groups, ...); see `conv_transpose2d`."""
    return _transposed(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation, pad_mode
    )


def _transposed(
    name: str,
    axes: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    pad_mode: str,
) -> Tensor:
    x, weight = _operands(name, axes, x, weight)
    strides, dilations = sizes_of("stride", stride, axes), sizes_of("dilation", dilation, axes)
    groups, extra = _groups(groups), check_output_padding(output_padding, strides, pad_mode)
    sides = check_padding(pad_mode, padding, axes)
    sizes = _sizes(x.shape, weight.shape, strides, dilations, sides, extra, pad_mode)
    shape = (x.shape[0], weight.shape[1] * max(groups, 1), *sizes)
    pads = pads_of(shape, weight.shape[2:], strides, pad_mode, padding, dilations)
    geometry = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
    if weight.shape[0] != x.shape[1]:
        raise GraphValueError(f"{name} cannot apply kernels {weight.type} to images {x.type}.")
    return _with_bias(apply("convolution_input_gradient", x, weight, shape=shape, **geometry), bias)


def _sizes(
    shape: Sizes, kernels: Sizes, strides: Sizes, dilations: Sizes, sides: Sizes, extra: Sizes, pad_mode: str
) -> Sizes:
    """The sizes of a transposed image; raises GraphValueError where the padding takes all of it."""
    sizes = []
    for i, (n, k, s, d) in enumerate(zip(shape[2:], kernels[2:], strides, dilations, strict=True)):
        reach = d * (k - 1) + 1
        whole = {"same": n * s, "valid": n * s + max(reach - s, 0), "pad": (n - 1) * s + reach + extra[i]}
        sizes.append(whole[pad_mode] - sides[i] - sides[len(strides) + i])
    if min(sizes) < 1:
        raise GraphValueError(f"The padding {sides} leaves nothing of a transposed {shape}.")
    return tuple(sizes)


def check_output_padding(output_padding: Any, strides: Sizes, pad_mode: str) -> Sizes:
    """One integer from 0 below the stride, or one for each axis, as a tuple; 0 unless the mode is "pad"."""
    axes = len(strides)
    values = tuple(output_padding) if isinstance(output_padding, (tuple, list)) else (output_padding,) * axes
    if len(values) != axes or not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        raise GraphTypeError(f"The 'output_padding' is one integer or {axes}, not {output_padding!r}.")
    if any(not 0 <= v < s for v, s in zip(values, strides, strict=True)) or (any(values) and pad_mode != "pad"):
        raise GraphValueError(
            f"The 'output_padding' is 0, or with the pad_mode 'pad' less than the stride {strides}, "
            f"not {output_padding!r}.",
        )
    return values
