"""Optimizers that divide a gradient by the root of past squares of it: RMSProp, Adagrad, Adadelta."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.ir.errors import GraphValueError
from graphls.nn.checks import boolean, not_negative, positive
from graphls.nn.optimizers import Optimizer, Tensors, states_like
from graphls.nn.optimizers_averages import FLOAT32, averaged, averaged_squares
from graphls.ops.operands import state_of
from graphls.tensors.tensor import Tensor

__all__ = ["Adadelta", "Adagrad", "RMSProp"]


class RMSProp(Optimizer):
    """s = decay * s + (1 - decay) * g * g; v = momentum * v + lr * g / sqrt(s + epsilon); w = w - v.

    `centered` puts the variance s - a * a in place of s, where a = decay * a + (1 - decay) * g. The states are s in
    `mean_square`, ones at first, v in `moment` and a in `mean_grad`, zeros at first. Weight decay is added to the
    gradient. The formula is that of Graves (2013), as in MindSpore. Raises as Optimizer does, and for a `decay` outside
    of [0, 1].
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.decay = _share("RMSProp", "decay", decay)
        self.momentum = not_negative("RMSProp", "momentum", momentum)
        self.epsilon = positive("RMSProp", "epsilon", epsilon)
        boolean("RMSProp", "use_locking", use_locking)
        self.centered = boolean("RMSProp", "centered", centered)
        if centered:
            self.mg = states_like(self.parameters, "mean_grad")
        self.ms = states_like(self.parameters, "mean_square", 1.0)
        self.moment = states_like(self.parameters, "moment")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        for i, (parameter, g, rate) in enumerate(zip(self.parameters, gradients, rates, strict=True)):
            step = ops.div(ops.mul(g, rate), ops.sqrt(ops.add(self._squares(i, g), self.epsilon)))
            if self.momentum:
                step = ops.add(ops.mul(state_of(self.moment[i]), self.momentum), step)
            self.descend(parameter, ops.assign(self.moment[i], step))

    def _squares(self, i: int, g: Tensor) -> Tensor:
        """The mean of past squares or, where centered, their variance, which rounding must not make negative."""
        squares = averaged_squares(self.ms[i], self.decay, g)
        if not self.centered:
            return squares
        return ops.maximum(ops.sub(squares, ops.square(averaged(self.mg[i], self.decay, g))), 0.0)


class Adagrad(Optimizer):
    """h = h + g * g; w = w - lr * g / sqrt(h).

    The states h are `accum`, of the value `accum` at first; without `update_slots` they stay so. Where h is 0, nothing
    is subtracted. Weight decay is added to the gradient. From Duchi et al. (2011), as in MindSpore. Raises as
    Optimizer does, and GraphValueError where `accum` is below 0, or 0 without `update_slots`.
    """

    def __init__(
        self,
        params: Any,
        accum: float = 0.1,
        learning_rate: Any = 0.001,
        update_slots: bool = True,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        start = not_negative("Adagrad", "accum", accum)
        self.update_slots = boolean("Adagrad", "update_slots", update_slots)
        if not start and not update_slots:
            raise GraphValueError("For 'Adagrad', the 'accum' must be above 0 where 'update_slots' is False.")
        self.starts_at_zero = np.float32(start) == 0
        self.accum = states_like(self.parameters, "accum", start)

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        for parameter, accum, g, rate in zip(self.parameters, self.accum, gradients, rates, strict=True):
            sums = state_of(accum)
            if self.update_slots:
                sums = ops.assign(accum, ops.add(sums, ops.square(g)))
            if self.starts_at_zero:
                sums = ops.maximum(sums, FLOAT32.tiny)
            self.descend(parameter, ops.div(ops.mul(g, rate), ops.sqrt(sums)))


class Adadelta(Optimizer):
    """a = rho * a + (1 - rho) * g * g; d = g * sqrt(u + epsilon) / sqrt(a + epsilon); w = w - lr * d.

    After that, u = rho * u + (1 - rho) * d * d. The states are a in `accum` and u in `accum_update`, zeros at first.
    Weight decay is added to the gradient. From Zeiler (2012). Raises as Optimizer does, and for a `rho` outside of
    [0, 1].
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1.0,
        rho: float = 0.9,
        epsilon: float = 1e-6,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.rho = _share("Adadelta", "rho", rho)
        self.epsilon = positive("Adadelta", "epsilon", epsilon)
        self.accum = states_like(self.parameters, "accum")
        self.accum_update = states_like(self.parameters, "accum_update")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        for i, (parameter, g, rate) in enumerate(zip(self.parameters, gradients, rates, strict=True)):
            squares = averaged_squares(self.accum[i], self.rho, g)
            past = ops.add(state_of(self.accum_update[i]), self.epsilon)
            step = ops.mul(g, ops.sqrt(ops.div(past, ops.add(squares, self.epsilon))))
            averaged_squares(self.accum_update[i], self.rho, step)
            self.descend(parameter, ops.mul(step, rate))


def _share(optimizer: str, name: str, value: Any) -> float:
    """A number from 0 to 1; raises GraphTypeError or GraphValueError otherwise."""
    if not_negative(optimizer, name, value) > 1:
        raise GraphValueError(f"For {optimizer!r}, the {name!r} must be in [0, 1], but got {value!r}.")
    return float(value)
