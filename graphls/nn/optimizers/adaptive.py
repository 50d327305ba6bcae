"""Optimizers that divide a gradient, or a mean of gradients, by the root of past squares: Adagrad, Adam and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from graphls import ops
from graphls.base.checks import boolean, fraction, not_negative, positive
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.base import Decay, Decays, Optimizer, Parameters, Tensors, bias_correction, states_like
from graphls.ops.operands import Operand, state_of
from graphls.ops.update_rules import (
    above_zero,
    ada_max_step,
    adadelta_step,
    adagrad_sums,
    adam_correction,
    adam_direction,
    adam_moments,
    adam_step,
    ftrl_weight,
    proximal,
    rms_step,
    value_of,
    written,
)

__all__ = [
    "FTRL", "AdaMax", "Adadelta", "Adagrad", "Adam", "AdamW", "AdamWeightDecay", "LazyAdam", "Lion",
    "ProximalAdagrad", "RMSProp",
]  # fmt: skip


class RMSProp(Optimizer):
    """s = decay * s + (1 - decay) * g * g; v = momentum * v + lr * g / sqrt(s + epsilon); w = w - v.

    `centered` puts the variance s - a * a in place of s, where a = decay * a + (1 - decay) * g. The states are s in
    `mean_square`, ones at first, v in `moment` and a in `mean_grad`, zeros at first. Weight decay is added to the
    gradient. The formula is that of Graves (2013), as in MindSpore. Raises as Optimizer does, and for a `decay` outside
    of [0, 1].
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 0.1, decay: float = 0.9, momentum: float = 0.0,
        epsilon: float = 1e-10, use_locking: bool = False, centered: bool = False, loss_scale: float = 1.0,
        weight_decay: Decay = 0.0,
    ) -> None:  # fmt: skip
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
        self, params: Parameters, accum: float = 0.1, learning_rate: LearningRate = 0.001, update_slots: bool = True,
        loss_scale: float = 1.0, weight_decay: Decay = 0.0,
    ) -> None:  # fmt: skip
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
        self, params: Parameters, learning_rate: LearningRate = 1.0, rho: float = 0.9, epsilon: float = 1e-6,
        loss_scale: float = 1.0, weight_decay: Decay = 0.0,
    ) -> None:  # fmt: skip
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
    first, and u in `linear`, zeros at first, so that the first update discards the initial weight. Weight decay is
    added to the gradient. The formula is that of McMahan et al. (2013), as in MindSpore. Raises as Optimizer does,
    GraphTypeError for a learning rate that is not a number, and GraphValueError for groups with rates of their own, for
    a rate that is not above 0 and for an `lr_power` above 0.
    """

    def __init__(
        self, params: Parameters, initial_accum: float = 0.1, learning_rate: float = 0.001, lr_power: float = -0.5,
        l1: float = 0.0, l2: float = 0.0, use_locking: bool = False, loss_scale: float = 1.0, weight_decay: Decay = 0.0,
    ) -> None:  # fmt: skip
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
        self, params: Parameters, accum: float = 0.1, learning_rate: LearningRate = 0.001, l1: float = 0.0,
        l2: float = 0.0, use_locking: bool = False, loss_scale: float = 1.0, weight_decay: Decay = 0.0,
    ) -> None:  # fmt: skip
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


class Adam(Optimizer):
    """m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g * g; w = w - lr_t * m / (sqrt(v) + eps).

    lr_t = lr * sqrt(1 - beta2 ** t) / (1 - beta1 ** t) at update t (the form before section 2.1 of Kingma and Ba,
    2015). `use_nesterov` puts beta1 * m + (1 - beta1) * g in place of m, `use_amsgrad` the largest v so far in place of
    v. Weight decay is added to the gradient. The states are `moment1`, `moment2`, `vhat` and the powers of the betas.
    `use_locking`, `use_lazy` and `use_offload` say where and when MindSpore computes this, and change nothing here.
    Raises as Optimizer does, and for betas outside of (0, 1).
    """

    power_shape: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, use_locking: bool = False, use_nesterov: bool = False, weight_decay: Decay = 0.0,
        loss_scale: float = 1.0, use_amsgrad: bool = False, *, use_lazy: bool = False, use_offload: bool = False,
        state_bits: int = 32,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale, state_bits=state_bits)
        name = type(self).__name__
        self.beta1, self.beta2 = fraction(name, "beta1", beta1), fraction(name, "beta2", beta2)
        self.eps = positive(name, "eps", eps)
        without_effect = {"use_locking": use_locking, "use_lazy": use_lazy, "use_offload": use_offload}
        for setting, value in without_effect.items():
            boolean(name, setting, value)
        self.use_nesterov = boolean(name, "use_nesterov", use_nesterov)
        self.use_amsgrad = boolean(name, "use_amsgrad", use_amsgrad)
        ones = np.ones(self.power_shape, np.float32)
        self.beta1_power = Parameter(ones, name="beta1_power", requires_grad=False)
        self.beta2_power = Parameter(ones, name="beta2_power", requires_grad=False)
        self.add_states("moment1", "moment1")
        self.add_states("moment2", "moment2", is_signed=False)
        if use_amsgrad:
            self.add_states("vhat", "vhat", is_signed=False)

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        power1 = ops.assign(self.beta1_power, ops.mul(state_of(self.beta1_power), self.beta1))
        power2 = ops.assign(self.beta2_power, ops.mul(state_of(self.beta2_power), self.beta2))
        correction = ops.reshape(adam_correction(power1, power2), ())
        states = (self.moment1, self.moment2, *((self.vhat,) if self.use_amsgrad else ()))
        rows = zip(self.parameters, zip(*states, strict=True), gradients, rates, strict=True)
        for parameter, own, g, rate in rows:
            rate = ops.mul(rate, correction)
            self.descend(parameter, adam_step(own, g, (self.beta1, self.beta2), rate, self.eps, self.use_nesterov)[0])


class LazyAdam(Adam):
    """Adam, as MindSpore's LazyAdam is where gradients are dense, which they always are here.

    The states have the names of Adam's. Raises as Adam does.
    """

    power_shape = (1,)

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, use_locking: bool = False, use_nesterov: bool = False, weight_decay: Decay = 0.0,
        loss_scale: float = 1.0, *, state_bits: int = 32,
    ) -> None:  # fmt: skip
        settings = (learning_rate, beta1, beta2, eps, use_locking, use_nesterov, weight_decay, loss_scale)
        super().__init__(params, *settings, state_bits=state_bits)


class AdaMax(Optimizer):
    """m = beta1 * m + (1 - beta1) * g; v = max(beta2 * v, |g|); w = w - lr / (1 - beta1 ** t) * m / (v + eps).

    The variant of Adam by the largest gradient (section 7.1 of Kingma and Ba, 2015), at update t. Weight decay is added
    to the gradient. The states are m in `moment1`, v in `moment2` and `beta1_power`. Raises as Adam does.
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, weight_decay: Decay = 0.0, loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.beta1, self.beta2 = fraction("AdaMax", "beta1", beta1), fraction("AdaMax", "beta2", beta2)
        self.eps = positive("AdaMax", "eps", eps)
        self.beta1_power = Parameter(np.ones(1, np.float32), name="beta1_power", requires_grad=False)
        self.moment1 = states_like(self.parameters, "moment1")
        self.moment2 = states_like(self.parameters, "moment2")

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        power = ops.assign(self.beta1_power, ops.mul(state_of(self.beta1_power), self.beta1))
        correction = ops.sub(1.0, ops.reshape(power, ()))
        for i, (parameter, g, rate) in enumerate(zip(self.parameters, gradients, rates, strict=True)):
            m, v, betas = self.moment1[i], self.moment2[i], (self.beta1, self.beta2)
            self.descend(parameter, ada_max_step(m, v, g, betas, ops.div(rate, correction), self.eps)[0])


class WithDecay(Optimizer):
    """An optimizer whose `update_all` takes the weight decays beside gradients and rates."""

    def construct(self, gradients: Sequence[Tensor]) -> tuple[bool, ...]:
        gradients = self.scale_grad(self.gradients_centralization(self.widened(gradients)))
        rates, decays = self.rates_now(), self.decays_now()
        ops.assign_add(self.global_step, 1)
        self.update_all(gradients, rates, decays)
        return (True,) * len(gradients)

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        """Write every parameter, given its gradient, learning rate and weight decay, which is None for none."""
        raise NotImplementedError(f"{type(self).__name__} does not define update_all.")


class DecoupledOptimizer(WithDecay):
    """An optimizer by moments m and v."""

    def __init__(
        self, params: Parameters, learning_rate: LearningRate, betas: Sequence[float], eps: float, weight_decay: Decay,
        loss_scale: float = 1.0, prefix: str = "adam", state_bits: int = 32,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale, state_bits=state_bits)
        name = type(self).__name__
        self.beta1, self.beta2 = (fraction(name, f"beta{i + 1}", beta) for i, beta in enumerate(betas))
        self.eps = positive(name, "eps", eps)
        self.add_states("moments1", f"{prefix}_m")
        self.add_states("moments2", f"{prefix}_v", is_signed=False)

    def moments(self, i: int, g: Tensor) -> tuple[Tensor, Tensor]:
        """The new moments of a parameter: m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g."""
        return adam_moments(self.moments1[i], self.moments2[i], g, (self.beta1, self.beta2))


class AdamWeightDecay(DecoupledOptimizer):
    """w = w - lr * (m / (sqrt(v) + eps) + weight_decay * w), with Adam's moments and no correction of their bias.

    The states are m in `adam_m` and v in `adam_v`. This is the optimizer of BERT (Devlin et al., 2018). Raises as
    Optimizer does, and for betas outside of (0, 1).
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-6, weight_decay: Decay = 0.0, *, state_bits: int = 32,
    ) -> None:  # fmt: skip
        super().__init__(params, learning_rate, (beta1, beta2), eps, weight_decay, state_bits=state_bits)

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            parameter = self.parameters[i]
            step = adam_direction(*self.moments(i, g), self.weight(parameter), self.eps, decay)
            self.descend(parameter, ops.mul(step, rate))


class AdamW(DecoupledOptimizer):
    """w = w * (1 - lr * weight_decay) - lr / (1 - beta1 ** t) * m / (sqrt(v) / sqrt(1 - beta2 ** t) + eps).

    m and v are Adam's moments at update t, and the states `adam_m` and `adam_v`. `amsgrad` puts the largest v so far,
    the state `vhat`, in place of v. The formula is that of Loshchilov and Hutter (2019), as in PyTorch and MindFormers;
    outside of groups, parameters with beta or gamma in their names do not decay. Raises as Optimizer does, and
    for betas that are not two numbers in (0, 1).
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-3, betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: Decay = 1e-2, amsgrad: bool = False, loss_scale: float = 1.0,
        *, state_bits: int = 32,
    ) -> None:  # fmt: skip
        pair = pair_of_betas("AdamW", betas)
        super().__init__(params, learning_rate, pair, eps, weight_decay, loss_scale, state_bits=state_bits)
        self.amsgrad = boolean("AdamW", "amsgrad", amsgrad)
        if amsgrad:
            self.add_states("vhat", "vhat", is_signed=False)

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        rule = AdamWRule((self.beta1, self.beta2), self.eps, self.global_step)
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            m, v = self.moments(i, g)
            if self.amsgrad:
                v = written(self.vhat[i], ops.maximum(value_of(self.vhat[i]), v))
            ops.assign(self.parameters[i], rule.weight(self.weight(self.parameters[i]), m, v, rate, decay))


class AdamWRule:
    """The update of a weight by AdamW, with the bias corrections that all parameters share."""

    def __init__(self, betas: tuple[float, float], eps: float, global_step: Parameter) -> None:
        correction = ops.sqrt(bias_correction(betas[1], global_step))
        self.scale = ops.div(correction, bias_correction(betas[0], global_step))
        self.eps = ops.mul(correction, eps)

    def weight(self, w: Tensor, m: Tensor, v: Tensor, rate: Tensor, decay: Tensor | float | None) -> Tensor:
        """The new weight."""
        step = ops.div(ops.mul(m, ops.mul(rate, self.scale)), ops.add(ops.sqrt(v), self.eps))
        return ops.sub(decayed(w, rate, decay), step)


def decayed(w: Tensor, rate: Tensor, decay: Tensor | float | None) -> Tensor:
    """w * (1 - rate * decay); w itself without a decay."""
    return w if decay is None else ops.mul(w, ops.sub(1.0, ops.mul(rate, decay)))


def pair_of_betas(optimizer: str, betas: object) -> tuple[float, float]:
    """Two betas; raises GraphTypeError or GraphValueError for anything else."""
    if not isinstance(betas, (tuple, list)):
        raise GraphTypeError(f"For {optimizer!r}, the 'betas' must be a tuple or list, but got {betas!r}.")
    if len(betas) != 2:
        raise GraphValueError(f"For {optimizer!r}, the 'betas' must be two numbers, but got {betas!r}.")
    return betas[0], betas[1]


class Lion(WithDecay):
    """w = w * (1 - lr * weight_decay) - lr * sign(beta1 * m + (1 - beta1) * g), then m = beta2 * m + (1 - beta2) * g.

    The states m are `lion_m`, zeros at first. Every element moves by the learning rate, which is to be 3 to 10 times
    smaller than that of AdamW, with a weight decay that is as much larger. From Chen et al., "Symbolic Discovery of
    Optimization Algorithms" (2023, arXiv:2302.06675). Outside of groups, parameters with beta or gamma in their names
    do not decay. Raises as Optimizer does, and for betas that are not two numbers in (0, 1).
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-4, betas: Sequence[float] = (0.9, 0.99),
        weight_decay: Decay = 0.0, loss_scale: float = 1.0, *, state_bits: int = 32,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale, state_bits=state_bits)
        first, second = pair_of_betas("Lion", betas)
        self.beta1, self.beta2 = fraction("Lion", "beta1", first), fraction("Lion", "beta2", second)
        self.add_states("moments", "lion_m")

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            m = value_of(self.moments[i])
            direction = ops.sign(ops.add(ops.mul(m, self.beta1), ops.mul(g, 1 - self.beta1)))
            written(self.moments[i], ops.add(ops.mul(m, self.beta2), ops.mul(g, 1 - self.beta2)))
            w = decayed(self.weight(self.parameters[i]), rate, decay)
            ops.assign(self.parameters[i], ops.sub(w, ops.mul(direction, rate)))
