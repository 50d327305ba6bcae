"""Normalisation of each image by itself: groups of channels, single channels, channels that are near."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, fraction, positive, positive_int
from graphls.ops.operands import state_of, tensor_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = ["LRN", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


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
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        dtype: Any = float32,
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

    def construct(self, x: Any) -> Tensor:
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
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        dtype: Any = float32,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.num_features = positive_int(name, "num_features", num_features)
        self.eps, self.momentum = positive(name, "eps", eps), fraction(name, "momentum", momentum)
        affine, shape = boolean(name, "affine", affine), (num_features,)
        self.gamma = Parameter(initializer(gamma_init, shape, dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, shape, dtype), name="beta", requires_grad=affine)

    def construct(self, x: Any) -> Tensor:
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


class LRN(Cell):
    """x / (bias + alpha * sum of x ** 2 over near channels) ** beta, for images (N, C, H, W); see `ops.lrn`."""

    def __init__(
        self,
        depth_radius: int = 5,
        bias: float = 1.0,
        alpha: float = 1.0,
        beta: float = 0.5,
        norm_region: str = "ACROSS_CHANNELS",
    ) -> None:
        super().__init__()
        self.depth_radius, self.bias, self.alpha, self.beta = depth_radius, bias, alpha, beta
        self.norm_region = norm_region

    def construct(self, x: Any) -> Tensor:
        return ops.lrn(x, self.depth_radius, self.bias, self.alpha, self.beta, self.norm_region)

    def extend_repr(self) -> str:
        return f"depth_radius={self.depth_radius}, bias={self.bias}, alpha={self.alpha}, beta={self.beta}"
