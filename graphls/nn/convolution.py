"""Convolutions and transposed convolutions of images with one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from graphls import ops
from graphls.base.checks import boolean, check_format, positive_int
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.nn.dense import new_bias, new_weight
from graphls.nn.initializer import Initial
from graphls.ops.arrays.pads import check_padding, sizes_of
from graphls.ops.network.convolution import check_output_padding
from graphls.ops.operands import Sizes

__all__ = ["Conv1d", "Conv1dTranspose", "Conv2d", "Conv2dTranspose", "Conv3d", "Conv3dTranspose"]


class Convolution(Cell):
    """The base of convolutions: their arguments, and a weight of shape (first, second, kernel...)."""

    _shown = (
        "input_channels=in_channels output_channels=out_channels kernel_size stride pad_mode "
        "padding dilation group has_bias"
    )
    axes: ClassVar[int]
    formats: ClassVar[str]
    function: ClassVar[Callable[..., Tensor]]

    def _configure(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes, pad_mode: str, padding: Sizes,
        dilation: Sizes, group: int, has_bias: bool, data_format: str,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.in_channels = positive_int(name, "in_channels", in_channels)
        self.out_channels = positive_int(name, "out_channels", out_channels)
        self.group = positive_int(name, "group", group)
        self.kernel_size = sizes_of("kernel_size", kernel_size, self.axes)
        self.stride = sizes_of("stride", stride, self.axes)
        self.dilation = sizes_of("dilation", dilation, self.axes)
        check_padding(pad_mode, padding, self.axes)
        self.pad_mode, self.padding = pad_mode, padding
        self.has_bias = boolean(name, "has_bias", has_bias)
        check_format(name, data_format, self.formats)
        if in_channels % group or out_channels % group:
            raise GraphValueError(
                f"For {name!r}, {in_channels} and {out_channels} channels must be divisible by the 'group' {group}.",
            )

    def _make(
        self, weight_init: Initial | None, bias_init: Initial | None, channels: tuple[int, int], dtype: DTypeLike
    ) -> None:
        """The parameters; those of one axis have a second one of size 1 before it, as in MindSpore's checkpoints."""
        kernel = (1, *self.kernel_size) if self.axes == 1 else self.kernel_size
        shape = (*channels, *kernel)
        if self.axes == 1 and isinstance(weight_init, (Tensor, np.ndarray)) and len(weight_init.shape) == 3:
            weight_init = weight_init.reshape((*weight_init.shape[:2], 1, *weight_init.shape[2:]))
        self.weight = new_weight(weight_init, shape, dtype=dtype)
        self.bias = new_bias(bias_init, shape, size=self.out_channels, dtype=dtype) if self.has_bias else None

    def _kernels(self) -> Any:
        if self.axes > 1:
            return self.weight
        return ops.squeeze(self.weight, 2)

    @cached_property
    def conv2d(self) -> Any:
        """The operator of these settings, which classes that derive from MindSpore's `Conv2d` call with a weight."""
        return ops.Conv2D(
            self.out_channels, self.kernel_size, 1, self.pad_mode, self.padding, self.stride, self.dilation, self.group
        )

    @cached_property
    def bias_add(self) -> Any:
        """The operator that adds a bias to the channels; see `conv2d`."""
        return ops.BiasAdd()


class Conv2d(Convolution):
    """The cross-correlation of images with learned kernels: (N, in, H, W) to (N, out, rows, columns).

    `weight` has shape (out_channels, in_channels / group, height, width). `pad_mode` "same" gives ceil(size / stride)
    rows and columns, "valid" adds no padding, "pad" adds `padding`: one integer, one for each axis, or (top, bottom,
    left, right). Without initializers, weight and bias are spread evenly up to 1 / sqrt(fan in). Raises GraphTypeError
    and GraphValueError for arguments that do not fit.
    """

    axes, formats, function = 2, "NCHW", staticmethod(ops.conv2d)

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, pad_mode: str = "same",
        padding: Sizes = 0, dilation: Sizes = 1, group: int = 1, has_bias: bool = False,
        weight_init: Initial | None = None, bias_init: Initial | None = None, data_format: str = "NCHW",
        dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self._configure(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, data_format
        )
        self._make(weight_init, bias_init, (out_channels, in_channels // group), dtype)

    def construct(self, x: Tensor) -> Tensor:
        return type(self).function(
            x, self._kernels(), self.bias, self.stride, self.pad_mode, self.padding, self.dilation, self.group
        )


class Conv1d(Conv2d):
    """The cross-correlation of sequences with learned kernels: (N, in, L) to (N, out, positions); see Conv2d.

    `weight` has shape (out_channels, in_channels / group, 1, length), as in MindSpore; `weight_init` may be a tensor
    without that axis of size 1.
    """

    axes, formats, function = 1, "NCL", staticmethod(ops.conv1d)

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, pad_mode: str = "same",
        padding: Sizes = 0, dilation: Sizes = 1, group: int = 1, has_bias: bool = False,
        weight_init: Initial | None = None, bias_init: Initial | None = None, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias,
            weight_init, bias_init, "NCL", dtype,
        )  # fmt: skip


class Conv3d(Conv2d):
    """The cross-correlation of volumes with learned kernels: (N, in, D, H, W) to (N, out, ...); see Conv2d.

    Six numbers of `padding` are (head, tail, top, bottom, left, right).
    """

    axes, formats, function = 3, "NCDHW", staticmethod(ops.conv3d)

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, pad_mode: str = "same",
        padding: Sizes = 0, dilation: Sizes = 1, group: int = 1, has_bias: bool = False,
        weight_init: Initial | None = None, bias_init: Initial | None = None, data_format: str = "NCDHW",
        dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias,
            weight_init, bias_init, data_format, dtype,
        )  # fmt: skip


class Conv2dTranspose(Convolution):
    """The transposed convolution with learned kernels: (N, in, H, W) to (N, out, rows, columns).

    `weight` has shape (in_channels, out_channels / group, height, width). `pad_mode` "same" makes a size `stride`
    times as large, "valid" takes no padding away, and "pad" takes `padding`, as in Conv2d, away and adds
    `output_padding` at the end. Without initializers, weight and bias are spread evenly up to 1 / sqrt(out_channels /
    group * window). Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    axes, formats, function = 2, "NCHW", staticmethod(ops.conv_transpose2d)

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, pad_mode: str = "same",
        padding: Sizes = 0, output_padding: TensorLike = 0, dilation: Sizes = 1, group: int = 1, has_bias: bool = False,
        weight_init: Initial | None = None, bias_init: Initial | None = None, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self._configure(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, self.formats
        )
        self.output_padding = check_output_padding(output_padding, self.stride, pad_mode)
        self._make(weight_init, bias_init, (in_channels, out_channels // group), dtype)

    def construct(self, x: Tensor) -> Tensor:
        return type(self).function(
            x, self._kernels(), self.bias, self.stride, self.padding, self.output_padding, self.group, self.dilation,
            pad_mode=self.pad_mode,
        )  # fmt: skip


class Conv1dTranspose(Conv2dTranspose):
    """The transposed convolution of sequences: (N, in, L) to (N, out, positions); see Conv2dTranspose and Conv1d."""

    axes, formats, function = 1, "NCL", staticmethod(ops.conv_transpose1d)

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, pad_mode: str = "same",
        padding: Sizes = 0, dilation: Sizes = 1, group: int = 1, has_bias: bool = False,
        weight_init: Initial | None = None, bias_init: Initial | None = None, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, 0, dilation, group, has_bias,
            weight_init, bias_init, dtype,
        )  # fmt: skip


class Conv3dTranspose(Conv2dTranspose):
    """The transposed convolution of volumes: (N, in, D, H, W) to (N, out, ...); see Conv2dTranspose and Conv3d."""

    axes, formats, function = 3, "NCDHW", staticmethod(ops.conv_transpose3d)

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, pad_mode: str = "same",
        padding: Sizes = 0, dilation: Sizes = 1, group: int = 1, output_padding: Sizes = 0, has_bias: bool = False,
        weight_init: Initial | None = None, bias_init: Initial | None = None, data_format: str = "NCDHW",
        dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        check_format("Conv3dTranspose", data_format, self.formats)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, output_padding, dilation, group,
            has_bias, weight_init, bias_init, dtype,
        )  # fmt: skip
