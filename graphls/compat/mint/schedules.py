"""`mindspore.experimental.optim.lr_scheduler`: learning rate schedules that advance when `step` is called."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from graphls.base.checks import at_least, between, float_number, integer, number
from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.base.reporting import guarded
from graphls.compat.mint.groups import set_rate
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.nn.optimizers.base import Optimizer

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR",
    "StepLR",
]  # fmt: skip


Rates: TypeAlias = "float | Sequence[float]"
"""A number for all groups, or one for each."""
Functions: TypeAlias = "Callable[[int], float] | Sequence[Callable[[int], float]]"
"""A function of the number of calls, for all groups or one for each."""


def _rates_of(optimizer: object) -> list[Parameter]:
    """The learning rates of the groups; raises GraphTypeError for another object, or a rate that is a schedule."""
    if not isinstance(optimizer, Optimizer):
        raise GraphTypeError(f"A schedule takes an Optimizer, not {optimizer!r}.")
    rates = [rate for rate in optimizer.group_rates if isinstance(rate, Parameter)]
    if len(rates) < len(optimizer.group_rates):
        text = "A schedule changes learning rates that are numbers, and this optimizer has a schedule of its own."
        raise GraphTypeError(text)
    return list({id(rate): rate for rate in rates}.values())


class LRScheduler:
    """A schedule that sets the learning rates of the groups to the results of `get_lr` when `step` is called.

    A subclass defines `get_lr`, or `factor`, by which the initial rates are multiplied. Raises GraphTypeError for
    anything but an optimizer, and for one whose rates are a schedule; GraphKeyError for groups without an "initial_lr"
    if the schedule goes on at `last_epoch`.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.__init__ = guarded(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self._rates = _rates_of(optimizer)
        self.optimizer, self.last_epoch = optimizer, integer(type(self).__name__, "last_epoch", last_epoch)
        groups = getattr(optimizer, "param_groups", [{} for _ in self._rates])
        for index, (group, rate) in enumerate(zip(groups, self._rates, strict=True)):
            if last_epoch != -1 and groups is getattr(optimizer, "param_groups", None) and "initial_lr" not in group:
                raise GraphKeyError(f"To go on at an epoch, group {index} needs an 'initial_lr'.")
            group.setdefault("initial_lr", float(rate.asnumpy()))
        self.base_lrs = [float(group["initial_lr"]) for group in groups]
        self.step()

    def factor(self, count: int, group: int) -> float:
        """The factor of the initial rate of a group after `count` calls of `step`."""
        raise NotImplementedError(f"{type(self).__name__} defines neither get_lr nor factor.")

    def get_lr(self) -> list[Any]:
        """The rates of the groups for `last_epoch`."""
        return [first * self.factor(self.last_epoch, group) for group, first in enumerate(self.base_lrs)]

    def get_last_lr(self) -> list[Tensor]:
        """The current rates."""
        return [rate.value() for rate in self._rates]

    def step(self, epoch: int | None = None) -> None:
        """Advance to the next rates, or to those of an epoch."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for rate, value in zip(self._rates, self.get_lr(), strict=True):
            set_rate(rate, value)


class StepLR(LRScheduler):
    """Multiplies the rate by `gamma` every `step_size` calls."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = integer("StepLR", "step_size", step_size)
        self.gamma = float_number("StepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return float(self.gamma ** (count // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiplies the rate by `gamma` at each of the milestones."""

    def __init__(self, optimizer: Optimizer, milestones: list[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        if not isinstance(milestones, list):
            raise GraphTypeError(f"The milestones are a list of integers, not {milestones!r}.")
        self.milestones = [integer("MultiStepLR", "milestones", milestone) for milestone in milestones]
        self.gamma = float_number("MultiStepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return float(self.gamma ** sum(milestone <= count for milestone in self.milestones))


class ExponentialLR(LRScheduler):
    """Multiplies the rate by `gamma` at each call."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = float_number("ExponentialLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return float(self.gamma**count)


class LambdaLR(LRScheduler):
    """Multiplies the initial rate by a function, or one for each group, of the number of calls.

    Raises GraphValueError unless there are as many functions as groups.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Functions, last_epoch: int = -1) -> None:
        count = len(_rates_of(optimizer))
        self.lr_lambdas: list[Callable[[int], float]] = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise GraphValueError(f"There are {count} groups, and {len(self.lr_lambdas)} functions of learning rates.")
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return float(self.lr_lambdas[group](count))


class MultiplicativeLR(LambdaLR):
    """Multiplies the current rate at each call by a function, or one for each group, of the number of calls."""

    def get_lr(self) -> list[Any]:
        now = [float(rate.asnumpy()) for rate in self._rates]
        factors = [self.factor(self.last_epoch, group) if self.last_epoch > 0 else 1.0 for group in range(len(now))]
        return [rate * factor for rate, factor in zip(now, factors, strict=True)]


class LinearLR(LRScheduler):
    """A factor from `start_factor` to `end_factor` in equal steps."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not start_factor > 0:
            raise GraphValueError(f"The 'start_factor' is above 0 and at most 1, not {start_factor!r}.")
        self.start_factor = number("LinearLR", "start_factor", start_factor, 0, 1)
        self.end_factor = number("LinearLR", "end_factor", end_factor, 0, 1)
        self.total_iters = integer("LinearLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        share = min(count, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share


class ConstantLR(LRScheduler):
    """The factor `factor` for the first `total_iters` calls, then 1."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        self.start_factor = number("ConstantLR", "factor", factor, 0, 1)
        self.total_iters = integer("ConstantLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def factor(self, count: int, group: int) -> float:
        return self.start_factor if count < self.total_iters else 1.0


class PolynomialLR(LRScheduler):
    """Decays to 0 in `total_iters` calls, by a power of the share of remaining calls."""

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
        return self._annealed(count / self.T_max, group)

    def _annealed(self, share: float, group: int) -> float:
        """The factor after a share of half a cosine."""
        low = self.eta_min / self.base_lrs[group]
        return low + (1 - low) * (1 + math.cos(math.pi * share)) / 2


class CosineAnnealingWarmRestarts(CosineAnnealingLR):
    """Half a cosine down to `eta_min` in `T_0` calls, again in `T_0 * T_mult`, and so on (Loshchilov and Hutter, 2017).

    Raises GraphTypeError and GraphValueError for lengths that are not integers of 1 or more.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_0 = at_least(1)("CosineAnnealingWarmRestarts", "T_0", T_0)
        self.T_mult = at_least(1)("CosineAnnealingWarmRestarts", "T_mult", T_mult)
        super().__init__(optimizer, T_0, eta_min, last_epoch)

    def factor(self, count: int, group: int) -> float:
        length = self.T_0
        while count >= length:
            count, length = count - length, length * self.T_mult
        return self._annealed(count / length, group)


SCALES: dict[str, tuple[str, Callable[..., float]]] = {
    "triangular": ("cycle", lambda x, gamma: 1.0),
    "triangular2": ("cycle", lambda x, gamma: 0.5 ** (x - 1)),
    "exp_range": ("iterations", lambda x, gamma: float(gamma**x)),
}
"""The amplitude of each mode: the number that it depends on, and a function of that and of `gamma`."""


class CyclicLR(LRScheduler):
    """Rises from `base_lr` to `max_lr` in `step_size_up` calls and falls again, in cycles (Smith, 2017).

    `base_lr` and `max_lr` are numbers, or lists of one for each group. Raises GraphValueError for another mode, and for
    lists of another length.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Rates, max_lr: Rates, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if scale_fn is None and mode not in SCALES:
            raise GraphValueError(f"The 'mode' must be one of {list(SCALES)}, but got {mode!r}.")
        if scale_mode not in ("cycle", "iterations"):
            raise GraphValueError(f"The 'scale_mode' must be 'cycle' or 'iterations', but got {scale_mode!r}.")
        self.up = at_least(1)("CyclicLR", "step_size_up", step_size_up)
        self.down = self.up if step_size_down is None else at_least(1)("CyclicLR", "step_size_down", step_size_down)
        self.scale_mode = scale_mode if scale_fn is not None else SCALES[mode][0]
        self.scale: Callable[[float], float] = scale_fn or partial(SCALES[mode][1], gamma=gamma)
        count = len(_rates_of(optimizer))
        self.lows, self.highs = _of_each("base_lr", base_lr, count), _of_each("max_lr", max_lr, count)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        length = self.up + self.down
        cycle, position = self.last_epoch // length + 1, self.last_epoch % length
        share = position / self.up if position <= self.up else (length - position) / self.down
        scale = self.scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        return [low + (high - low) * share * scale for low, high in zip(self.lows, self.highs, strict=True)]


def _of_each(name: str, rates: Rates, count: int) -> list[float]:
    """One number for each group."""
    numbers = list(rates) if isinstance(rates, Sequence) else [rates] * count
    if len(numbers) != count:
        raise GraphValueError(f"There are {count} groups, and {len(numbers)} numbers for {name!r}.")
    return [float(each) for each in numbers]


class SequentialLR:
    """Several schedules of one optimizer, each of which starts at one of the `milestones`.

    Raises GraphValueError for schedules of other optimizers and for a wrong number of milestones.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if any(scheduler.optimizer is not optimizer for scheduler in schedulers):
            raise GraphValueError("SequentialLR takes schedules of its own optimizer.")
        if len(milestones) != len(schedulers) - 1:
            text = f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones, not {len(milestones)}"
            raise GraphValueError(f"{text}.")
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        self._schedulers, self.milestones = schedulers, milestones
        schedulers[0].step(0)

    def step(self) -> None:
        """Advance the current schedule."""
        self.last_epoch += 1
        turn = sum(milestone <= self.last_epoch for milestone in self.milestones)
        is_first = turn > 0 and self.milestones[turn - 1] == self.last_epoch
        self._schedulers[turn].step(0 if is_first else None)

    def get_last_lr(self) -> list[Tensor]:
        """The current rates."""
        return self._schedulers[0].get_last_lr()


class ReduceLROnPlateau:
    """Multiplies the rates by `factor` when the metric of `step` has not improved for more than `patience` calls.

    An improvement is a decrease by a share `threshold` of the best ("rel") or by `threshold` itself ("abs"), in the
    mode "max" an increase. The next `cooldown` calls do not count. Raises GraphTypeError and GraphValueError for
    invalid settings.
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Rates = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        self.optimizer, self._rates = optimizer, _rates_of(optimizer)
        for name, value, known in (("mode", mode, ("min", "max")), ("threshold_mode", threshold_mode, ("rel", "abs"))):
            if value not in known:
                raise GraphValueError(f"The {name!r} must be one of {list(known)}, but got {value!r}.")
        self.factor = between(0)("ReduceLROnPlateau", "factor", factor)
        if self.factor >= 1:
            raise GraphValueError(f"The 'factor' must be below 1, but got {factor!r}.")
        self.patience, self.cooldown = patience, cooldown
        self.min_lrs, self.eps = _of_each("min_lr", min_lr, len(self._rates)), eps
        self.sign = 1.0 if mode == "min" else -1.0
        self.threshold, self.is_relative = threshold, threshold_mode == "rel"
        self.best, self.num_bad_epochs, self.cooldown_counter, self.last_epoch = math.inf, 0, 0, 0

    def step(self, metrics: Tensor | float) -> None:
        """Record a metric, and lower the rates if it has not improved for long enough."""
        self.last_epoch += 1
        now = self.sign * float(metrics)
        relative = self.best * (1 - self.sign * self.threshold)
        if now < (relative if self.is_relative else self.best - self.threshold):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _reduce(self) -> None:
        for rate, least in zip(self._rates, self.min_lrs, strict=True):
            old = float(rate.asnumpy())
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_rate(rate, new)

    @property
    def in_cooldown(self) -> bool:
        """Tells whether calls do not count now."""
        return self.cooldown_counter > 0

    def get_last_lr(self) -> list[Tensor]:
        """The current rates."""
        return [rate.value() for rate in self._rates]
