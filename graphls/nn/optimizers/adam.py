"""Adam and its variants: LazyAdam, AdaMax, and those whose weight decay is no part of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from graphls import ops
from graphls.ir.checks import boolean, fraction, positive
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.base import Decay, Decays, Optimizer, Parameters, Tensors, bias_correction, states_like
from graphls.ops.operands import state_of
from graphls.ops.update_rules import ada_max_step, adam_correction, adam_direction, adam_moments, adam_step
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = ["AdaMax", "Adam", "AdamW", "AdamWeightDecay", "LazyAdam"]


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
        self,
        params: Parameters,
        learning_rate: LearningRate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_locking: bool = False,
        use_nesterov: bool = False,
        weight_decay: Decay = 0.0,
        loss_scale: float = 1.0,
        use_amsgrad: bool = False,
        *,
        use_lazy: bool = False,
        use_offload: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
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
        self.moment1 = states_like(self.parameters, "moment1")
        self.moment2 = states_like(self.parameters, "moment2")
        if use_amsgrad:
            self.vhat = states_like(self.parameters, "vhat")

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
        self,
        params: Parameters,
        learning_rate: LearningRate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_locking: bool = False,
        use_nesterov: bool = False,
        weight_decay: Decay = 0.0,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(
            params, learning_rate, beta1, beta2, eps, use_locking, use_nesterov, weight_decay, loss_scale
        )


class AdaMax(Optimizer):
    """m = beta1 * m + (1 - beta1) * g; v = max(beta2 * v, |g|); w = w - lr / (1 - beta1 ** t) * m / (v + eps).

    The variant of Adam by the largest gradient (section 7.1 of Kingma and Ba, 2015), at update t. Weight decay is added
    to the gradient. The states are m in `moment1`, v in `moment2` and `beta1_power`. Raises as Adam does.
    """

    def __init__(
        self,
        params: Parameters,
        learning_rate: LearningRate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: Decay = 0.0,
        loss_scale: float = 1.0,
    ) -> None:
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
        self,
        params: Parameters,
        learning_rate: LearningRate,
        betas: Sequence[float],
        eps: float,
        weight_decay: Decay,
        loss_scale: float = 1.0,
        prefix: str = "adam",
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        name = type(self).__name__
        self.beta1, self.beta2 = (fraction(name, f"beta{i + 1}", beta) for i, beta in enumerate(betas))
        self.eps = positive(name, "eps", eps)
        self.moments1 = states_like(self.parameters, f"{prefix}_m")
        self.moments2 = states_like(self.parameters, f"{prefix}_v")

    def moments(self, i: int, g: Tensor) -> tuple[Tensor, Tensor]:
        """The new moments of a parameter: m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g."""
        return adam_moments(self.moments1[i], self.moments2[i], g, (self.beta1, self.beta2))


class AdamWeightDecay(DecoupledOptimizer):
    """w = w - lr * (m / (sqrt(v) + eps) + weight_decay * w), with Adam's moments and no correction of their bias.

    The states are m in `adam_m` and v in `adam_v`. This is the optimizer of BERT (Devlin et al., 2018). Raises as
    Optimizer does, and for betas outside of (0, 1).
    """

    def __init__(
        self,
        params: Parameters,
        learning_rate: LearningRate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: Decay = 0.0,
    ) -> None:
        super().__init__(params, learning_rate, (beta1, beta2), eps, weight_decay)

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
        self,
        params: Parameters,
        learning_rate: LearningRate = 1e-3,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: Decay = 1e-2,
        amsgrad: bool = False,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(params, learning_rate, _pair(betas), eps, weight_decay, loss_scale)
        self.amsgrad = boolean("AdamW", "amsgrad", amsgrad)
        if amsgrad:
            self.vhat = states_like(self.parameters, "vhat")

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        correction = ops.sqrt(bias_correction(self.beta2, self.global_step))
        scale = ops.div(correction, bias_correction(self.beta1, self.global_step))
        eps = ops.mul(correction, self.eps)
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            m, v = self.moments(i, g)
            if self.amsgrad:
                v = ops.assign(self.vhat[i], ops.maximum(state_of(self.vhat[i]), v))
            w = self.weight(self.parameters[i])
            if decay is not None:
                w = ops.mul(w, ops.sub(1.0, ops.mul(rate, decay)))
            step = ops.div(ops.mul(m, ops.mul(rate, scale)), ops.add(ops.sqrt(v), eps))
            ops.assign(self.parameters[i], ops.sub(w, step))


def _pair(betas: object) -> tuple[float, float]:
    if not isinstance(betas, (tuple, list)):
        raise GraphTypeError(f"For 'AdamW', the 'betas' must be a tuple or list, but got {betas!r}.")
    if len(betas) != 2:
        raise GraphValueError(f"For 'AdamW', the 'betas' must be two numbers, but got {betas!r}.")
    return betas[0], betas[1]
