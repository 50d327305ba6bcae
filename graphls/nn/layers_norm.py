"""Normalisation layers."""

from __future__ import annotations

from math import prod
from typing import Any

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, positive, positive_int
from graphls.ops.operands import state_of, tensor_of
from graphls.parameter import Parameter
from graphls.source import user_location
from graphls.tensor import Tensor


class BatchNorm2d(Cell):
    """(x - mean) / sqrt(variance + eps) * gamma + beta for each channel of images (N, C, H, W).

    In training mean and variance are those of the batch, and the moving ones become momentum * old + (1 - momentum) *
    batch, of which the variance is the unbiased one; in evaluation the moving ones are used. Statistics are computed
    in float32 whatever `to_float` says, and the result has the dtype of x. `use_batch_statistics` decides between
    both in place of `set_train`. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    axes: tuple[int, ...] = (0, 2, 3)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones",
        use_batch_statistics: bool | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.num_features = positive_int(name, "num_features", num_features)
        self.eps = positive(name, "eps", eps)
        self.momentum = _momentum(name, momentum)
        self.use_batch_statistics = use_batch_statistics
        affine, shape = boolean(name, "affine", affine), (num_features,)
        self.moving_mean = Parameter(initializer(moving_mean_init, shape), name="mean", requires_grad=False)
        self.moving_variance = Parameter(initializer(moving_var_init, shape), name="variance", requires_grad=False)
        self.gamma = Parameter(initializer(gamma_init, shape), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, shape), name="beta", requires_grad=affine)

    def construct(self, x: Any) -> Tensor:
        x = tensor_of(x)
        self._check(x)
        wide = ops.cast(x, float32) if x.dtype.is_half else x
        by_batch = self.training if self.use_batch_statistics is None else self.use_batch_statistics
        y = self._by_batch(wide) if by_batch else self._by_moving(wide)
        return ops.cast(y, x.dtype)

    def _check(self, x: Tensor) -> None:
        if not x.dtype.is_float:
            raise GraphTypeError(f"{type(self).__name__} takes floats, not {x.type}.", user_location())
        if x.ndim != len(self.axes) + 1 or x.shape[1] != self.num_features:
            raise GraphValueError(
                f"{type(self).__name__} of {self.num_features} features takes an input of rank {len(self.axes) + 1} "
                f"with that many channels, not {x.type}.",
                user_location(),
            )

    def _by_batch(self, x: Tensor) -> Tensor:
        mean = ops.mean(x, self.axes, keepdims=True)
        centred = ops.sub(x, mean)
        variance = ops.mean(ops.square(centred), self.axes, keepdims=True)
        count = prod(x.shape[i] for i in self.axes)
        unbiased = ops.mul(variance, count / max(1, count - 1))
        self._move(self.moving_mean, mean)
        self._move(self.moving_variance, unbiased)
        return self._scaled(centred, variance)

    def _by_moving(self, x: Tensor) -> Tensor:
        centred = ops.sub(x, self._column(state_of(self.moving_mean), x))
        return self._scaled(centred, self._column(state_of(self.moving_variance), x))

    def _move(self, moving: Parameter, batch: Tensor) -> None:
        batch = ops.reshape(ops.stop_gradient(batch), moving.shape)
        kept = ops.mul(state_of(moving), self.momentum)
        ops.assign(moving, ops.add(kept, ops.mul(batch, 1 - self.momentum)))

    def _scaled(self, centred: Tensor, variance: Tensor) -> Tensor:
        scale = ops.mul(ops.rsqrt(ops.add(variance, self.eps)), self._column(state_of(self.gamma), centred))
        return ops.add(ops.mul(centred, scale), self._column(state_of(self.beta), centred))

    def _column(self, per_channel: Tensor, x: Tensor) -> Tensor:
        """A value for each channel, in the dtype of x and in a shape that broadcasts to it."""
        shape = tuple(self.num_features if i == 1 else 1 for i in range(x.ndim))
        return ops.reshape(ops.cast(per_channel, x.dtype), shape)

    def extend_repr(self) -> str:
        return f"num_features={self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(BatchNorm2d):
    """Batch normalisation of (N, C)."""

    axes = (0,)


def _momentum(name: str, momentum: Any) -> float:
    if isinstance(momentum, bool) or not isinstance(momentum, (int, float)):
        raise GraphTypeError(f"For {name!r}, the 'momentum' must be a number, but got {momentum!r}.", user_location())
    if not 0 <= momentum <= 1:
        raise GraphValueError(
            f"For {name!r}, the 'momentum' must be a number in [0, 1], but got {momentum}.", user_location()
        )
    return float(momentum)
