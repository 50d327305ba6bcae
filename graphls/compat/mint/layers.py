"""Layers of `mindspore.mint.nn` that have other names or arguments in `graphls.nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls import nn, ops
from graphls.compat.mint import functional as mint_functional
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike
from graphls.nn.cell import Cell
from graphls.ops.operands import Sizes

__all__ = [
    "ELU", "SELU", "AvgPool1d", "AvgPool3d", "ConvTranspose2d", "Fold", "Hardshrink", "Hardsigmoid", "Hardswish",
    "KLDivLoss", "PReLU", "SmoothL1Loss", "Threshold", "Unfold", "UpsamplingBilinear2d", "UpsamplingNearest2d",
    "ZeroPad1d", "ZeroPad3d",
]  # fmt: skip

Hardshrink, Hardsigmoid, Hardswish, SELU = nn.HShrink, nn.HSigmoid, nn.HSwish, nn.SeLU


class Applied(Cell):
    """A function of a tensor with settings, as a cell; `name` is that of the function, and `of` has it."""

    name = ""
    of: Any = ops

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def construct(self, input: TensorLike) -> Any:
        return getattr(self.of, self.name)(input, **self.settings)


class AvgPool1d(Applied):
    """The mean of each window, whose stride is its size unless another is given."""

    name, of = "avg_pool1d", mint_functional

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )  # fmt: skip


class AvgPool3d(Applied):
    """The mean of each window, whose stride is its size unless another is given."""

    name, of = "avg_pool3d", mint_functional

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad, divisor_override=divisor_override or 0,
        )  # fmt: skip


class ConvTranspose2d(nn.Conv2dTranspose):
    """A transposed convolution whose padding is a number, or one for each axis, taken off on both sides."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
        output_padding: Sizes = 0, groups: int = 1, bias: bool = True, dilation: Sizes = 1,
        padding_mode: str = "zeros", dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        sides = padding if isinstance(padding, int) else tuple(size for size in padding for _ in range(2))
        super().__init__(
            in_channels, out_channels, kernel_size, stride, "pad", sides, output_padding, dilation, groups,
            has_bias=bias,
        )  # fmt: skip


class ELU(nn.ELU):
    """x where it is above 0, and alpha * (exp(x) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha)


class Fold(Applied):
    """Columns of windows put back into images, where they add up."""

    name = "fold"

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__(
            output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
        )


class Unfold(Applied):
    """The windows of images as columns."""

    name = "unfold"

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


class KLDivLoss(Cell):
    """The divergence of labels that are probabilities, or their logarithms, from logarithms of probabilities."""

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__()
        self.reduction, self.log_target = reduction, log_target

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return ops.kl_div(input, ops.exp(target) if self.log_target else target, self.reduction)


class PReLU(nn.PReLU):
    """x where it is above 0, and a learned share of it elsewhere."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: DTypeLike | None = None) -> None:
        super().__init__(num_parameters, init)


class SmoothL1Loss(nn.SmoothL1Loss):
    """d ** 2 / (2 * beta) where the absolute difference d is below `beta`, and d - beta / 2 elsewhere."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(beta, reduction)


class Threshold(nn.Threshold):
    """x where it is above a threshold, and a value elsewhere."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold, value)


class UpsamplingBilinear2d(nn.Upsample):
    """Images in another size, by linear functions whose ends are those of the image."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class UpsamplingNearest2d(nn.Upsample):
    """Images in another size, by their nearest elements."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class _ZeroPad(Applied):
    """Zeros around the last axes."""

    name, axes = "pad", 1

    def __init__(self, padding: int | Sequence[int]) -> None:
        sides = [padding] * (2 * self.axes) if isinstance(padding, int) else list(padding)
        super().__init__(padding=sides)


class ZeroPad1d(_ZeroPad):
    """Zeros around the last axis, as many on both sides or one number for each."""


class ZeroPad3d(_ZeroPad):
    """Zeros around the last three axes, as many on all sides or one number for each."""

    axes = 3
