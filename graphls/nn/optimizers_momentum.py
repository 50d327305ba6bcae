"""Gradient descent, with and without momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, not_negative
from graphls.nn.optimizers import Optimizer, Tensors, states_like
from graphls.ops.operands import state_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = ["SGD", "Momentum"]


class Momentum(Optimizer):
    """v = momentum * v + g; w = w - lr * v, or with Nesterov's momentum w = w - lr * (g + momentum * v).

    The states v are `moments`, zeros at first. Raises as Optimizer does, and GraphTypeError unless `momentum` is a
    float.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any,
        momentum: float,
        weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if not isinstance(momentum, float):
            raise GraphTypeError(f"For 'Momentum', the 'momentum' must be float, not {momentum!r}.")
        not_negative("Momentum", "momentum", momentum)
        self.use_nesterov = boolean("Momentum", "use_nesterov", use_nesterov)
        self.momentum = Parameter(np.float32(momentum), name="momentum", requires_grad=False)
        self.moments = states_like(self.parameters, "moments")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        momentum = state_of(self.momentum)
        for parameter, moment, g, rate in zip(self.parameters, self.moments, gradients, rates, strict=True):
            velocity = ops.assign(moment, ops.add(ops.mul(state_of(moment), momentum), g))
            step = ops.add(g, ops.mul(velocity, momentum)) if self.use_nesterov else velocity
            self.descend(parameter, ops.mul(step, rate))


class SGD(Optimizer):
    """w = w - lr * g, or with momentum v = momentum * v + (1 - dampening) * g and w = w - lr * v.

    The first v is g. With Nesterov's momentum, w = w - lr * (g + momentum * v). The states are v in `accum`, and in
    `stat` whether the next v is the first, which is written only with dampening. Raises as Optimizer does, and
    GraphValueError for Nesterov's momentum without momentum or with dampening.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if any(isinstance(group.weight_decay, Cell) for group in self.groups):
            raise GraphTypeError("For 'SGD', the 'weight_decay' must be a number, not a cell.")
        self.has_momentum = not_negative("SGD", "momentum", momentum) > 0
        self.dampening = not_negative("SGD", "dampening", dampening)
        self.nesterov = boolean("SGD", "nesterov", nesterov)
        if nesterov and (not momentum or dampening):
            raise GraphValueError("For 'SGD', 'nesterov' needs a momentum and zero dampening.")
        self.momentum = Parameter(np.float32(momentum), name="momentum", requires_grad=False)
        self.accum = states_like(self.parameters, "accum")
        self.stat = states_like(self.parameters, "stat", 1.0)

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        momentum = state_of(self.momentum)
        for i, (parameter, g, rate) in enumerate(zip(self.parameters, gradients, rates, strict=True)):
            step = self._step(i, g, momentum) if self.has_momentum else g
            self.descend(parameter, ops.mul(step, rate))

    def _step(self, i: int, g: Tensor, momentum: Tensor) -> Tensor:
        accum = self.accum[i]
        velocity = ops.add(ops.mul(state_of(accum), momentum), ops.mul(g, 1 - self.dampening) if self.dampening else g)
        if self.dampening:
            stat = state_of(self.stat[i])
            is_first = ops.greater(stat, 0.0)
            velocity = ops.where(is_first, g, velocity)
            ops.assign(self.stat[i], ops.sub(stat, ops.cast(is_first, stat.dtype)))
        velocity = ops.assign(accum, velocity)
        return ops.add(g, ops.mul(velocity, momentum)) if self.nesterov else velocity
