"""Lion: steps of one size along the signs of a momentum."""

from __future__ import annotations

from collections.abc import Sequence

from graphls import ops
from graphls.base.checks import fraction
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.adaptive import WithDecay, decayed, pair_of_betas
from graphls.nn.optimizers.base import Decay, Decays, Parameters, Tensors, states_like
from graphls.ops.operands import state_of

__all__ = ["Lion"]


class Lion(WithDecay):
    """w = w * (1 - lr * weight_decay) - lr * sign(beta1 * m + (1 - beta1) * g), then m = beta2 * m + (1 - beta2) * g.

    The states m are `lion_m`, zeros at first. Every element moves by the learning rate, which is to be 3 to 10 times
    smaller than that of AdamW, with a weight decay that is as much larger. From Chen et al., "Symbolic Discovery of
    Optimization Algorithms" (2023, arXiv:2302.06675). Outside of groups, parameters with beta or gamma in their names
    do not decay. Raises as Optimizer does, and for betas that are not two numbers in (0, 1).
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-4, betas: Sequence[float] = (0.9, 0.99),
        weight_decay: Decay = 0.0, loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        first, second = pair_of_betas("Lion", betas)
        self.beta1, self.beta2 = fraction("Lion", "beta1", first), fraction("Lion", "beta2", second)
        self.moments = states_like(self.parameters, "lion_m")

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            m = state_of(self.moments[i])
            direction = ops.sign(ops.add(ops.mul(m, self.beta1), ops.mul(g, 1 - self.beta1)))
            ops.assign(self.moments[i], ops.add(ops.mul(m, self.beta2), ops.mul(g, 1 - self.beta2)))
            w = decayed(self.weight(self.parameters[i]), rate, decay)
            ops.assign(self.parameters[i], ops.sub(w, ops.mul(direction, rate)))
