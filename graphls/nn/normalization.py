"""Normalisation of each sample by itself: groups of channels, single or near channels, and the last axes."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.checks import boolean, fraction, positive, positive_int
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.ops.normalization import normalised_from
from graphls.ops.operands import axis_of, state_of, tensor_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "RMSNorm"]


class GroupNorm(Cell):
    """(x - mean) / sqrt(variance + eps) * gamma + beta over each group of channels of (N, C, ...).

    `gamma` and `beta` have a number for each channel. Statistics are computed in float32 whatever `to_float` says, and
    the result has the dtype of x. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        gamma_init: object = "ones",
        beta_init: TensorLike = "zeros",
        dtype: DTypeLike = float32,
    ) -> None:
        super().__init__()
        self.num_groups = positive_int("GroupNorm", "num_groups", num_groups)
        self.num_channels = positive_int("GroupNorm", "num_channels", num_channels)
        if num_channels % num_groups:
            raise GraphValueError(f"For 'GroupNorm', {num_channels} channels do not make {num_groups} groups.")
        self.eps = positive("GroupNorm", "eps", eps)
        affine, shape = boolean("GroupNorm", "affine", affine), (num_channels,)
        self.gamma = Parameter(initializer(gamma_init, shape, dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, shape, dtype), name="beta", requires_grad=affine)

    def construct(self, x: TensorLike) -> Tensor:
        return ops.group_norm(x, self.num_groups, state_of(self.gamma), state_of(self.beta), self.eps)

    def extend_repr(self) -> str:
        return f"num_groups={self.num_groups}, num_channels={self.num_channels}, eps={self.eps}"


class InstanceNorm2d(Cell):
    """(x - mean) / sqrt(variance + eps) * gamma + beta for each channel of each image (N, C, H, W).

    Mean and variance are always those of the image, so there are no moving ones, and `momentum` changes nothing; it is
    taken because MindSpore takes it. Raises GraphTypeError and GraphValueError for arguments and inputs that do not
    fit.
    """

    rank: ClassVar[int] = 4

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        gamma_init: object = "ones",
        beta_init: TensorLike = "zeros",
        dtype: DTypeLike = float32,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.num_features = positive_int(name, "num_features", num_features)
        self.eps, self.momentum = positive(name, "eps", eps), fraction(name, "momentum", momentum)
        affine, shape = boolean(name, "affine", affine), (num_features,)
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
        return ops.group_norm(x, self.num_features, state_of(self.gamma), state_of(self.beta), self.eps)

    def extend_repr(self) -> str:
        return f"num_features={self.num_features}, eps={self.eps}"


class InstanceNorm1d(InstanceNorm2d):
    """Normalisation of each channel of each sequence (N, C, L); see InstanceNorm2d."""

    rank = 3


class InstanceNorm3d(InstanceNorm2d):
    """Normalisation of each channel of each volume (N, C, D, H, W); see InstanceNorm2d."""

    rank = 5


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    """One size or more; raises GraphTypeError or GraphValueError otherwise."""
    if not isinstance(shape, (tuple, list)):
        raise GraphTypeError(f"For {name!r}, the 'normalized_shape' must be tuple or list, but got {shape!r}.")
    if not shape:
        raise GraphValueError(f"For {name!r}, the 'normalized_shape' must have an axis.")
    return tuple(positive_int(name, "normalized_shape", n) for n in shape)


class LayerNorm(Cell):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, over the axes from `begin_norm_axis` on.

    `gamma` and `beta` have the shape `normalized_shape`, that of x from `begin_params_axis` on. Statistics are computed
    in float32 or wider whatever `to_float` says, and the result has the dtype of x (Ba, Kiros and Hinton, 2016). Raises
    GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self,
        normalized_shape: Any,
        begin_norm_axis: int = -1,
        begin_params_axis: int = -1,
        gamma_init: object = "ones",
        beta_init: object = "zeros",
        epsilon: float = 1e-7,
        dtype: DTypeLike = float32,
    ) -> None:
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
        return normalised_from(x, axis, state_of(self.gamma), state_of(self.beta), self.epsilon)

    def extend_repr(self) -> str:
        return (
            f"normalized_shape={self.normalized_shape}, begin_norm_axis={self.begin_norm_axis}, "
            f"begin_params_axis={self.begin_params_axis}, epsilon={self.epsilon}"
        )


class RMSNorm(Cell):
    """x / sqrt(mean of x ** 2 + eps) * gamma over the last axes, whose sizes are `normalized_shape`.

    Computed in float32 whatever `to_float` says; the result has the dtype of x (Zhang and Sennrich, 2019).
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-6, gamma_init: object = "ones", dtype: Any = float32
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes("RMSNorm", normalized_shape)
        self.eps = positive("RMSNorm", "eps", eps)
        self.gamma = Parameter(initializer(gamma_init, self.normalized_shape, dtype), name="gamma")

    def construct(self, x: TensorLike) -> Tensor:
        return ops.rms_norm(x, state_of(self.gamma), self.eps)[0]

    def extend_repr(self) -> str:
        return f"normalized_shape={self.normalized_shape}, eps={self.eps}"
