"""Layers of learned kernels that make images with one to three axes larger."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.types import float32
from graphls.nn.layers_convolution import Convolution, check_format
from graphls.ops.convolution import check_output_padding
from graphls.tensors.tensor import Tensor

__all__ = ["Conv1dTranspose", "Conv2dTranspose", "Conv3dTranspose"]


class Conv2dTranspose(Convolution):
    """The transposed convolution with learned kernels: (N, in, H, W) to (N, out, rows, columns).

    `weight` has shape (in_channels, out_channels / group, height, width). `pad_mode` "same" makes a size `stride`
    times as large, "valid" takes no padding away, and "pad" takes `padding`, as in Conv2d, away and adds
    `output_padding` at the end. Without initializers, weight and bias are spread evenly up to 1 / sqrt(out_channels /
    group * window). Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    axes, formats, function = 2, "NCHW", staticmethod(ops.conv_transpose2d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        pad_mode: str = "same",
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__()
        self._configure(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, self.formats
        )
        self.output_padding = check_output_padding(output_padding, self.stride, pad_mode)
        self._make(weight_init, bias_init, (in_channels, out_channels // group), dtype)

    def construct(self, x: Any) -> Tensor:
        return type(self).function(
            x, self._kernels(), self.bias, self.stride, self.padding, self.output_padding, self.group, self.dilation,
            pad_mode=self.pad_mode,
        )  # fmt: skip


class Conv1dTranspose(Conv2dTranspose):
    """The transposed convolution of sequences: (N, in, L) to (N, out, places); see Conv2dTranspose and Conv1d."""

    axes, formats, function = 1, "NCL", staticmethod(ops.conv_transpose1d)

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
        dtype: Any = float32,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, 0, dilation, group, has_bias,
            weight_init, bias_init, dtype,
        )  # fmt: skip


class Conv3dTranspose(Conv2dTranspose):
    """The transposed convolution of volumes: (N, in, D, H, W) to (N, out, ...); see Conv2dTranspose and Conv3d."""

    axes, formats, function = 3, "NCDHW", staticmethod(ops.conv_transpose3d)

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
        output_padding: Any = 0,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
        data_format: str = "NCDHW",
        dtype: Any = float32,
    ) -> None:
        check_format("Conv3dTranspose", data_format, self.formats)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, output_padding, dilation, group,
            has_bias, weight_init, bias_init, dtype,
        )  # fmt: skip
