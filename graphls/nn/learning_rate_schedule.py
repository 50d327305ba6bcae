"""Learning rates as functions of the step, computed by the graph: decays, cycles and warm-ups.

Each is a cell of `global_step`, the number of updates so far, int32 of shape (1,) or (), and gives float32 of the same
shape. An optimizer evaluates it in the step, before it counts the update; a step that is skipped does not count. The
formulas are those of MindSpore's cells of the same names.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from graphls import ops
from graphls.base.checks import between, boolean, fraction, not_negative_float, positive, positive_float, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32, int32, int64
from graphls.nn.cell import Cell
from graphls.nn.dynamic_lr import (
    check_decay,
    check_polynomial,
    cosine_decay,
    exponential_decay,
    inverse_decay,
    natural_exponential_decay,
    polynomial_decay,
    rising_rates,
)
from graphls.ops.operands import state_of, tensor_of

__all__ = [
    "CosineDecayLR", "CosineRestartsLR", "ExponentialDecayLR", "InverseDecayLR", "LearningRateSchedule",
    "NaturalExpDecayLR", "OneCycleLR", "PolynomialDecayLR", "WarmUpLR", "WithWarmUpLR",
]  # fmt: skip


class LearningRateSchedule(Cell):
    """A learning rate as a function of the number of updates so far: `construct(global_step: int32 of shape (1,))`.

    Examples:
        >>> from graphls import nn, ops, tensor
        >>> class SquareRoot(nn.LearningRateSchedule):
        ...     def construct(self, global_step):
        ...         return 1.0 / ops.sqrt(global_step + 1.0)
        >>> SquareRoot()(tensor(3))
        Tensor(shape=[], dtype=Float32, value=0.5)
        >>> optimizer = nn.SGD(nn.Dense(2, 1).trainable_params(), SquareRoot())
    """

    def construct(self, global_step: TensorLike) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no construct.")


class _Decay(LearningRateSchedule):
    """A rate that decays from `learning_rate` by `decay_rate` in every `decay_steps` steps, in stairs or smoothly."""

    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False) -> None:
        super().__init__()
        name = type(self).__name__
        check_decay(name, learning_rate, decay_rate, ("decay_steps", decay_steps), is_stair)
        self.learning_rate, self.decay_rate = learning_rate, decay_rate
        self.decay_steps, self.is_stair = decay_steps, is_stair

    def periods(self, global_step: TensorLike) -> Tensor:
        """The step in units of `decay_steps`, rounded down where `is_stair`."""
        if self.is_stair:
            return ops.cast(ops.floor_div(global_step, self.decay_steps), float32)
        return ops.div(ops.cast(global_step, float32), self.decay_steps)


class ExponentialDecayLR(_Decay):
    """learning_rate * decay_rate ** p, with p = step / decay_steps, rounded down where `is_stair`.

    Raises GraphTypeError unless the rates are floats, GraphValueError unless they and `decay_steps` are above 0.
    """

    def construct(self, global_step: TensorLike) -> Tensor:
        rate: Tensor = exponential_decay(self.learning_rate, self.decay_rate, self.periods(global_step))
        return rate


class NaturalExpDecayLR(_Decay):
    """learning_rate * exp(-decay_rate * step); where `is_stair`, with the step at which the current period began.

    A period has `decay_steps` steps. Raises as ExponentialDecayLR does.
    """

    def construct(self, global_step: TensorLike) -> Tensor:
        step = ops.mul(self.periods(global_step), self.decay_steps) if self.is_stair else global_step
        rate: Tensor = natural_exponential_decay(self.learning_rate, self.decay_rate, ops.cast(step, float32))
        return rate


class InverseDecayLR(_Decay):
    """learning_rate / (1 + decay_rate * p), with p = step / decay_steps, rounded down where `is_stair`.

    Raises as ExponentialDecayLR does.
    """

    def construct(self, global_step: TensorLike) -> Tensor:
        rate: Tensor = inverse_decay(self.learning_rate, self.decay_rate, self.periods(global_step))
        return rate


class CosineDecayLR(LearningRateSchedule):
    """min_lr + (max_lr - min_lr) * (1 + cos(pi * p)) / 2, with p = min(step, decay_steps) / decay_steps.

    Raises GraphTypeError unless the rates are floats, GraphValueError unless 0 <= min_lr < max_lr and `decay_steps` is
    above 0.
    """

    def __init__(self, min_lr: float, max_lr: float, decay_steps: int) -> None:
        super().__init__()
        self.min_lr, self.max_lr = rising_rates("CosineDecayLR", min_lr, max_lr)
        self.decay_steps = positive_int("CosineDecayLR", "decay_steps", decay_steps)

    def construct(self, global_step: TensorLike) -> Tensor:
        rate: Tensor = cosine_decay(self.min_lr, self.max_lr, share_of(global_step, self.decay_steps))
        return rate


class PolynomialDecayLR(LearningRateSchedule):
    """(learning_rate - end_learning_rate) * (1 - p) ** power + end_learning_rate, with p = min(step, d) / d.

    d is `decay_steps`; with `update_decay_steps` it is the smallest multiple of `decay_steps` that the step does not
    exceed. Raises GraphTypeError unless the rates and `power` are floats, GraphValueError where the end rate is
    below 0 or anything else is not above 0.
    """

    def __init__(
        self, learning_rate: float, end_learning_rate: float, decay_steps: int, power: float,
        update_decay_steps: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        name = "PolynomialDecayLR"
        length, update = ("decay_steps", decay_steps), ("update_decay_steps", update_decay_steps)
        check_polynomial(name, learning_rate, end_learning_rate, power, length, update)
        self.learning_rate, self.end_learning_rate = learning_rate, end_learning_rate
        self.decay_steps, self.power, self.update_decay_steps = decay_steps, power, update_decay_steps

    def construct(self, global_step: TensorLike) -> Tensor:
        share = self._progress(global_step)
        rate: Tensor = polynomial_decay(self.learning_rate, self.end_learning_rate, share, self.power)
        return rate

    def _progress(self, global_step: TensorLike) -> Tensor:
        if not self.update_decay_steps:
            return share_of(global_step, self.decay_steps)
        periods = ops.div(ops.cast(global_step, float32), self.decay_steps)
        return ops.div(periods, ops.maximum(ops.ceil(periods), 1.0))


class WarmUpLR(LearningRateSchedule):
    """learning_rate * min(step, warmup_steps) / warmup_steps.

    Raises GraphTypeError unless the rate is a float, GraphValueError where it is below 0 or `warmup_steps` not above 0.
    """

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        self.learning_rate = not_negative_float("WarmUpLR", "learning_rate", learning_rate)
        self.warmup_steps = positive_int("WarmUpLR", "warmup_steps", warmup_steps)

    def construct(self, global_step: TensorLike) -> Tensor:
        return ops.mul(share_of(global_step, self.warmup_steps), self.learning_rate)


def share_of(global_step: TensorLike, steps: int) -> Tensor:
    """The part of `steps` that is over, from 0 to 1."""
    return ops.div(ops.cast(ops.minimum(global_step, steps), float32), steps)


LearningRate: TypeAlias = "float | np.floating[Any] | Tensor | Iterable[float] | Cell"
"""A rate, one for each step, or a cell that computes that of a step, such as a LearningRateSchedule."""


class ListedLearningRate(LearningRateSchedule):
    """One learning rate for each step; after the end, the last one stays."""

    def __init__(self, rates: Sequence[float], name: str = "learning_rate") -> None:
        super().__init__(auto_prefix=False)
        self.learning_rate = Parameter(np.asarray(rates, np.float32), name=name, requires_grad=False)
        self.watch = {"calls": 1, "ended": False}

    def construct(self, global_step: TensorLike) -> Tensor:
        last = self.learning_rate.shape[0] - 1
        index = ops.minimum(ops.cast(global_step, int64), last)
        return ops.gather(state_of(self.learning_rate), index, 0)

    def warn_after_end(self, global_step: Parameter) -> None:
        """Warn, once, where the coming update is after the end of the list.

        The counter is read, which waits for a device, only after enough calls to reach the end.
        """
        self.watch["calls"] -= 1
        if self.watch["ended"] or self.watch["calls"] > 0:
            return
        length = self.learning_rate.shape[0]
        self.watch["calls"] = length - int(global_step.item())
        if self.watch["calls"] <= 0:
            self.watch["ended"] = True
            warn(f"The list of {length} learning rates is shorter than the run; it stays at its last value.")


class FixedLearningRate(LearningRateSchedule):
    """One learning rate for all steps, as a cell, for groups beside others whose rates change."""

    def __init__(self, rate: Parameter) -> None:
        super().__init__(auto_prefix=False)
        self.learning_rate = rate

    def construct(self, global_step: TensorLike) -> Tensor:
        return state_of(self.learning_rate)


def learning_rate_of(optimizer: str, rate: LearningRate, name: str) -> Parameter | Cell:
    """A parameter for a number, a cell for a list, an iterable or a tensor of rank 1; a cell as it is.

    Raises GraphTypeError for anything else, GraphValueError for a rate below 0 and for an empty list.
    """
    if isinstance(rate, Cell):
        return rate
    if isinstance(rate, Tensor):
        if len(rate.shape) > 1:
            message = "For 'Optimizer', if 'learning_rate' is Tensor type, then the dimension of it should be 0 or 1, "
            raise GraphValueError(f"{message}but got {len(rate.shape)}.")
        rate = rate.tolist()
    elif isinstance(rate, Iterable) and not isinstance(rate, (str, dict)):
        rate = list(rate)
    if not isinstance(rate, list):
        return Parameter(np.float32(_checked(optimizer, rate)), name=name, requires_grad=False)
    if not rate:
        raise GraphValueError(f"For {optimizer!r}, the list of learning rates is empty.")
    return ListedLearningRate([_checked(optimizer, item) for item in rate], name)


def _checked(optimizer: str, rate: object) -> float:
    text = (
        f"For {optimizer!r}, the 'learning rate' must be float and must >= 0, "
        f"but got {str(rate)!r} with type {type(rate).__name__!r}."
    )
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real):
        raise GraphTypeError(text)
    if not 0 <= float(rate) < math.inf:
        raise GraphValueError(text)
    return float(rate)


def rate_now(rate: Parameter | Cell, step: Tensor) -> Tensor:
    """The learning rate at a step, float32 of shape ()."""
    if isinstance(rate, Parameter):
        return state_of(rate)
    return ops.reshape(ops.cast(rate(step), float32), ())


class OneCycleLR(LearningRateSchedule):
    """From max_lr / div_factor up to `max_lr` in `pct_start` of the steps, then down to that over `final_div_factor`.

    `final_div_factor` divides the first rate. `anneal_strategy` is "cos" or "linear". With `three_phase` the way down
    first mirrors the way up. From `total_steps` on, the last rate stays. From Smith and Topin (2018), with the numbers
    of PyTorch's OneCycleLR. Raises GraphTypeError unless the rate is a float, GraphValueError unless it, the counts
    and the divisors are above 0, `pct_start` is between 0 and 1 (with `three_phase` at most 0.5), and for another
    strategy.
    """

    def __init__(
        self, max_lr: float, total_steps: int, pct_start: float = 0.3, anneal_strategy: str = "cos",
        three_phase: bool = False, div_factor: float = 25.0, final_div_factor: float = 1e4,
    ) -> None:  # fmt: skip
        super().__init__()
        name = "OneCycleLR"
        most = positive_float(name, "max_lr", max_lr)
        total, part = positive_int(name, "total_steps", total_steps), fraction(name, "pct_start", pct_start)
        if anneal_strategy not in ("cos", "linear"):
            raise GraphValueError(f"For {name!r}, the 'anneal_strategy' is 'cos' or 'linear', not {anneal_strategy!r}.")
        self.is_cosine = anneal_strategy == "cos"
        first = most / positive(name, "div_factor", div_factor)
        last = first / positive(name, "final_div_factor", final_div_factor)
        top, end = part * total - 1.0, total - 1.0
        if boolean(name, "three_phase", three_phase):
            between(0.0, 0.5)(name, "pct_start", pct_start)
            self.phases = [(0.0, top, first, most), (top, 2 * top, most, first), (2 * top, end, first, last)]
        else:
            self.phases = [(0.0, top, first, most), (top, end, most, last)]

    def construct(self, global_step: TensorLike) -> Tensor:
        step = ops.cast(global_step, float32)
        *earlier, last = self.phases
        rate = self._rate(step, *last)
        for phase in reversed(earlier):
            rate = ops.where(ops.less_equal(step, phase[1]), self._rate(step, *phase), rate)
        return rate

    def _rate(self, step: Tensor, start: float, end: float, before: float, after: float) -> Tensor:
        length = end - start or 1.0
        share = ops.clip_by_value(ops.div(ops.sub(step, start), length), 0.0, 1.0)
        rate: Tensor
        rate = cosine_decay(after, before, share) if self.is_cosine else polynomial_decay(before, after, share, 1.0)
        return rate


class CosineRestartsLR(LearningRateSchedule):
    """min_lr + (max_lr - min_lr) * (1 + cos(pi * p)) / 2, where p restarts at 0 after `first_period` steps.

    Each period is `factor` times as long as the one before. From Loshchilov and Hutter (2017), with the numbers of
    PyTorch's CosineAnnealingWarmRestarts. Raises GraphTypeError unless the rates are floats, GraphValueError unless
    0 <= min_lr < max_lr and the counts are above 0.
    """

    def __init__(self, min_lr: float, max_lr: float, first_period: int, factor: int = 1) -> None:
        super().__init__()
        name = "CosineRestartsLR"
        self.min_lr, self.max_lr = rising_rates(name, min_lr, max_lr)
        self.first_period = positive_int(name, "first_period", first_period)
        self.factor = positive_int(name, "factor", factor)

    def construct(self, global_step: TensorLike) -> Tensor:
        rate: Tensor = cosine_decay(self.min_lr, self.max_lr, self._share(tensor_of(global_step)))
        return rate

    def _share(self, step: Tensor) -> Tensor:
        """The part of the current period that is over."""
        if self.factor == 1:
            return ops.div(ops.cast(ops.mod(step, self.first_period), float32), self.first_period)
        starts = np.asarray(_starts(self.first_period, self.factor), np.int32)
        reached = ops.greater_equal(ops.expand_dims(step, -1), Tensor(starts))
        number = ops.sub(ops.sum(ops.cast(reached, int32), -1), 1)
        lengths = self.first_period * np.float32(self.factor) ** np.arange(len(starts))
        over = ops.cast(ops.sub(step, ops.gather(Tensor(starts), number, 0)), float32)
        return ops.div(over, ops.gather(Tensor(lengths.astype(np.float32)), number, 0))


def _starts(period: int, factor: int) -> list[int]:
    """The steps at which periods begin that grow by a factor, as far as a counter of 32 bits goes."""
    starts = [0]
    while starts[-1] + period < 2**31:
        starts.append(starts[-1] + period)
        period *= factor
    return starts


class WithWarmUpLR(LearningRateSchedule):
    """The first rate of a schedule times a factor that rises from `start_factor` to 1, and then the schedule.

    `schedule` is a cell that computes the rate of a step, counted from the end of the warm-up, or a number. The numbers
    are those of PyTorch's SequentialLR of LinearLR and the schedule. Raises GraphTypeError and GraphValueError for
    a schedule that is neither a cell nor a float of 0 or more, for a `start_factor` outside of [0, 1] and for
    `warmup_steps` that are not above 0.
    """

    def __init__(self, schedule: Cell | float, warmup_steps: int, start_factor: float = 0.0) -> None:
        super().__init__()
        name = "WithWarmUpLR"
        if not isinstance(schedule, (Cell, float)):
            raise GraphTypeError(f"For {name!r}, the 'schedule' is a cell or a float, not {schedule!r}.")
        self.schedule = schedule if isinstance(schedule, Cell) else not_negative_float(name, "schedule", schedule)
        self.warmup_steps = positive_int(name, "warmup_steps", warmup_steps)
        self.start_factor = between(0.0, 1.0)(name, "start_factor", start_factor)

    def construct(self, global_step: TensorLike) -> Any:
        left = ops.sub(1.0, share_of(global_step, self.warmup_steps))
        factor = ops.sub(1.0, ops.mul(left, 1.0 - self.start_factor))  # exactly 1 after the warm-up
        if not isinstance(self.schedule, Cell):
            return ops.mul(factor, self.schedule)
        return ops.mul(self.schedule(ops.maximum(ops.sub(global_step, self.warmup_steps), 0)), factor)
