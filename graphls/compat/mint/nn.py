"""`mindspore.mint.nn`: layers with the arguments of PyTorch, over those of `graphls.nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls import nn, ops
from graphls.base.checks import probability
from graphls.base.errors import GraphAttributeError
from graphls.compat.mint import functional as mint_functional
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.registry import nearest
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.nn.initializer import Initial
from graphls.ops.operands import Sizes

_NAMES = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d BCELoss BCEWithLogitsLoss
Cell CellList ConstantPad1d ConstantPad2d ConstantPad3d CosineEmbeddingLoss CrossEntropyLoss Hardtanh Identity L1Loss
LogSigmoid MSELoss MaxUnpool2d Mish NLLLoss PixelShuffle ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d
ReplicationPad1d ReplicationPad2d ReplicationPad3d SequentialCell SiLU Sigmoid SoftMarginLoss Softplus SyncBatchNorm
Tanh Unflatten Upsample ZeroPad2d
"""
SAME = [name for name in _NAMES.split() if hasattr(nn, name)]
"""Cells whose arguments are those of `graphls.nn`."""


class Linear(nn.Dense):
    """x @ weight.T + bias."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, weight_init: Initial | None = None,
        bias_init: Initial | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, weight_init, bias_init, bias)


def _convolution(base: Any) -> Any:
    class Convolution(base):  # type: ignore[misc]
        """A convolution whose padding is a number of zeros on both sides, or one number for each axis."""

        def __init__(
            self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
            padding: Sizes | str = 0,
            dilation: Sizes = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
            dtype: DTypeLike | None = None,
        ) -> None:  # fmt: skip
            mode, sides = (padding, 0) if isinstance(padding, str) else ("pad", _both_sides(padding))
            super().__init__(
                in_channels, out_channels, kernel_size, stride, mode, sides, dilation, groups, has_bias=bias
            )

    Convolution.__name__ = Convolution.__qualname__ = base.__name__
    return Convolution


def _both_sides(padding: Sizes) -> Any:
    """The padding of each side, as for `graphls.nn`: a number, or two for each of several axes."""
    if isinstance(padding, int):
        return padding
    return padding[0] if len(padding) == 1 else tuple(size for size in padding for _ in range(2))


Conv1d, Conv2d, Conv3d = map(_convolution, (nn.Conv1d, nn.Conv2d, nn.Conv3d))


def _batch_norm(base: Any) -> Any:
    class BatchNorm(base):  # type: ignore[misc]
        """Batch normalisation whose `momentum` is the weight of the new statistics, as in PyTorch."""

        def __init__(
            self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
            track_running_stats: bool = True, dtype: DTypeLike | None = None,
        ) -> None:  # fmt: skip
            by_batch = None if track_running_stats else True
            probability(base.__name__, "momentum", momentum)
            super().__init__(num_features, eps, affine=affine, use_batch_statistics=by_batch)
            self.momentum = 1 - momentum  # in graphls.nn it is the weight of the old statistics

    BatchNorm.__name__ = BatchNorm.__qualname__ = base.__name__
    return BatchNorm


BatchNorm1d, BatchNorm2d, BatchNorm3d = map(_batch_norm, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))


class LayerNorm(nn.LayerNorm):
    """Layer normalisation over the last axes, of these sizes."""

    def __init__(
        self, normalized_shape: Sizes, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        super().__init__(shape, -len(shape), -len(shape), epsilon=eps)
        self.gamma.requires_grad = elementwise_affine
        self.beta.requires_grad = elementwise_affine and bias


class GroupNorm(nn.GroupNorm):
    """Normalisation over groups of channels."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine)


class Embedding(nn.Embedding):
    """Rows of a table by their indices."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, False, "normal", dtype or float32, padding_idx)


class Dropout(nn.Dropout):
    """In training, zeros with the probability p, and the other elements divided by 1 - p."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__(p=p)


class GELU(nn.GELU):
    """x * Phi(x), exactly unless `approximate` is "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate == "tanh")


class Softmax(nn.Softmax):
    """The softmax along an axis."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)


class LogSoftmax(nn.LogSoftmax):
    """The logarithm of the softmax along an axis."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)


class Flatten(Cell):
    """Flattens some axes to one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, input: Tensor) -> Tensor:
        return ops.flatten(input, start_dim=self.start_dim, end_dim=self.end_dim)


class MaxPool2d(nn.MaxPool2d):
    """The largest element of each window; the stride is the size of the window by default."""

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        stride = kernel_size if stride is None else stride
        super().__init__(kernel_size, stride, "pad", padding, dilation, return_indices, ceil_mode)


class AvgPool2d(nn.AvgPool2d):
    """The mean of each window; the stride is the size of the window by default."""

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        stride = kernel_size if stride is None else stride
        super().__init__(kernel_size, stride, "pad", padding, ceil_mode, count_include_pad, divisor_override)


Hardshrink, Hardsigmoid, Hardswish, SELU = nn.HShrink, nn.HSigmoid, nn.HSwish, nn.SeLU


class Applied(Cell):
    """A function of a tensor with settings, as a cell; `name` is the function, and `of` its module."""

    name = ""
    of: Any = ops

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def construct(self, input: TensorLike) -> Any:
        return getattr(self.of, self.name)(input, **self.settings)


class AvgPool1d(Applied):
    """The mean of each window; the stride is the size of the window by default."""

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
    """The mean of each window; the stride is the size of the window by default."""

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
    """A transposed convolution whose padding is a number, or one for each axis, that is removed on both sides."""

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
    """x above 0, and alpha * (exp(x) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha)


class Fold(Applied):
    """Images from columns of windows, whose overlaps are added (col2im)."""

    name = "fold"

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__(
            output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
        )


class Unfold(Applied):
    """The windows of images as columns (im2col)."""

    name = "unfold"

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


class KLDivLoss(Cell):
    """The Kullback-Leibler divergence of labels, probabilities or their logarithms, from log probabilities."""

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__()
        self.reduction, self.log_target = reduction, log_target

    def construct(self, input: Tensor, target: Tensor) -> Tensor:
        return ops.kl_div(input, ops.exp(target) if self.log_target else target, self.reduction)


class PReLU(nn.PReLU):
    """x above 0, and x times a learned slope elsewhere."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: DTypeLike | None = None) -> None:
        super().__init__(num_parameters, init)


class SmoothL1Loss(nn.SmoothL1Loss):
    """d ** 2 / (2 * beta) for absolute differences d below `beta`, and d - beta / 2 elsewhere."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(beta, reduction)


class Threshold(nn.Threshold):
    """x above a threshold, and a value elsewhere."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold, value)


class UpsamplingBilinear2d(nn.Upsample):
    """Images in another size by bilinear interpolation with aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class UpsamplingNearest2d(nn.Upsample):
    """Images in another size by their nearest elements."""

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


_NAMES = """
AvgPool1d AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose2d Dropout ELU
Embedding Flatten Fold GELU GroupNorm Hardshrink Hardsigmoid Hardswish KLDivLoss LayerNorm Linear LogSoftmax MaxPool2d
PReLU SELU SmoothL1Loss Softmax Threshold Unfold UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad3d
"""

__all__ = [*SAME, *_NAMES.split()]


def __getattr__(name: str) -> Any:
    if name not in SAME:
        hint = "" if name.startswith("__") else nearest(name, __all__)
        raise GraphAttributeError(f"graphls does not offer mindspore.mint.nn.{name}{hint}.")
    return getattr(nn, name)
