"""Layers of learned kernels over images with one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from graphls import ops
from graphls.ir.errors import GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, positive_int
from graphls.nn.layers import new_bias, new_weight
from graphls.ops.windows import check_padding, sizes_of
from graphls.tensors.tensor import Tensor, is_tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


class Convolution(Cell):
    """What convolutions share: their arguments, and a weight of shape (first, second, kernel...)."""

    axes: ClassVar[int]
    formats: ClassVar[str]
    function: ClassVar[Callable[..., Tensor]]

    def _configure(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        pad_mode: str,
        padding: Any,
        dilation: Any,
        group: int,
        has_bias: bool,
        data_format: str,
    ) -> None:
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

    def _make(self, weight_init: Any, bias_init: Any, channels: tuple[int, int], dtype: Any) -> None:
        """The parameters; those of one axis have a second one of size 1 before it, as in MindSpore's checkpoints."""
        kernel = (1, *self.kernel_size) if self.axes == 1 else self.kernel_size
        shape = (*channels, *kernel)
        if self.axes == 1 and is_tensor(weight_init) and len(weight_init.shape) == 3:
            weight_init = weight_init.reshape((*weight_init.shape[:2], 1, *weight_init.shape[2:]))
        self.weight = new_weight(weight_init, shape, dtype=dtype)
        self.bias = new_bias(bias_init, shape, size=self.out_channels, dtype=dtype) if self.has_bias else None

    def _kernels(self) -> Any:
        if self.axes > 1:
            return self.weight
        return ops.squeeze(self.weight, 2)

    def extend_repr(self) -> str:
        return (
            f"input_channels={self.in_channels}, output_channels={self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, pad_mode={self.pad_mode}, padding={self.padding}, dilation={self.dilation}, "
            f"group={self.group}, has_bias={self.has_bias}"
        )


def check_format(name: str, data_format: Any, known: str) -> None:
    """Raise GraphValueError unless the channels come before the axes of the image."""
    if data_format != known:
        raise GraphValueError(
            f"For {name!r}, the 'data_format' must be {known!r}, but got {data_format!r}; transpose the input.",
        )


class Conv2d(Convolution):
    """The cross-correlation of images with learned kernels: (N, in, H, W) to (N, out, rows, columns).

    `weight` has shape (out_channels, in_channels / group, height, width). `pad_mode` "same" gives ceil(size / stride)
    rows and columns, "valid" adds no padding, "pad" adds `padding`: one integer, one for each axis, or (top, bottom,
    left, right). Without initializers, weight and bias are spread evenly up to 1 / sqrt(fan in). Raises GraphTypeError
    and GraphValueError for arguments that do not fit.
    """

    axes, formats, function = 2, "NCHW", staticmethod(ops.conv2d)

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
        data_format: str = "NCHW",
        dtype: Any = float32,
    ) -> None:
        super().__init__()
        self._configure(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, data_format
        )
        self._make(weight_init, bias_init, (out_channels, in_channels // group), dtype)

    def construct(self, x: Any) -> Tensor:
        return type(self).function(
            x, self._kernels(), self.bias, self.stride, self.pad_mode, self.padding, self.dilation, self.group
        )


class Conv1d(Conv2d):
    """The cross-correlation of sequences with learned kernels: (N, in, L) to (N, out, places); see Conv2d.

    `weight` has shape (out_channels, in_channels / group, 1, length), as in MindSpore; `weight_init` may be a tensor
    without that axis of size 1.
    """

    axes, formats, function = 1, "NCL", staticmethod(ops.conv1d)

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
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias,
            weight_init, bias_init, "NCL", dtype,
        )  # fmt: skip


class Conv3d(Conv2d):
    """The cross-correlation of volumes with learned kernels: (N, in, D, H, W) to (N, out, ...); see Conv2d.

    Six numbers of `padding` are (head, tail, top, bottom, left, right).
    """

    axes, formats, function = 3, "NCDHW", staticmethod(ops.conv3d)

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
        data_format: str = "NCDHW",
        dtype: Any = float32,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias,
            weight_init, bias_init, data_format, dtype,
        )  # fmt: skip
