"""Normalisation of batches, each channel over the whole batch, also behind a layer with a weight."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.checks import boolean, check_format, positive, positive_int
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DTypeLike, float32
from graphls.nn.activations import get_activation
from graphls.nn.cell import Cell
from graphls.nn.convolution import Conv2d
from graphls.nn.dense import Dense
from graphls.nn.functions import LeakyReLU
from graphls.ops.operands import state_of, tensor_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Conv2dBnAct", "DenseBnAct", "SyncBatchNorm"]


class BatchNorm2d(Cell):
    """(x - mean) / sqrt(variance + eps) * gamma + beta for each channel of images (N, C, H, W).

    In training mean and variance are those of the batch, and the moving ones become momentum * old + (1 - momentum) *
    batch, of which the variance is the unbiased one; in evaluation the moving ones are used. Statistics are computed
    in float32 whatever `to_float` says, and the result has the dtype of x. `use_batch_statistics` decides between
    both in place of `set_train`. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    ranks: ClassVar[tuple[int, ...]] = (4,)
    formats: ClassVar[str] = "NCHW"

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: object = "ones",
        beta_init: TensorLike = "zeros",
        moving_mean_init: TensorLike = "zeros",
        moving_var_init: TensorLike = "ones",
        use_batch_statistics: bool | None = None,
        data_format: str | None = None,
        dtype: DTypeLike = float32,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.num_features = positive_int(name, "num_features", num_features)
        self.eps = positive(name, "eps", eps)
        self.momentum = _momentum(name, momentum)
        if use_batch_statistics is not None and not isinstance(use_batch_statistics, bool):
            raise GraphValueError(
                f"For {name!r}, the 'use_batch_statistics' must be a boolean value or None, but got "
                f"{use_batch_statistics!r}.",
            )
        self.use_batch_statistics = use_batch_statistics
        check_format(name, data_format or self.formats, self.formats)
        affine, shape = boolean(name, "affine", affine), (num_features,)
        mean, variance = initializer(moving_mean_init, shape, dtype), initializer(moving_var_init, shape, dtype)
        self.moving_mean = Parameter(mean, name="mean", requires_grad=False)
        self.moving_variance = Parameter(variance, name="variance", requires_grad=False)
        self.gamma = Parameter(initializer(gamma_init, shape, dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, shape, dtype), name="beta", requires_grad=affine)

    def construct(self, x: TensorLike) -> Tensor:
        x = tensor_of(x)
        self._check(x)
        by_batch = self.training if self.use_batch_statistics is None else bool(self.use_batch_statistics)
        return ops.batch_norm(
            x, self.moving_mean, self.moving_variance, state_of(self.gamma), state_of(self.beta), by_batch,
            1 - self.momentum, self.eps,
        )  # fmt: skip

    def _check(self, x: Tensor) -> None:
        if not x.dtype.is_float:
            raise GraphTypeError(f"{type(self).__name__} takes floats, not {x.type}.")
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            ranks = " or ".join(map(str, self.ranks))
            raise GraphValueError(
                f"{type(self).__name__} of {self.num_features} features takes an input of rank {ranks} with that many "
                f"channels, not {x.type}.",
            )

    def extend_repr(self) -> str:
        return f"num_features={self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(BatchNorm2d):
    """Batch normalisation of (N, C) or (N, C, L); see BatchNorm2d."""

    ranks, formats = (2, 3), "NCL"


class BatchNorm3d(BatchNorm2d):
    """Batch normalisation of volumes (N, C, D, H, W); see BatchNorm2d."""

    ranks, formats = (5,), "NCDHW"


class SyncBatchNorm(BatchNorm2d):
    """Batch normalisation of (N, C, ...) by the batches of all ranks, of which there is one; see BatchNorm2d.

    Raises GraphValueError for `process_groups` of more ranks than this one.
    """

    ranks = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: object = "ones",
        beta_init: TensorLike = "zeros",
        moving_mean_init: TensorLike = "zeros",
        moving_var_init: TensorLike = "ones",
        use_batch_statistics: bool | None = None,
        process_groups: Any = None,
        dtype: DTypeLike = float32,
    ) -> None:
        if process_groups is not None and [list(group) for group in process_groups] != [[0]]:
            raise GraphValueError(
                f"For 'SyncBatchNorm', the 'process_groups' of one rank are [[0]], but got {process_groups!r}.",
            )
        super().__init__(
            num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init, moving_var_init,
            use_batch_statistics, dtype=dtype,
        )  # fmt: skip


def _momentum(name: str, momentum: TensorLike) -> float:
    if isinstance(momentum, bool) or not isinstance(momentum, (int, float)):
        raise GraphTypeError(f"For {name!r}, the 'momentum' must be a number, but got {momentum!r}.")
    if not 0 <= momentum <= 1:
        raise GraphValueError(f"For {name!r}, the 'momentum' must be a number in [0, 1], but got {momentum}.")
    return float(momentum)


def _activation(activation: TensorLike | None, alpha: float) -> Cell | None:
    return LeakyReLU(alpha) if activation == "leakyrelu" else get_activation(activation)


class Conv2dBnAct(Cell):
    """`Conv2d`, with `has_bn` then `BatchNorm2d`, with an `activation` then that: a name, or a cell.

    `alpha` is the slope of the activation "leakyrelu"; `after_fake` is taken for MindSpore's sake and not used. Raises
    as these cells do.
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
        weight_init: Any = "normal",
        bias_init: Any = "zeros",
        has_bn: bool = False,
        momentum: float = 0.997,
        eps: float = 1e-5,
        activation: TensorLike | None = None,
        alpha: float = 0.2,
        after_fake: bool = True,
    ) -> None:
        super().__init__()
        self.conv = Conv2d(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
            bias_init,
        )  # fmt: skip
        self.has_bn = boolean("Conv2dBnAct", "has_bn", has_bn)
        if has_bn:
            self.batchnorm = BatchNorm2d(out_channels, eps, momentum)
        self.activation = _activation(activation, alpha)

    def construct(self, x: TensorLike) -> Any:
        y = self.conv(x)
        y = self.batchnorm(y) if self.has_bn else y
        return y if self.activation is None else self.activation(y)


class DenseBnAct(Cell):
    """`Dense`, with `has_bn` then `BatchNorm1d`, with an `activation` then that; see `Conv2dBnAct`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: object = "normal",
        bias_init: Any = "zeros",
        has_bias: bool = True,
        has_bn: bool = False,
        momentum: float = 0.9,
        eps: float = 1e-5,
        activation: TensorLike | None = None,
        alpha: float = 0.2,
        after_fake: bool = True,
    ) -> None:
        super().__init__()
        self.dense = Dense(in_channels, out_channels, weight_init, bias_init, has_bias)
        self.has_bn = boolean("DenseBnAct", "has_bn", has_bn)
        if has_bn:
            self.batchnorm = BatchNorm1d(out_channels, eps, momentum)
        self.activation = _activation(activation, alpha)

    def construct(self, x: TensorLike) -> Any:
        y = self.dense(x)
        y = self.batchnorm(y) if self.has_bn else y
        return y if self.activation is None else self.activation(y)
