"""Pooling layers over images with one to three axes: maximum, average, norm, and unpooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from graphls import ops
from graphls.base.checks import boolean, check_format, positive
from graphls.frontend.names.traps import STRIDE, warns_of
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.nn.cell import Cell
from graphls.ops.arrays.pads import check_ceil_mode, check_padding, sizes_of
from graphls.ops.network.pooling import check_divisor, window_sizes
from graphls.ops.operands import Sizes

__all__ = [
    "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
    "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _Pool(Cell):
    """The base of pooling layers with windows."""

    _shown = "kernel_size stride pad_mode padding"
    axes: ClassVar[int] = 2
    formats: ClassVar[str] = "NCHW"
    function: ClassVar[Any]

    def _configure(self, kernel_size: Sizes, stride: Sizes, pad_mode: str, padding: Sizes, ceil_mode: bool) -> None:
        self.kernel_size = sizes_of("kernel_size", kernel_size, self.axes)
        self.stride = sizes_of("stride", stride, self.axes)
        check_padding(pad_mode, padding, self.axes)
        self.pad_mode, self.padding = pad_mode, padding
        self.ceil_mode = boolean(type(self).__name__, "ceil_mode", ceil_mode)
        if ceil_mode:
            check_ceil_mode(pad_mode)


@warns_of(STRIDE)
class MaxPool2d(_Pool):
    """The largest element of each window of (N, C, H, W) or (C, H, W); `pad_mode` as in Conv2d.

    `ceil_mode` adds a last window where elements are left. With `return_indices` also the int64 position of each
    element in its image. Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    function: ClassVar[Any] = staticmethod(ops.max_pool2d)

    def __init__(
        self, kernel_size: Sizes = 1, stride: Sizes = 1, pad_mode: str = "valid", padding: Sizes = 0,
        dilation: Sizes = 1, return_indices: bool = False, ceil_mode: bool = False, data_format: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._configure(kernel_size, stride, pad_mode, padding, ceil_mode)
        self.dilation = sizes_of("dilation", dilation, self.axes)
        self.return_indices = boolean(type(self).__name__, "return_indices", return_indices)
        check_format(type(self).__name__, data_format or self.formats, self.formats)

    def construct(self, x: TensorLike) -> Any:
        return type(self).function(
            x, self.kernel_size, self.stride, self.padding, self.dilation, pad_mode=self.pad_mode,
            return_indices=self.return_indices, ceil_mode=self.ceil_mode,
        )  # fmt: skip


class MaxPool1d(MaxPool2d):
    """The largest element of each window of (N, C, L) or (C, L); see MaxPool2d."""

    axes, formats, function = 1, "NCL", staticmethod(ops.max_pool1d)


class MaxPool3d(MaxPool2d):
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W); see MaxPool2d."""

    axes, formats, function = 3, "NCDHW", staticmethod(ops.max_pool3d)


@warns_of(STRIDE)
class AvgPool2d(_Pool):
    """The mean of each window of (N, C, H, W) or (C, H, W); `pad_mode` and `ceil_mode` as in MaxPool2d.

    Padding of "pad" counts as zeros with `count_include_pad`; that of "same", and what `ceil_mode` adds, never counts.
    A `divisor_override` divides the sums in place of the number of elements. Raises GraphTypeError and
    GraphValueError for arguments that do not fit.
    """

    function = staticmethod(ops.avg_pool2d)

    def __init__(
        self, kernel_size: Sizes = 1, stride: Sizes = 1, pad_mode: str = "valid", padding: Sizes = 0,
        ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
        data_format: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._configure(kernel_size, stride, pad_mode, padding, ceil_mode)
        self.count_include_pad = boolean(type(self).__name__, "count_include_pad", count_include_pad)
        self.divisor_override = check_divisor(divisor_override)
        check_format(type(self).__name__, data_format or self.formats, self.formats)

    def construct(self, x: TensorLike) -> Tensor:
        y: Tensor = type(self).function(
            x, self.kernel_size, self.stride, self.padding, pad_mode=self.pad_mode, ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad, divisor_override=self.divisor_override,
        )  # fmt: skip
        return y


@warns_of(STRIDE)
class AvgPool1d(_Pool):
    """The mean of each window of (N, C, L) or (C, L); see AvgPool2d."""

    axes = 1

    def __init__(
        self, kernel_size: Sizes = 1, stride: Sizes = 1, pad_mode: str = "valid", padding: Sizes = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._configure(kernel_size, stride, pad_mode, padding, ceil_mode)
        self.count_include_pad = boolean("AvgPool1d", "count_include_pad", count_include_pad)

    def construct(self, x: TensorLike) -> Tensor:
        return ops.avg_pool1d(
            x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            pad_mode=self.pad_mode,
        )  # fmt: skip


class AvgPool3d(AvgPool2d):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W); see AvgPool2d."""

    axes, formats, function = 3, "NCDHW", staticmethod(ops.avg_pool3d)


class LPPool2d(Cell):
    """(sum of x ** p) ** (1 / p) over each window of (N, C, H, W) or (C, H, W), for p = `norm_type`.

    The stride is the size of the window unless given.
    """

    _shown = "norm_type kernel_size stride"
    axes: ClassVar[int] = 2
    function: ClassVar[Callable[..., Tensor]] = staticmethod(ops.lp_pool2d)

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = positive(type(self).__name__, "norm_type", norm_type)
        self.ceil_mode = boolean(type(self).__name__, "ceil_mode", ceil_mode)
        self.kernel_size = sizes_of("kernel_size", kernel_size, self.axes)
        self.stride = self.kernel_size if stride is None else sizes_of("stride", stride, self.axes)

    def construct(self, x: TensorLike) -> Tensor:
        return type(self).function(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(LPPool2d):
    """(sum of x ** p) ** (1 / p) over each window of (N, C, L) or (C, L); see LPPool2d."""

    axes, function = 1, staticmethod(ops.lp_pool1d)


class MaxUnpool2d(Cell):
    """The elements of images (N, C, H, W) or (C, H, W) at the positions that MaxPool2d found them, zeros elsewhere.

    A call takes the elements, their int32 or int64 positions and, where it is not (size - 1) * stride - 2 * padding +
    kernel, the size of the result; see `ops.max_unpool2d`. Raises GraphTypeError and GraphValueError for arguments that
    do not fit.
    """

    _shown = "kernel_size stride padding"
    axes: ClassVar[int] = 2
    function: ClassVar[Callable[..., Tensor]] = staticmethod(ops.max_unpool2d)

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = window_sizes(kernel_size, stride, padding, self.axes)

    def construct(self, x: TensorLike, indices: TensorLike, output_size: Sizes | None = None) -> Tensor:
        return type(self).function(x, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(MaxUnpool2d):
    """The elements of (N, C, L) or (C, L) at the positions that MaxPool1d found them; see MaxUnpool2d."""

    axes, function = 1, staticmethod(ops.max_unpool1d)


class MaxUnpool3d(MaxUnpool2d):
    """The elements of (N, C, D, H, W) or (C, D, H, W) at the positions that MaxPool3d found them; see MaxUnpool2d."""

    axes, function = 3, staticmethod(ops.max_unpool3d)
