"""Optimizers that divide a gradient by the root of past squares of it, also with regularization by l1 and l2."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.ir.checks import boolean, not_negative, positive
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.base import Decay, Optimizer, Parameters, Tensors, states_like
from graphls.ops.operands import Operand
from graphls.ops.update_rules import above_zero, adadelta_step, adagrad_sums, ftrl_weight, proximal, rms_step
from graphls.tensors.tensor import TensorLike

__all__ = ["FTRL", "Adadelta", "Adagrad", "ProximalAdagrad", "RMSProp"]


class RMSProp(Optimizer):
    """s = decay * s + (1 - decay) * g * g; v = momentum * v + lr * g / sqrt(s + epsilon); w = w - v.

    `centered` puts the variance s - a * a in place of s, where a = decay * a + (1 - decay) * g. The states are s in
    `mean_square`, ones at first, v in `moment` and a in `mean_grad`, zeros at first. Weight decay is added to the
    gradient. The formula is that of Graves (2013), as in MindSpore. Raises as Optimizer does, and for a `decay` outside
    of [0, 1].
    """

    def __init__(
        self,
        params: Parameters,
        learning_rate: LearningRate = 0.1,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        loss_scale: float = 1.0,
        weight_decay: Decay = 0.0,
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
            mean = self.mg[i] if self.centered else None
            step = rms_step(self.ms[i], self.moment[i], g, rate, self.decay, self.momentum, self.epsilon, mean)
            self.descend(parameter, step)


class Adagrad(Optimizer):
    """h = h + g * g; w = w - lr * g / sqrt(h).

    The states h are `accum`, of the value `accum` at first; without `update_slots` they stay so. Where h is 0, nothing
    is subtracted. Weight decay is added to the gradient. From Duchi et al. (2011), as in MindSpore. Raises as
    Optimizer does, and GraphValueError where `accum` is below 0, or 0 without `update_slots`.
    """

    def __init__(
        self,
        params: Parameters,
        accum: float = 0.1,
        learning_rate: LearningRate = 0.001,
        update_slots: bool = True,
        loss_scale: float = 1.0,
        weight_decay: Decay = 0.0,
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
            sums = above_zero(adagrad_sums(accum, g, self.update_slots), self.starts_at_zero)
            self.descend(parameter, ops.div(ops.mul(g, rate), ops.sqrt(sums)))


class Adadelta(Optimizer):
    """a = rho * a + (1 - rho) * g * g; d = g * sqrt(u + epsilon) / sqrt(a + epsilon); w = w - lr * d.

    After that, u = rho * u + (1 - rho) * d * d. The states are a in `accum` and u in `accum_update`, zeros at first.
    Weight decay is added to the gradient. From Zeiler (2012). Raises as Optimizer does, and for a `rho` outside of
    [0, 1].
    """

    def __init__(
        self,
        params: Parameters,
        learning_rate: LearningRate = 1.0,
        rho: float = 0.9,
        epsilon: float = 1e-6,
        loss_scale: float = 1.0,
        weight_decay: Decay = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.rho = _share("Adadelta", "rho", rho)
        self.epsilon = positive("Adadelta", "epsilon", epsilon)
        self.accum = states_like(self.parameters, "accum")
        self.accum_update = states_like(self.parameters, "accum_update")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        for i, (parameter, g, rate) in enumerate(zip(self.parameters, gradients, rates, strict=True)):
            step, *_ = adadelta_step(self.accum[i], self.accum_update[i], g, self.rho, self.epsilon)
            self.descend(parameter, ops.mul(step, rate))


def _share(optimizer: str, name: str, value: Operand) -> float:
    """A number from 0 to 1; raises GraphTypeError or GraphValueError otherwise."""
    if not_negative(optimizer, name, value) > 1:
        raise GraphValueError(f"For {optimizer!r}, the {name!r} must be in [0, 1], but got {value!r}.")
    return float(value)


class FTRL(Optimizer):
    """m' = m + g * g; u = u + g - (m' ** p - m ** p) / lr * w; w = (sign(u) * l1 - u) / (m' ** p / lr + 2 * l2).

    Where |u| is not above l1, w is 0; p is -lr_power. The states are m in `moments`, of the value `initial_accum` at
    first, and u in `linear`, zeros at first, so that the first update forgets what a weight was. Weight decay is added
    to the gradient. The formula is that of McMahan et al. (2013), as in MindSpore. Raises as Optimizer does,
    GraphTypeError for a learning rate that is no number, and GraphValueError for groups with rates of their own, for a
    rate that is not above 0 and for an `lr_power` above 0.
    """

    def __init__(
        self,
        params: Parameters,
        initial_accum: float = 0.1,
        learning_rate: float = 0.001,
        lr_power: float = -0.5,
        l1: float = 0.0,
        l2: float = 0.0,
        use_locking: bool = False,
        loss_scale: float = 1.0,
        weight_decay: Decay = 0.0,
    ) -> None:
        super().__init__(positive("FTRL", "learning_rate", learning_rate), params, weight_decay, loss_scale)
        if self.is_group_lr:
            raise GraphValueError("FTRL takes one learning rate, not one for each group.")
        start = not_negative("FTRL", "initial_accum", initial_accum)
        self.lr_power = _power(lr_power)
        self.l1, self.l2 = not_negative("FTRL", "l1", l1), not_negative("FTRL", "l2", l2)
        boolean("FTRL", "use_locking", use_locking)
        self.starts_at_zero = np.float32(start) == 0
        self.moments = states_like(self.parameters, "moments", start)
        self.linear = states_like(self.parameters, "linear")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        inverse = ops.reciprocal(rates[0])
        for i, g in enumerate(gradients):
            weight, moment, linear = self.parameters[i], self.moments[i], self.linear[i]
            w, power, zero = self.weight(weight), self.lr_power, self.starts_at_zero
            ops.assign(weight, ftrl_weight(moment, linear, w, g, inverse, power, self.l1, self.l2, zero))


def _power(value: TensorLike) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise GraphTypeError(f"For 'FTRL', the 'lr_power' must be a number, but got {value!r}.")
    if not -float("inf") < value <= 0:
        raise GraphValueError(f"For 'FTRL', the 'lr_power' must be at most 0, but got {value!r}.")
    return float(value)


class ProximalAdagrad(Optimizer):
    """h = h + g * g; v = w - lr * g / sqrt(h); w = sign(v) * max(|v| - lr * l1, 0) / (1 + lr * l2).

    The states h are `accum`, of the value `accum` at first. Weight decay is added to the gradient. From Duchi and
    Singer (2009), as in MindSpore. Raises as Optimizer does, and where `accum`, `l1` or `l2` is below 0.
    """

    def __init__(
        self,
        params: Parameters,
        accum: float = 0.1,
        learning_rate: LearningRate = 0.001,
        l1: float = 0.0,
        l2: float = 0.0,
        use_locking: bool = False,
        loss_scale: float = 1.0,
        weight_decay: Decay = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        name = "ProximalAdagrad"
        self.l1, self.l2 = not_negative(name, "l1", l1), not_negative(name, "l2", l2)
        boolean(name, "use_locking", use_locking)
        start = not_negative(name, "accum", accum)
        self.starts_at_zero = np.float32(start) == 0
        self.accum = states_like(self.parameters, "accum", start)

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        for parameter, accum, g, rate in zip(self.parameters, self.accum, gradients, rates, strict=True):
            sums = above_zero(adagrad_sums(accum, g), self.starts_at_zero)
            step = ops.div(ops.mul(g, rate), ops.sqrt(sums))
            ops.assign(parameter, proximal(ops.sub(self.weight(parameter), step), rate, self.l1, self.l2))
