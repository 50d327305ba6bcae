"""Gradient descent: plain, with momentum, with averaged parameters (ASGD), and by the sign of slopes (Rprop)."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.base.checks import boolean, float_number, fraction, not_negative, number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.base import Decay, Optimizer, Parameters, Tensors, states_like
from graphls.ops.operands import state_of
from graphls.ops.update_rules import ahead, damped, momentum_step, value_of, written

__all__ = ["ASGD", "SGD", "Momentum", "Rprop"]


class Momentum(Optimizer):
    """v = momentum * v + g; w = w - lr * v, or with Nesterov's momentum w = w - lr * (g + momentum * v).

    The states v are `moments`, zeros at first. Raises as Optimizer does, and GraphTypeError unless `momentum` is a
    float.
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate, momentum: float, weight_decay: Decay = 0.0,
        loss_scale: float = 1.0, use_nesterov: bool = False, *, state_bits: int = 32,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale, state_bits=state_bits)
        if not isinstance(momentum, float):
            raise GraphTypeError(f"For 'Momentum', the 'momentum' must be float, not {momentum!r}.")
        not_negative("Momentum", "momentum", momentum)
        self.use_nesterov = boolean("Momentum", "use_nesterov", use_nesterov)
        self.momentum = Parameter(np.float32(momentum), name="momentum", requires_grad=False)
        self.add_states("moments", "moments")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        momentum = state_of(self.momentum)
        for parameter, moment, g, rate in zip(self.parameters, self.moments, gradients, rates, strict=True):
            self.descend(parameter, ops.mul(momentum_step(moment, g, momentum, self.use_nesterov), rate))


class SGD(Optimizer):
    """w = w - lr * g, or with momentum v = momentum * v + (1 - dampening) * g and w = w - lr * v.

    The first v is g. With Nesterov's momentum, w = w - lr * (g + momentum * v). The states are v in `accum`, and in
    `stat` whether the next v is the first, which is written only with dampening. Raises as Optimizer does, and
    GraphValueError for Nesterov's momentum without momentum or with dampening.
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 0.1, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, loss_scale: float = 1.0, *, state_bits: int = 32,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale, state_bits=state_bits)
        if any(isinstance(group.weight_decay, Cell) for group in self.groups):
            raise GraphTypeError("For 'SGD', the 'weight_decay' must be a number, not a cell.")
        self.has_momentum = not_negative("SGD", "momentum", momentum) > 0
        self.dampening = not_negative("SGD", "dampening", dampening)
        self.nesterov = boolean("SGD", "nesterov", nesterov)
        if nesterov and (not momentum or dampening):
            raise GraphValueError("For 'SGD', 'nesterov' needs a momentum and zero dampening.")
        self.momentum = Parameter(np.float32(momentum), name="momentum", requires_grad=False)
        self.add_states("accum", "accum")
        self.stat = states_like(self.parameters, "stat", 1.0)

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        momentum = state_of(self.momentum)
        for i, (parameter, g, rate) in enumerate(zip(self.parameters, gradients, rates, strict=True)):
            step = self._step(i, g, momentum) if self.has_momentum else g
            self.descend(parameter, ops.mul(step, rate))

    def _step(self, i: int, g: Tensor, momentum: Tensor) -> Tensor:
        accum = self.accum[i]
        velocity = damped(value_of(accum), g, momentum, self.dampening)
        if self.dampening:
            stat = state_of(self.stat[i])
            is_first = ops.greater(stat, 0.0)
            velocity = ops.where(is_first, g, velocity)
            ops.assign(self.stat[i], ops.sub(stat, ops.cast(is_first, stat.dtype)))
        velocity = written(accum, velocity)
        return ahead(g, velocity, momentum) if self.nesterov else velocity


class ASGD(Optimizer):
    """w = w * (1 - lambd * eta) - eta * g; ax = ax + (w - ax) * mu.

    At update t, eta = lr / (1 + lambd * lr * (t - 1)) ** alpha and mu = 1 / max(1, t - 1 - t0): the state `ax`, zeros
    at first, is w itself and, from update t0 + 2 on, the mean of w since. Weight decay is added to the gradient. From
    Polyak and Juditsky (1992), as in MindSpore and PyTorch. Raises as Optimizer does, and GraphTypeError where `lambd`,
    `alpha` or `t0` is not a number.
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 0.1, lambd: float = 1e-4, alpha: float = 0.75,
        t0: float = 1e6, weight_decay: Decay = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay)
        self.lambd, self.alpha, self.t0 = (
            float_number("ASGD", name, value) for name, value in (("lambd", lambd), ("alpha", alpha), ("t0", t0))
        )
        self.ax = states_like(self.parameters, "ax_")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        past = ops.sub(_count(self.global_step), 1.0)
        mu = ops.reciprocal(ops.maximum(ops.sub(past, self.t0), 1.0))
        rest = ops.sub(1.0, mu)
        for parameter, ax, g, rate in zip(self.parameters, self.ax, gradients, rates, strict=True):
            slowed = ops.add(ops.mul(ops.mul(rate, past), self.lambd), 1.0)
            eta = ops.div(rate, ops.pow(slowed, self.alpha))
            shrinkage = ops.sub(1.0, ops.mul(eta, self.lambd))
            w = ops.sub(ops.mul(self.weight(parameter), shrinkage), ops.mul(g, eta))
            ops.assign(parameter, w)
            ops.assign(ax, ops.add(ops.mul(state_of(ax), rest), ops.mul(w, mu)))


class Rprop(Optimizer):
    """w = w - s * sign(g), where the step s grows or shrinks with each element's own sign.

    s begins as the learning rate. Where g has the sign of the last gradient, s is multiplied by etas[1]; where it has
    the other one, s is multiplied by etas[0] and g counts as 0, also as the last gradient of the next update. s stays
    between the `step_sizes`. The states are the last gradient in `prev` and s in `step_size`. Weight decay is added to
    the gradient. From Riedmiller and Braun (1993), as in MindSpore and PyTorch. Raises as Optimizer does,
    GraphTypeError where `etas` or `step_sizes` is not a tuple of two numbers, and GraphValueError unless etas[0] is in
    (0, 1), etas[1] above 1 and the step sizes rise.
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 0.1, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0), weight_decay: Decay = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay)
        self.etaminus, self.etaplus = _pair("etas", etas)
        self.step_size_min, self.step_size_max = _pair("step_sizes", step_sizes)
        fraction("Rprop", "etaminus", self.etaminus)
        if self.etaplus <= 1 or self.step_size_min > self.step_size_max:
            text = "For Rprop, etas[1] is above 1 and maximal step size should not be less than minimal step size, "
            text += f"but got {etas} and {step_sizes}."
            raise GraphValueError(text)
        self.prev = states_like(self.parameters, "prev")
        self.step_size = states_like(self.parameters, "step_size")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        is_first = ops.less(_count(self.global_step), 1.5)
        for i, (parameter, g, rate) in enumerate(zip(self.parameters, gradients, rates, strict=True)):
            product = ops.mul(ops.sign(g), ops.sign(state_of(self.prev[i])))
            turns = ops.less(product, 0.0)
            factor = ops.where(turns, self.etaminus, ops.where(ops.greater(product, 0.0), self.etaplus, 1.0))
            size = ops.where(is_first, rate, state_of(self.step_size[i]))
            size = ops.clip_by_value(ops.mul(size, factor), self.step_size_min, self.step_size_max)
            size = ops.assign(self.step_size[i], size)
            g = ops.assign(self.prev[i], ops.where(turns, 0.0, g))
            self.descend(parameter, ops.mul(size, ops.sign(g)))


def _count(global_step: Parameter) -> Tensor:
    """The number of the update, from 1 on, as float32."""
    return ops.reshape(ops.cast(state_of(global_step), float32), ())


def _pair(setting: str, pair: TensorLike) -> tuple[float, float]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        error = GraphValueError if isinstance(pair, tuple) else GraphTypeError
        raise error(f"For Rprop, {setting} must be a tuple with the size of 2, but got {pair!r}.")
    return number("Rprop", setting, pair[0]), number("Rprop", setting, pair[1])
