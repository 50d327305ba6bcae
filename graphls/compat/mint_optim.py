"""`mindspore.mint.optim` and `mindspore.experimental.optim`: optimizers and schedules with the arguments of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls import nn
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.base import Decay, Optimizer, Parameters
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "Optimizer",
    "PolynomialLR",
    "StepLR",
]


def minimising(name: str, maximize: bool) -> None:
    """Raise GraphValueError for an optimizer that is to maximise."""
    if maximize:
        raise GraphValueError(f"{name} minimises; give it the negative loss instead of 'maximize'.")


class Adam(nn.Adam):
    """Adam; decay is part of the gradient. Raises as Optimizer does, and GraphValueError for `maximize`."""

    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 0.0, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("Adam", maximize)
        super().__init__(_list(params), lr, *betas, eps, weight_decay=weight_decay, use_amsgrad=amsgrad)


class AdamW(nn.AdamW):
    """Adam whose decay is no part of the gradient. Raises as Optimizer does, and GraphValueError for `maximize`."""

    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("AdamW", maximize)
        super().__init__(_list(params), lr, betas, eps, weight_decay, amsgrad)


class SGD(nn.SGD):
    """Gradient descent with momentum. Raises as Optimizer does, and GraphValueError for `maximize`."""

    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("SGD", maximize)
        super().__init__(_list(params), lr, momentum, dampening, weight_decay, nesterov)


def _list(params: Any) -> Any:
    return params if isinstance(params, (list, tuple)) else list(params)


class LRScheduler:
    """Learning rates that change whenever `step` is called: the first rates times a factor of the number of calls.

    Raises GraphTypeError for what is no optimizer, or one whose rates are a schedule of its own.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise GraphTypeError(f"A schedule takes an Optimizer, not {optimizer!r}.")
        self.optimizer, self.last_epoch = optimizer, last_epoch
        rates = [rate for rate in optimizer.group_rates if isinstance(rate, Parameter)]
        if len(rates) < len(optimizer.group_rates):
            text = "A schedule changes learning rates that are numbers, and this optimizer has a schedule of its own."
            raise GraphTypeError(text)
        self._rates: list[Parameter] = list({id(rate): rate for rate in rates}.values())
        self.base_lrs = [float(rate.asnumpy()) for rate in self._rates]
        self.step()

    def factor(self, count: int, group: int) -> float:
        """What the first rate of a group is multiplied by, after so many calls of `step`."""
        raise NotImplementedError(f"{type(self).__name__} does not define factor.")

    def get_last_lr(self) -> list[float]:
        """The rates of now."""
        return [float(rate.asnumpy()) for rate in self._rates]

    def step(self, epoch: int | None = None) -> None:
        """Go to the next rates, or to those of a number."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for group, (rate, first) in enumerate(zip(self._rates, self.base_lrs, strict=True)):
            rate.set_data(np.asarray(first * self.factor(self.last_epoch, group), rate.dtype.numpy).reshape(rate.shape))


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` calls."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return float(self.gamma ** (count // self.step_size))


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the milestones."""

    def __init__(self, optimizer: Optimizer, milestones: Tensor, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return float(self.gamma ** sum(milestone <= count for milestone in self.milestones))


class ExponentialLR(LRScheduler):
    """Times `gamma` at each call."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return float(self.gamma**count)


class LambdaLR(LRScheduler):
    """Times what a function, or one for each group, gives for the number of calls."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.functions: list[Callable[[int], float]] | None = list(lr_lambda) if isinstance(lr_lambda, list) else None
        self.function = lr_lambda
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        function = self.function if self.functions is None else self.functions[group]
        return float(function(count))


class LinearLR(LRScheduler):
    """From `start_factor` to `end_factor` in equal steps."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        share = min(count, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share


class ConstantLR(LinearLR):
    """`factor` for the first `total_iters` calls, then 1."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        super().__init__(optimizer, factor, 1.0, total_iters, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return self.start_factor if count < self.total_iters else 1.0


class PolynomialLR(LRScheduler):
    """Down to 0 in `total_iters` calls, by a power of what is left of them."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return float((1 - min(count, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to `eta_min` in `T_max` calls, and back again."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        low = self.eta_min / self.base_lrs[group]
        return low + (1 - low) * (1 + math.cos(math.pi * count / self.T_max)) / 2
