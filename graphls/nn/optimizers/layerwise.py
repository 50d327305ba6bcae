"""Optimizers that choose the length of a step for each parameter by its norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from graphls import ops
from graphls.ir.checks import boolean, positive
from graphls.ir.errors import GraphTypeError
from graphls.nn.cell import Cell
from graphls.nn.optimizers.adam import DecoupledOptimizer
from graphls.nn.optimizers.base import Optimizer, Tensors, bias_correction
from graphls.ops.update_rules import FLOAT32
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["LARS", "Lamb"]


class Lamb(DecoupledOptimizer):
    """w = w - trust * lr * (mhat / (sqrt(vhat) + eps) + weight_decay * w), with a trust for each parameter.

    mhat = m / (1 - beta1 ** t) and vhat = v / (1 - beta2 ** t) are Adam's moments at update t. The trust is |w| / |u|
    with u = mhat / sqrt(vhat + eps) + weight_decay * w, at most 10, and 1 where one of these Euclidean norms is 0.
    The states are m in `lamb_m` and v in `lamb_v`. From You et al. (2020), as MindSpore computes it. Raises as
    Optimizer does, and for betas outside of (0, 1).
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(params, learning_rate, (beta1, beta2), eps, weight_decay, prefix="lamb")

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Sequence[Any]) -> None:
        square = bias_correction(self.beta2, self.global_step)
        root = ops.sqrt(square)
        scale = ops.div(root, bias_correction(self.beta1, self.global_step))
        eps_in, eps_out = ops.mul(square, self.eps), ops.mul(root, self.eps)
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            m, v = self.moments(i, g)
            w, top = self.weight(self.parameters[i]), ops.mul(m, scale)
            directions = ops.div(top, ops.sqrt(ops.add(v, eps_in))), ops.div(top, ops.add(ops.sqrt(v), eps_out))
            if decay is not None:
                decayed = ops.mul(w, decay)
                directions = ops.add(directions[0], decayed), ops.add(directions[1], decayed)
            length = ops.mul(_trust(w, directions[0]), rate)
            self.descend(self.parameters[i], ops.mul(directions[1], length))


def _square_sum(tensor: Tensor) -> Tensor:
    """The sum of the squares of all elements."""
    return ops.sum(ops.square(tensor))


def _trust(w: Tensor, direction: Tensor) -> Tensor:
    """|w| / |direction|, at most 10; 1 where one of them is 0 or nan, and 0 where both are infinite."""
    top, bottom = _square_sum(w), _square_sum(direction)
    ratio = ops.sqrt(ops.div(ops.minimum(top, FLOAT32.max), bottom))
    return ops.where(ops.greater(ops.minimum(top, bottom), 0.0), ops.minimum(ratio, 10.0), 1.0)


SHARED = (
    "loss_scale", "is_group", "is_group_params_ordered", "is_group_lr", "groups", "group_numbers", "global_step",
    "learning_rate", "dynamic_lr", "group_rates", "weight_decay", "parameters",
)  # fmt: skip
"""The settings of an optimizer that LARS has too."""


def _is_scaled(parameter: Parameter) -> bool:
    return "LayerNorm" not in parameter.name and "bias" not in parameter.name


class LARS(Optimizer):
    """Gives another optimizer the gradients ratio * (g + weight_decay * w), with a ratio for each parameter.

    ratio = coefficient * |w| / (|g| + weight_decay * |w| + epsilon), by Euclidean norms; with `use_clip` it is
    min(ratio / lr, 1). Loss scale and weight decay of the optimizer are applied here, before and with the ratio, and
    no longer there. The gradients of parameters for which `lars_filter(parameter)` is false are not changed, and these
    parameters do not decay. A parameter that holds only zeros has a ratio of 0 and stays as it is. From You et al.
    (2017), as in MindSpore. Raises GraphTypeError where `optimizer` is no Optimizer or `lars_filter` no function, and
    GraphValueError where `epsilon` or `coefficient` is not above 0.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        epsilon: float = 1e-05,
        coefficient: float = 0.001,
        use_clip: bool = False,
        lars_filter: Callable[[Parameter], Any] = _is_scaled,
    ) -> None:
        Cell.__init__(self, auto_prefix=False)
        self.__dict__["_phase"] = "update"
        if not isinstance(optimizer, Optimizer):
            raise GraphTypeError(f"LARS takes an Optimizer, not {optimizer!r}.")
        if not callable(lars_filter):
            raise GraphTypeError(f"The 'lars_filter' of LARS is a function, not {lars_filter!r}.")
        self.epsilon = positive("LARS", "epsilon", epsilon)
        self.coefficient = positive("LARS", "coefficient", coefficient)
        self.use_clip = boolean("LARS", "use_clip", use_clip)
        for name in SHARED:
            setattr(self, name, getattr(optimizer, name))
        self.lars_flag = tuple(bool(lars_filter(parameter)) for parameter in self.parameters)
        optimizer.groups = tuple(replace(group, weight_decay=0.0) for group in optimizer.groups)
        optimizer.loss_scale, optimizer.weight_decay = 1.0, 0.0
        self.opt = optimizer

    def construct(self, gradients: Any) -> Any:
        gradients = self.scale_grad(self.widened(gradients))
        rows = zip(self.parameters, gradients, self.decays_now(), self.rates_now(), self.lars_flag, strict=True)
        return self.opt(tuple(self._scaled(p, g, decay, rate) if flag else g for p, g, decay, rate, flag in rows))

    def _scaled(self, parameter: Parameter, g: Tensor, decay: TensorLike, rate: Tensor) -> Tensor:
        w = self.weight(parameter)
        norm = ops.sqrt(_square_sum(w))
        bottom = ops.add(ops.sqrt(_square_sum(g)), self.epsilon)
        if decay is not None:
            bottom = ops.add(bottom, ops.mul(norm, decay))
            g = ops.add(g, ops.mul(w, decay))
        if not self.use_clip:
            return ops.mul(g, ops.div(ops.mul(norm, self.coefficient), bottom))
        factor = ops.div(self.coefficient, ops.maximum(rate, FLOAT32.tiny))
        return ops.mul(g, ops.minimum(ops.div(ops.mul(norm, factor), bottom), 1.0))
