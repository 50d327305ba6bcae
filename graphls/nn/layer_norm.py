"""Layer normalisation."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.checks import positive, positive_int
from graphls.ops.operands import axis_of, state_of, tensor_of
from graphls.parameter import Parameter
from graphls.source import user_location
from graphls.tensor import Tensor


class LayerNorm(Cell):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta (Ba, Kiros and Hinton, 2016).

    Mean and variance are those over the axes from `begin_norm_axis` on; `gamma` and `beta` have the shape
    `normalized_shape`, which is that of x from `begin_params_axis` on. All is computed in float32 or wider whatever
    `to_float` says, and the result has the dtype of x. Raises GraphTypeError and GraphValueError for arguments and
    inputs that do not fit.
    """

    def __init__(
        self,
        normalized_shape: Any,
        begin_norm_axis: int = -1,
        begin_params_axis: int = -1,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        epsilon: float = 1e-7,
    ) -> None:
        super().__init__()
        if not isinstance(normalized_shape, (tuple, list)):
            raise GraphTypeError(
                f"For 'LayerNorm', the 'normalized_shape' must be tuple or list, but got {normalized_shape!r}.",
                user_location(),
            )
        shape = tuple(positive_int("LayerNorm", "normalized_shape", n) for n in normalized_shape)
        if not shape:
            raise GraphValueError("For 'LayerNorm', the 'normalized_shape' must have an axis.", user_location())
        self.normalized_shape = shape
        self.begin_norm_axis = begin_norm_axis
        self.begin_params_axis = begin_params_axis
        self.epsilon = positive("LayerNorm", "epsilon", epsilon)
        self.gamma = Parameter(initializer(gamma_init, shape), name="gamma")
        self.beta = Parameter(initializer(beta_init, shape), name="beta")

    def construct(self, x: Any) -> Tensor:
        x = tensor_of(x)
        axes = self._axes(x)
        wide = ops.cast(x, float32) if x.dtype.is_half else x
        centred = ops.sub(wide, ops.mean(wide, axes, keepdims=True))
        variance = ops.mean(ops.square(centred), axes, keepdims=True)
        normal = ops.mul(centred, ops.rsqrt(ops.add(variance, self.epsilon)))
        gamma, beta = (ops.cast(state_of(p), wide.dtype) for p in (self.gamma, self.beta))
        return ops.cast(ops.add(ops.mul(normal, gamma), beta), x.dtype)

    def _axes(self, x: Tensor) -> tuple[int, ...]:
        """The axes that are normalised; raises where x does not fit."""
        if not x.dtype.is_float:
            raise GraphTypeError(f"LayerNorm takes floats, not {x.type}.", user_location())
        if x.shape[axis_of(self.begin_params_axis, x.ndim) :] != self.normalized_shape:
            shape, axis = self.normalized_shape, self.begin_params_axis
            text = f"LayerNorm of shape {shape} from axis {axis} on does not fit {x.type}."
            raise GraphValueError(text, user_location())
        return tuple(range(axis_of(self.begin_norm_axis, x.ndim), x.ndim))

    def extend_repr(self) -> str:
        return (
            f"normalized_shape={self.normalized_shape}, begin_norm_axis={self.begin_norm_axis}, "
            f"begin_params_axis={self.begin_params_axis}, epsilon={self.epsilon}"
        )
