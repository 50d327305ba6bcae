"""Learning rates that rise as well as fall: one cycle, cosines with restarts, and a warm-up before any schedule.

They are cells of the step as those of `learning_rate_schedule`; the numbers are those of PyTorch's schedulers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.base.checks import between, boolean, fraction, not_negative_float, positive, positive_float, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32, int32
from graphls.nn.cell import Cell
from graphls.nn.dynamic_lr import cosine_decay, polynomial_decay, rising_rates
from graphls.nn.learning_rate_schedule import LearningRateSchedule, share_of
from graphls.ops.operands import tensor_of

__all__ = ["CosineRestartsLR", "OneCycleLR", "WithWarmUpLR"]


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
    """min_lr + (max_lr - min_lr) * (1 + cos(pi * p)) / 2, where p begins anew at 0 after `first_period` steps.

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

    `schedule` is a cell that gives the rate of a step, counted from the end of the warm-up, or a number. The numbers
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
        factor = ops.sub(1.0, ops.mul(left, 1.0 - self.start_factor))  # exactly 1 behind the warm-up
        if not isinstance(self.schedule, Cell):
            return ops.mul(factor, self.schedule)
        return ops.mul(self.schedule(ops.maximum(ops.sub(global_step, self.warmup_steps), 0)), factor)
