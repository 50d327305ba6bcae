"""Normalisation layers by the statistics of the batch, of each sample, of groups of channels and of the last axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

from graphls import ops
from graphls.base.checks import boolean, check_format, fraction, positive, positive_int
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.distributed.groups import group_among
from graphls.distributed.world import devices_driven, world
from graphls.frontend.names.traps import MOMENTUM, warns_of
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32
from graphls.nn.activations import get_activation
from graphls.nn.cell import Cell
from graphls.nn.convolution import Conv2d
from graphls.nn.dense import Dense
from graphls.nn.functions import LeakyReLU
from graphls.nn.initializer import Initial, initializer
from graphls.ops.network.normalization import batch_norm_over_ranks, normalised_from
from graphls.ops.operands import Sizes, axis_of, raw_state, tensor_of

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Conv2dBnAct", "DenseBnAct", "GroupNorm", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "RMSNorm", "SyncBatchNorm",
]  # fmt: skip


@warns_of(MOMENTUM)
class BatchNorm2d(Cell):
    """(x - mean) / sqrt(variance + eps) * gamma + beta for each channel of images (N, C, H, W).

    In training mean and variance are those of the batch, and the moving ones become momentum * old + (1 - momentum) *
    batch, of which the variance is the unbiased one; in evaluation the moving ones are used. Statistics are computed
    in float32 regardless of `to_float`, and the result has the dtype of x. `use_batch_statistics` decides between
    both in place of `set_train`. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    _shown = "num_features eps momentum"
    ranks: ClassVar[tuple[int, ...]] = (4,)
    formats: ClassVar[str] = "NCHW"

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.9, affine: bool = True,
        gamma_init: Initial = "ones", beta_init: Initial = "zeros", moving_mean_init: Initial = "zeros",
        moving_var_init: Initial = "ones", use_batch_statistics: bool | None = None, data_format: str | None = None,
        dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
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
        self.affine, shape = boolean(name, "affine", affine), (num_features,)
        mean, variance = initializer(moving_mean_init, shape, dtype), initializer(moving_var_init, shape, dtype)
        self.moving_mean = Parameter(mean, name="mean", requires_grad=False)
        self.moving_variance = Parameter(variance, name="variance", requires_grad=False)
        self.gamma = Parameter(initializer(gamma_init, shape, dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, shape, dtype), name="beta", requires_grad=affine)

    def construct(self, x: TensorLike) -> Tensor:
        x = tensor_of(x)
        self._check(x)
        by_batch = self.training if self.use_batch_statistics is None else self.use_batch_statistics
        return self.by_batch(x) if by_batch else self._normalised(x, False)

    def by_batch(self, x: Tensor) -> Tensor:
        """Normalise by the batch's own mean and variance, and update the moving ones."""
        return self._normalised(x, True)

    def _normalised(self, x: Tensor, by_batch: bool) -> Tensor:
        return ops.batch_norm(
            x, self.moving_mean, self.moving_variance, raw_state(self.gamma), raw_state(self.beta), by_batch,
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


class BatchNorm1d(BatchNorm2d):
    """Batch normalisation of (N, C) or (N, C, L); see BatchNorm2d."""

    ranks, formats = (2, 3), "NCL"


class BatchNorm3d(BatchNorm2d):
    """Batch normalisation of volumes (N, C, D, H, W); see BatchNorm2d."""

    ranks, formats = (5,), "NCDHW"


class SyncBatchNorm(BatchNorm2d):
    """Batch normalisation of (N, C, ...) by the joined batches of all ranks, or of groups of them; see BatchNorm2d.

    `process_groups` lists the ranks of each group, such as [[0, 1], [2, 3]]; a rank in none of them, and every rank
    with 0 in place of a list, normalises by its own batch, and None means all ranks. All ranks make the cell. Batches
    may have different numbers of rows. Raises GraphTypeError for groups that are not lists, GraphValueError for numbers
    of no ranks and for ranks that are there twice.
    """

    ranks = (2, 3, 4, 5)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.9, affine: bool = True,
        gamma_init: Initial = "ones", beta_init: Initial = "zeros", moving_mean_init: Initial = "zeros",
        moving_var_init: Initial = "ones", use_batch_statistics: bool | None = None,
        process_groups: Sequence[Sequence[int]] | int | None = None, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init, moving_var_init,
            use_batch_statistics, dtype=dtype,
        )  # fmt: skip
        self.group = _group_of_this_rank(process_groups)

    def by_batch(self, x: Tensor) -> Tensor:
        if self.group is None:
            return super().by_batch(x)
        return batch_norm_over_ranks(
            x, self.moving_mean, self.moving_variance, raw_state(self.gamma), raw_state(self.beta), 1 - self.momentum,
            self.eps, self.group,
        )  # fmt: skip


def _group_of_this_rank(process_groups: Any) -> str | None:
    """The name of the group of several ranks with this one, None without; all ranks create all groups."""
    everyone = world()
    groups = [list(everyone.members)] if process_groups is None else [] if process_groups == 0 else process_groups
    if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        message = f"For 'SyncBatchNorm', the 'process_groups' must be a list of lists, but got {process_groups!r}."
        raise GraphTypeError(message)
    members = list(chain.from_iterable(groups))
    if process_groups and devices_driven() > 1:
        if sorted(members) == list(range(devices_driven())) == sorted(groups[0]):
            return None
        text = f"For 'SyncBatchNorm', the {devices_driven()} devices of this process normalise by their joined batch"
        raise GraphRuntimeError(f"{text}, and not by those of the process_groups {process_groups!r}; leave them out.")
    if len(set(members)) < len(members) or not set(members) <= set(everyone.members):
        text = f"For 'SyncBatchNorm', the 'process_groups' must have different ranks below {everyone.size}"
        raise GraphValueError(f"{text}, but got {process_groups!r}.")
    created = [group_among(group) for group in groups if len(group) > 1]
    return next((group.name for group in created if everyone.rank in group.members), None)


def _momentum(name: str, momentum: TensorLike) -> float:
    if isinstance(momentum, bool) or not isinstance(momentum, (int, float)):
        raise GraphTypeError(f"For {name!r}, the 'momentum' must be a number, but got {momentum!r}.")
    if not 0 <= momentum <= 1:
        raise GraphValueError(f"For {name!r}, the 'momentum' must be a number in [0, 1], but got {momentum}.")
    return float(momentum)


def _activation(activation: str | Cell | None, alpha: float) -> Cell | None:
    return LeakyReLU(alpha) if activation == "leakyrelu" else get_activation(activation)


class Conv2dBnAct(Cell):
    """`Conv2d`, with `has_bn` then `BatchNorm2d`, with an `activation` then that: a name, or a cell.

    `alpha` is the slope of the activation "leakyrelu"; `after_fake` is an argument of MindSpore's and not used. Raises
    as these cells do.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, pad_mode: str = "same",
        padding: Sizes = 0, dilation: Sizes = 1, group: int = 1, has_bias: bool = False,
        weight_init: Initial = "normal", bias_init: Initial = "zeros", has_bn: bool = False, momentum: float = 0.997,
        eps: float = 1e-5, activation: str | Cell | None = None, alpha: float = 0.2, after_fake: bool = True,
    ) -> None:  # fmt: skip
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
        self, in_channels: int, out_channels: int, weight_init: Initial = "normal", bias_init: Initial = "zeros",
        has_bias: bool = True, has_bn: bool = False, momentum: float = 0.9, eps: float = 1e-5,
        activation: str | Cell | None = None, alpha: float = 0.2, after_fake: bool = True,
    ) -> None:  # fmt: skip
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


class GroupNorm(Cell):
    """(x - mean) / sqrt(variance + eps) * gamma + beta over each group of channels of (N, C, ...).

    `gamma` and `beta` have a number for each channel. Statistics are computed in float32 regardless of `to_float`, and
    the result has the dtype of x. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    _shown = "num_groups num_channels eps"

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, gamma_init: Initial = "ones",
        beta_init: Initial = "zeros", dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_groups = positive_int("GroupNorm", "num_groups", num_groups)
        self.num_channels = positive_int("GroupNorm", "num_channels", num_channels)
        if num_channels % num_groups:
            raise GraphValueError(f"For 'GroupNorm', {num_channels} channels do not make {num_groups} groups.")
        self.eps = positive("GroupNorm", "eps", eps)
        self.affine, shape = boolean("GroupNorm", "affine", affine), (num_channels,)
        self.gamma = Parameter(initializer(gamma_init, shape, dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, shape, dtype), name="beta", requires_grad=affine)

    def construct(self, x: TensorLike) -> Tensor:
        return ops.group_norm(x, self.num_groups, raw_state(self.gamma), raw_state(self.beta), self.eps)


class InstanceNorm2d(Cell):
    """(x - mean) / sqrt(variance + eps) * gamma + beta for each channel of each image (N, C, H, W).

    Mean and variance are always those of the image, so there are no moving averages, and `momentum`, an argument of
    MindSpore's, changes nothing. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    _shown = "num_features eps"
    rank: ClassVar[int] = 4

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
        gamma_init: Initial = "ones", beta_init: Initial = "zeros", dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        self.num_features = positive_int(name, "num_features", num_features)
        self.eps, self.momentum = positive(name, "eps", eps), fraction(name, "momentum", momentum)
        self.affine, shape = boolean(name, "affine", affine), (num_features,)
        self.gamma = Parameter(initializer(gamma_init, shape, dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, shape, dtype), name="beta", requires_grad=affine)

    def construct(self, x: TensorLike) -> Tensor:
        x = tensor_of(x)
        if not x.dtype.is_float:
            raise GraphTypeError(f"{type(self).__name__} takes floats, not {x.type}.")
        if x.ndim != self.rank or x.shape[1] != self.num_features:
            raise GraphValueError(
                f"{type(self).__name__} of {self.num_features} features takes an input of rank {self.rank} with that "
                f"many channels, not {x.type}.",
            )
        return ops.group_norm(x, self.num_features, raw_state(self.gamma), raw_state(self.beta), self.eps)


class InstanceNorm1d(InstanceNorm2d):
    """Normalisation of each channel of each sequence (N, C, L); see InstanceNorm2d."""

    rank = 3


class InstanceNorm3d(InstanceNorm2d):
    """Normalisation of each channel of each volume (N, C, D, H, W); see InstanceNorm2d."""

    rank = 5


def _sizes(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    """One size or more; raises GraphTypeError or GraphValueError otherwise."""
    if not isinstance(shape, (tuple, list)):
        raise GraphTypeError(f"For {name!r}, the 'normalized_shape' must be tuple or list, but got {shape!r}.")
    if not shape:
        raise GraphValueError(f"For {name!r}, the 'normalized_shape' must have an axis.")
    return tuple(positive_int(name, "normalized_shape", n) for n in shape)


class LayerNorm(Cell):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, over the axes from `begin_norm_axis` on.

    `gamma` and `beta` have the shape `normalized_shape`, that of x from `begin_params_axis` on. Statistics are computed
    in float32 or wider regardless of `to_float`, and the result has the dtype of x (Ba, Kiros and Hinton, 2016). Raises
    GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    _shown = "normalized_shape begin_norm_axis begin_params_axis epsilon"

    def __init__(
        self, normalized_shape: Sequence[int], begin_norm_axis: int = -1, begin_params_axis: int = -1,
        gamma_init: Initial = "ones", beta_init: Initial = "zeros", epsilon: float = 1e-7, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _sizes("LayerNorm", normalized_shape)
        self.begin_norm_axis, self.begin_params_axis = begin_norm_axis, begin_params_axis
        self.epsilon = positive("LayerNorm", "epsilon", epsilon)
        self.gamma = Parameter(initializer(gamma_init, self.normalized_shape, dtype), name="gamma")
        self.beta = Parameter(initializer(beta_init, self.normalized_shape, dtype), name="beta")

    def construct(self, x: TensorLike) -> Tensor:
        x = tensor_of(x)
        if not x.dtype.is_float:
            raise GraphTypeError(f"LayerNorm takes floats, not {x.type}.")
        axis, first = axis_of(self.begin_norm_axis, x.ndim), axis_of(self.begin_params_axis, x.ndim)
        if x.shape[first:] != self.normalized_shape:
            shape, start = self.normalized_shape, self.begin_params_axis
            raise GraphValueError(f"LayerNorm of shape {shape} from axis {start} on does not fit {x.type}.")
        return normalised_from(x, axis, raw_state(self.gamma), raw_state(self.beta), self.epsilon)

    @cached_property
    def layer_norm(self) -> Any:
        """The operator of these settings, called by subclasses of MindSpore's; it returns statistics, too."""
        return ops.LayerNorm(self.begin_norm_axis, self.begin_params_axis, self.epsilon)


class RMSNorm(Cell):
    """x / sqrt(mean of x ** 2 + eps) * gamma over the last axes, whose sizes are `normalized_shape`.

    Computed in float32 regardless of `to_float`; the result has the dtype of x (Zhang and Sennrich, 2019).
    """

    _shown = "normalized_shape eps"

    def __init__(
        self, normalized_shape: Sequence[int], eps: float = 1e-6, gamma_init: Initial = "ones",
        dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _sizes("RMSNorm", normalized_shape)
        self.eps = positive("RMSNorm", "eps", eps)
        self.gamma = Parameter(initializer(gamma_init, self.normalized_shape, dtype), name="gamma")

    def construct(self, x: TensorLike) -> Tensor:
        return ops.rms_norm(x, raw_state(self.gamma), self.eps)[0]
