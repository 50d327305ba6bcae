"""Normalisation over the last axes: by mean and variance, or by the root of the mean square."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.checks import positive, positive_int
from graphls.ops.normalization import normalised_from
from graphls.ops.operands import axis_of, state_of, tensor_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = ["LayerNorm", "RMSNorm"]


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
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        epsilon: float = 1e-7,
        dtype: Any = float32,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes("LayerNorm", normalized_shape)
        self.begin_norm_axis, self.begin_params_axis = begin_norm_axis, begin_params_axis
        self.epsilon = positive("LayerNorm", "epsilon", epsilon)
        self.gamma = Parameter(initializer(gamma_init, self.normalized_shape, dtype), name="gamma")
        self.beta = Parameter(initializer(beta_init, self.normalized_shape, dtype), name="beta")

    def construct(self, x: Any) -> Tensor:
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
        self, normalized_shape: Any, eps: float = 1e-6, gamma_init: Any = "ones", dtype: Any = float32
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes("RMSNorm", normalized_shape)
        self.eps = positive("RMSNorm", "eps", eps)
        self.gamma = Parameter(initializer(gamma_init, self.normalized_shape, dtype), name="gamma")

    def construct(self, x: Any) -> Tensor:
        return ops.rms_norm(x, state_of(self.gamma), self.eps)[0]

    def extend_repr(self) -> str:
        return f"normalized_shape={self.normalized_shape}, eps={self.eps}"
