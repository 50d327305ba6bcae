"""Parts of the formulas that several optimizers share."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.ir.types import float32
from graphls.ops.operands import state_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

FLOAT32 = np.finfo(np.float32)
"""The limits of float32."""


def averaged(state: Parameter, beta: float, value: Tensor) -> Tensor:
    """Write beta * state + (1 - beta) * value; returns the new state."""
    return ops.assign(state, ops.add(ops.mul(state_of(state), beta), ops.mul(value, rest_of(beta))))


def averaged_squares(state: Parameter, beta: float, value: Tensor) -> Tensor:
    """Write beta * state + (1 - beta) * value ** 2; returns the new state."""
    return averaged(state, beta, ops.square(value))


def rest_of(beta: float) -> float:
    """1 - beta for the float32 nearest to beta, so that both weights add up to 1 and match the powers of beta."""
    return float(np.float32(1) - np.float32(beta))


def bias_correction(beta: float, global_step: Parameter) -> Tensor:
    """1 - beta ** t after update t, by which an average that began at 0 is divided."""
    count = ops.reshape(ops.cast(state_of(global_step), float32), ())
    return ops.sub(1.0, ops.pow(beta, count))


def square_sum(tensor: Tensor) -> Tensor:
    """The sum of the squares of all elements."""
    return ops.sum(ops.square(tensor))
