"""Muon: steps along a nearly orthogonalised momentum for matrices, and AdamW for all other parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphls import ops
from graphls.base.checks import boolean, fraction, positive, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.adaptive import AdamWRule, WithDecay, decayed, pair_of_betas
from graphls.nn.optimizers.base import Decay, Decays, Parameters, Tensors, states_like
from graphls.ops.operands import state_of
from graphls.ops.update_rules import adam_moments

__all__ = ["Muon"]

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial whose iteration lifts singular values to about 1 in few steps (Jordan, 2024)."""

SIZES: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}
"""Factors of the learning rate by the shape of a matrix."""


class Muon(WithDecay):
    """m = momentum * m + (1 - momentum) * g; w = w * (1 - lr * weight_decay) - lr * size * orthogonal(m).

    With `nesterov`, m is replaced by (1 - momentum) * g + momentum * m. `orthogonal` is `ns_steps` of a Newton-Schulz
    iteration in float32; with more than two axes, those after the first are flattened into one. `adjust_lr_fn` is
    "match_rms_adamw", a size of 0.2 * sqrt(max(rows, columns)), with which one learning rate fits all parameters, or
    "original", sqrt(max(1, rows / columns)). Parameters of rank 0 and 1, and those for which `muon_filter(parameter)`
    is false (embeddings and the last layer, say), are updated as by AdamW with `betas` and `adam_eps`. The states are
    `muon_m`, and `adam_m` and `adam_v` of the others. From Jordan et al. (2024, kellerjordan.github.io/posts/muon) and
    Liu et al. (2025, arXiv:2502.16982), as torch.optim.Muon, which takes matrices only and iterates in bfloat16.

    Raises as Optimizer does, and GraphTypeError and GraphValueError for settings that do not fit, also for a parameter
    of rank 0 or 1 that `muon_filter` accepts.
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-3, weight_decay: Decay = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_steps: int = 5, eps: float = 1e-7, adjust_lr_fn: str = "match_rms_adamw",
        muon_filter: Callable[[Parameter], bool] | None = None, betas: Sequence[float] = (0.9, 0.999),
        adam_eps: float = 1e-8, loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.momentum = fraction("Muon", "momentum", momentum)
        self.nesterov = boolean("Muon", "nesterov", nesterov)
        self.ns_steps, self.eps = positive_int("Muon", "ns_steps", ns_steps), positive("Muon", "eps", eps)
        if adjust_lr_fn not in SIZES:
            raise GraphValueError(f"For 'Muon', the 'adjust_lr_fn' is {' or '.join(SIZES)}, not {adjust_lr_fn!r}.")
        self.adjust_lr_fn = adjust_lr_fn
        first, second = pair_of_betas("Muon", betas)
        self.beta1, self.beta2 = fraction("Muon", "beta1", first), fraction("Muon", "beta2", second)
        self.adam_eps = positive("Muon", "adam_eps", adam_eps)
        self.muon_flag = tuple(_is_matrix_update(p, muon_filter) for p in self.parameters)
        self._add_states()

    def _add_states(self) -> None:
        flagged = [*zip(self.parameters, self.muon_flag, strict=True)]
        self.matrices = [p for p, is_matrix in flagged if is_matrix]
        self.others = [p for p, is_matrix in flagged if not is_matrix]
        self.moments = states_like(self.matrices, "muon_m")
        self.moments1 = states_like(self.others, "adam_m")
        self.moments2 = states_like(self.others, "adam_v")

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        moments, adam = iter(self.moments), iter(zip(self.moments1, self.moments2, strict=True))
        rule = AdamWRule((self.beta1, self.beta2), self.adam_eps, self.global_step) if self.others else None
        rows = zip(self.parameters, self.muon_flag, gradients, rates, decays, strict=True)
        for parameter, is_matrix, g, rate, decay in rows:
            w = self.weight(parameter)
            if is_matrix or rule is None:
                step = ops.mul(self._direction(next(moments), g), rate)
                ops.assign(parameter, ops.sub(decayed(w, rate, decay), step))
            else:
                m, v = adam_moments(*next(adam), g, (self.beta1, self.beta2))
                ops.assign(parameter, rule.weight(w, m, v, rate, decay))

    def _direction(self, moment: Parameter, g: Tensor) -> Tensor:
        """The step of a matrix, for a learning rate of 1."""
        momentum = self.momentum
        m = ops.assign(moment, ops.add(ops.mul(state_of(moment), momentum), ops.mul(g, 1 - momentum)))
        if self.nesterov:
            m = ops.add(ops.mul(g, 1 - momentum), ops.mul(m, momentum))
        matrix = ops.reshape(m, (m.shape[0], -1))
        step = ops.mul(orthogonal(matrix, self.ns_steps, self.eps), SIZES[self.adjust_lr_fn](*matrix.shape))
        return ops.reshape(step, m.shape)


def orthogonal(matrix: Tensor, steps: int, eps: float) -> Tensor:
    """Nearly U @ V.T of a matrix U @ S @ V.T: its singular values become about 0.7 to 1.2."""
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]  # the product of a matrix with itself is then smaller from the right
    x = ops.swapaxes(matrix, 0, 1) if is_tall else matrix
    x = ops.div(x, ops.maximum(ops.sqrt(ops.sum(ops.square(x))), eps))
    for _ in range(steps):
        gram = ops.matmul(x, ops.swapaxes(x, 0, 1))
        polynomial = ops.add(ops.mul(gram, b), ops.mul(ops.matmul(gram, gram), c))
        x = ops.add(ops.mul(x, a), ops.matmul(polynomial, x))
    return ops.swapaxes(x, 0, 1) if is_tall else x


def _is_matrix_update(parameter: Parameter, muon_filter: Callable[[Parameter], bool] | None) -> bool:
    """Returns whether a parameter is updated as a matrix."""
    if muon_filter is None:
        return len(parameter.shape) > 1
    if not callable(muon_filter):
        raise GraphTypeError(f"For 'Muon', the 'muon_filter' is a function of a parameter, not {muon_filter!r}.")
    is_selected = bool(muon_filter(parameter))
    if is_selected and len(parameter.shape) < 2:
        shape = parameter.shape
        raise GraphValueError(f"Muon updates matrices, but its filter takes {parameter.name!r} of shape {shape}.")
    return is_selected
