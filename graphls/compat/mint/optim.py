"""`mindspore.mint.optim` and `mindspore.experimental.optim`: optimizers and schedules with the arguments of PyTorch."""

from __future__ import annotations

from graphls import nn
from graphls.base.errors import GraphValueError
from graphls.compat.mint import schedules as mint_schedules
from graphls.compat.mint.groups import GroupedOptimizer, in_groups
from graphls.compat.mint.groups import GroupedOptimizer as Optimizer
from graphls.compat.mint.schedules import *  # noqa: F403
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.base import Decay, Parameters

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", *mint_schedules.__all__]


def minimising(name: str, maximize: bool) -> None:
    """Raise GraphValueError for an optimizer that is to maximise."""
    if maximize:
        raise GraphValueError(f"{name} minimises; give it the negative loss instead of 'maximize'.")


class Adam(GroupedOptimizer, nn.Adam):
    """Adam; decay is part of the gradient. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 0.0, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("Adam", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, *betas, eps, weight_decay=weight_decay, use_amsgrad=amsgrad)


class AdamW(GroupedOptimizer, nn.AdamW):
    """Adam whose decay is no part of the gradient. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("AdamW", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, betas, eps, weight_decay, amsgrad)


class SGD(GroupedOptimizer, nn.SGD):
    """Gradient descent with momentum. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("SGD", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, momentum, dampening, weight_decay, nesterov)
