"""Layers over images (batch, channels, height, width): convolution and pooling."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.errors import GraphValueError
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, positive_int
from graphls.nn.layers import new_bias, new_weight
from graphls.ops.windows import check_padding, pair
from graphls.source import user_location
from graphls.tensor import Tensor


class Conv2d(Cell):
    """The cross-correlation of images with learned kernels: (N, in, H, W) to (N, out, rows, columns).

    `weight` has shape (out_channels, in_channels / group, height, width). `pad_mode` "same" gives ceil(size / stride)
    rows and columns, "valid" adds no padding, "pad" adds `padding`: one integer, or (top, bottom, left, right). Without
    initializers, weight and bias are spread evenly up to 1 / sqrt(fan in). Raises GraphTypeError and GraphValueError
    for arguments that do not fit.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        pad_mode: str = "same",
        padding: Any = 0,
        dilation: Any = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
    ) -> None:
        super().__init__()
        self.in_channels = positive_int("Conv2d", "in_channels", in_channels)
        self.out_channels = positive_int("Conv2d", "out_channels", out_channels)
        self.group = positive_int("Conv2d", "group", group)
        self.kernel_size, self.stride = pair("kernel_size", kernel_size), pair("stride", stride)
        self.dilation = pair("dilation", dilation)
        check_padding(pad_mode, padding)
        self.pad_mode, self.padding = pad_mode, padding
        self.has_bias = boolean("Conv2d", "has_bias", has_bias)
        if in_channels % group or out_channels % group:
            raise GraphValueError(
                f"For 'Conv2d', {in_channels} and {out_channels} channels must be divisible by the 'group' {group}.",
                user_location(),
            )
        shape = (out_channels, in_channels // group, *self.kernel_size)
        self.weight = new_weight(weight_init, shape)
        if has_bias:
            self.bias = new_bias(bias_init, shape)

    def construct(self, x: Any) -> Tensor:
        bias = self.bias if self.has_bias else None
        return ops.conv2d(x, self.weight, bias, self.stride, self.pad_mode, self.padding, self.dilation, self.group)

    def extend_repr(self) -> str:
        return (
            f"input_channels={self.in_channels}, output_channels={self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, pad_mode={self.pad_mode}, padding={self.padding}, dilation={self.dilation}, "
            f"group={self.group}, has_bias={self.has_bias}"
        )


class _Pool(Cell):
    """Windows over images."""

    def __init__(self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride = pair("kernel_size", kernel_size), pair("stride", stride)
        check_padding(pad_mode, padding)
        self.pad_mode, self.padding = pad_mode, padding

    def extend_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, pad_mode={self.pad_mode}, padding={self.padding}"


class MaxPool2d(_Pool):
    """The largest element of each window; `pad_mode` as in Conv2d."""

    def construct(self, x: Any) -> Tensor:
        return ops.max_pool2d(x, self.kernel_size, self.stride, self.padding, pad_mode=self.pad_mode)


class AvgPool2d(_Pool):
    """The mean of each window; padding of "pad" counts as zeros with `count_include_pad`, that of "same" never."""

    def __init__(
        self,
        kernel_size: Any = 1,
        stride: Any = 1,
        pad_mode: str = "valid",
        padding: Any = 0,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, pad_mode, padding)
        self.count_include_pad = boolean("AvgPool2d", "count_include_pad", count_include_pad)

    def construct(self, x: Any) -> Tensor:
        return ops.avg_pool2d(
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            pad_mode=self.pad_mode,
            count_include_pad=self.count_include_pad,
        )
