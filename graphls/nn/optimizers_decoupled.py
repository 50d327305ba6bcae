"""Optimizers whose weight decay is no part of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls import ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.checks import boolean, fraction, positive
from graphls.nn.optimizers import Optimizer, Tensors, states_like
from graphls.nn.optimizers_averages import averaged, averaged_squares, bias_correction
from graphls.ops.operands import state_of
from graphls.tensors.tensor import Tensor

__all__ = ["AdamW", "AdamWeightDecay"]


class WithDecay(Optimizer):
    """An optimizer whose `update_all` takes the weight decays beside gradients and rates."""

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        gradients = self.scale_grad(self.gradients_centralization(self.widened(gradients)))
        rates, decays = self.rates_now(), self.decays_now()
        ops.assign_add(self.global_step, 1)
        self.update_all(gradients, rates, decays)
        return (True,) * len(gradients)

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Sequence[Any]) -> None:
        """Write every parameter, given its gradient, learning rate and weight decay, which is None for none."""
        raise NotImplementedError(f"{type(self).__name__} does not define update_all.")


class DecoupledOptimizer(WithDecay):
    """An optimizer by moments m and v."""

    def __init__(
        self,
        params: Any,
        learning_rate: Any,
        betas: tuple[float, float],
        eps: float,
        weight_decay: Any,
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
        return averaged(self.moments1[i], self.beta1, g), averaged_squares(self.moments2[i], self.beta2, g)


class AdamWeightDecay(DecoupledOptimizer):
    """w = w - lr * (m / (sqrt(v) + eps) + weight_decay * w), with Adam's moments and no correction of their bias.

    The states are m in `adam_m` and v in `adam_v`. This is the optimizer of BERT (Devlin et al., 2018). Raises as
    Optimizer does, and for betas outside of (0, 1).
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(params, learning_rate, (beta1, beta2), eps, weight_decay)

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Sequence[Any]) -> None:
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            parameter = self.parameters[i]
            m, v = self.moments(i, g)
            step = ops.div(m, ops.add(ops.sqrt(v), self.eps))
            if decay is not None:
                step = ops.add(step, ops.mul(self.weight(parameter), decay))
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
        params: Any,
        learning_rate: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: Any = 1e-2,
        amsgrad: bool = False,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(params, learning_rate, _pair(betas), eps, weight_decay, loss_scale)
        self.amsgrad = boolean("AdamW", "amsgrad", amsgrad)
        if amsgrad:
            self.vhat = states_like(self.parameters, "vhat")

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Sequence[Any]) -> None:
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


def _pair(betas: Any) -> tuple[float, float]:
    if not isinstance(betas, (tuple, list)):
        raise GraphTypeError(f"For 'AdamW', the 'betas' must be a tuple or list, but got {betas!r}.")
    if len(betas) != 2:
        raise GraphValueError(f"For 'AdamW', the 'betas' must be two numbers, but got {betas!r}.")
    return betas[0], betas[1]
