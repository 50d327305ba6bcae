"""`mindspore.mint.nn`: layers with the arguments of PyTorch, over those of `graphls.nn`."""

from __future__ import annotations

from typing import Any

from graphls import nn, ops
from graphls.base.checks import probability
from graphls.base.errors import GraphAttributeError
from graphls.frontend.tensors.tensor import Tensor
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
        """A convolution whose padding is a number, or one for each axis, of zeros on both sides."""

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
    """The padding of each side, as `graphls.nn` takes it: a number, or two for each of several axes."""
    if isinstance(padding, int):
        return padding
    return padding[0] if len(padding) == 1 else tuple(size for size in padding for _ in range(2))


Conv1d, Conv2d, Conv3d = map(_convolution, (nn.Conv1d, nn.Conv2d, nn.Conv3d))


def _batch_norm(base: Any) -> Any:
    class BatchNorm(base):  # type: ignore[misc]
        """A normalisation whose `momentum` is the share of the new statistics, as in PyTorch."""

        def __init__(
            self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
            track_running_stats: bool = True, dtype: DTypeLike | None = None,
        ) -> None:  # fmt: skip
            by_batch = None if track_running_stats else True
            probability(base.__name__, "momentum", momentum)
            super().__init__(num_features, eps, affine=affine, use_batch_statistics=by_batch)
            self.momentum = 1 - momentum  # graphls.nn counts what stays

    BatchNorm.__name__ = BatchNorm.__qualname__ = base.__name__
    return BatchNorm


BatchNorm1d, BatchNorm2d, BatchNorm3d = map(_batch_norm, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))


class LayerNorm(nn.LayerNorm):
    """A normalisation over the last axes, of these sizes."""

    def __init__(
        self, normalized_shape: Sizes, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        super().__init__(shape, -len(shape), -len(shape), epsilon=eps)
        self.gamma.requires_grad = elementwise_affine
        self.beta.requires_grad = elementwise_affine and bias


class GroupNorm(nn.GroupNorm):
    """A normalisation over groups of channels."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine)


class Embedding(nn.Embedding):
    """Rows of a table by their numbers."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, False, "normal", dtype or float32, padding_idx)


class Dropout(nn.Dropout):
    """Zeros with the probability p in training, and the rest divided by 1 - p."""

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
    """Some axes as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, input: Tensor) -> Tensor:
        return ops.flatten(input, start_dim=self.start_dim, end_dim=self.end_dim)


class MaxPool2d(nn.MaxPool2d):
    """The largest element of each window, whose stride is its size unless another is given."""

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        stride = kernel_size if stride is None else stride
        super().__init__(kernel_size, stride, "pad", padding, dilation, return_indices, ceil_mode)


class AvgPool2d(nn.AvgPool2d):
    """The mean of each window, whose stride is its size unless another is given."""

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        stride = kernel_size if stride is None else stride
        super().__init__(kernel_size, stride, "pad", padding, ceil_mode, count_include_pad, divisor_override)


_NAMES = """
AvgPool2d BatchNorm1d BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d Dropout Embedding Flatten GELU GroupNorm LayerNorm
Linear LogSoftmax MaxPool2d Softmax
"""

__all__ = [*SAME, *_NAMES.split()]


def __getattr__(name: str) -> Any:
    if name not in SAME:
        hint = "" if name.startswith("__") else nearest(name, __all__)
        raise GraphAttributeError(f"graphls does not offer mindspore.mint.nn.{name}{hint}.")
    return getattr(nn, name)
