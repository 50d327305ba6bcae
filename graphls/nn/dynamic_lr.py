"""Lists of learning rates, one for each step, which every optimizer takes as its `learning_rate`.

The functions and formulas are MindSpore's. Except in `piecewise_constant_lr`, the rate changes from epoch to epoch:
e is step // step_per_epoch, for the steps from 0 to total_step - 1. The formulas at the end take numbers, for lists,
and tensors, for the cells of `learning_rate_schedule`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphls import ops
from graphls.base.checks import boolean, not_negative_float, positive_float, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.operands import Operand

__all__ = [
    "cosine_decay_lr", "exponential_decay_lr", "inverse_decay_lr", "natural_exp_decay_lr", "piecewise_constant_lr",
    "polynomial_decay_lr", "warmup_lr",
]  # fmt: skip


def piecewise_constant_lr(milestone: Sequence[int], learning_rates: Sequence[float]) -> list[float]:
    """`learning_rates[i]` for the steps from `milestone[i - 1]`, or 0, up to `milestone[i]`, which is not included.

    Raises GraphTypeError unless both are lists or tuples, of integers and of floats, GraphValueError where their
    lengths differ, the milestones fall or are not above 0, or a rate is below 0.
    """
    name = "piecewise_constant_lr"
    for what, value in (("milestone", milestone), ("learning_rates", learning_rates)):
        if not isinstance(value, (tuple, list)):
            raise GraphTypeError(f"For {name!r}, the {what!r} must be a list or tuple, not {value!r}.")
    if len(milestone) != len(learning_rates):
        raise GraphValueError(
            f"For {name!r}, the size of 'milestone' must be same with the size of 'learning_rates', but got "
            f"'milestone' size: {len(milestone)}, 'learning_rates' size: {len(learning_rates)}.",
        )
    rates: list[float] = []
    for i, (end, rate) in enumerate(zip(milestone, learning_rates, strict=True)):
        if positive_int(name, f"milestone[{i}]", end) < len(rates):
            raise GraphValueError(
                f"For {name!r}, the milestones must rise, but milestone[{i}] is {end} after {len(rates)}.",
            )
        rates += [not_negative_float(name, f"learning_rates[{i}]", rate)] * (end - len(rates))
    return rates


def exponential_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int, decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:  # fmt: skip
    """learning_rate * decay_rate ** p, with p = e / decay_epoch, rounded down where `is_stair`.

    Raises GraphTypeError unless the rates are floats and the counts integers, GraphValueError unless all are above 0.
    """
    check_decay("exponential_decay_lr", learning_rate, decay_rate, ("decay_epoch", decay_epoch), is_stair)
    epochs = _epochs("exponential_decay_lr", total_step, step_per_epoch)
    return [exponential_decay(learning_rate, decay_rate, _periods(e, decay_epoch, is_stair)) for e in epochs]


def natural_exp_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int, decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:  # fmt: skip
    """learning_rate * exp(-decay_rate * e), where `is_stair` with the last multiple of decay_epoch in place of e.

    Raises as exponential_decay_lr does.
    """
    check_decay("natural_exp_decay_lr", learning_rate, decay_rate, ("decay_epoch", decay_epoch), is_stair)
    epochs = _epochs("natural_exp_decay_lr", total_step, step_per_epoch)
    starts = (e - e % decay_epoch if is_stair else e for e in epochs)
    return [natural_exponential_decay(learning_rate, decay_rate, e) for e in starts]


def inverse_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int, decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:  # fmt: skip
    """learning_rate / (1 + decay_rate * p), with p = e / decay_epoch, rounded down where `is_stair`.

    Raises as exponential_decay_lr does.
    """
    check_decay("inverse_decay_lr", learning_rate, decay_rate, ("decay_epoch", decay_epoch), is_stair)
    epochs = _epochs("inverse_decay_lr", total_step, step_per_epoch)
    return [inverse_decay(learning_rate, decay_rate, _periods(e, decay_epoch, is_stair)) for e in epochs]


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """min_lr + (max_lr - min_lr) * (1 + cos(pi * p)) / 2, with p = min(e, decay_epoch) / decay_epoch.

    Raises GraphTypeError unless the rates are floats and the counts integers, GraphValueError unless 0 <= min_lr <
    max_lr and the counts are above 0.
    """
    name = "cosine_decay_lr"
    rising_rates(name, min_lr, max_lr)
    positive_int(name, "decay_epoch", decay_epoch)
    parts = [min(e, decay_epoch) / decay_epoch for e in _epochs(name, total_step, step_per_epoch)]
    return [cosine_decay(min_lr, max_lr, p) for p in parts]


def polynomial_decay_lr(
    learning_rate: float, end_learning_rate: float, total_step: int, step_per_epoch: int, decay_epoch: int,
    power: float, update_decay_epoch: bool = False,
) -> list[float]:  # fmt: skip
    """(learning_rate - end_learning_rate) * (1 - p) ** power + end_learning_rate, with p = min(e, d) / d.

    d is `decay_epoch`; with `update_decay_epoch` it is the smallest multiple of `decay_epoch` that e does not exceed.
    Raises GraphTypeError unless the rates and `power` are floats and the counts integers, GraphValueError where the end
    rate is below 0 or anything else is not above 0.
    """
    name = "polynomial_decay_lr"
    length, update = ("decay_epoch", decay_epoch), ("update_decay_epoch", update_decay_epoch)
    check_polynomial(name, learning_rate, end_learning_rate, power, length, update)
    rates = []
    for e in _epochs(name, total_step, step_per_epoch):
        end = decay_epoch * max(math.ceil(e / decay_epoch), 1) if update_decay_epoch else decay_epoch
        rates.append(polynomial_decay(learning_rate, end_learning_rate, min(e, end) / end, power))
    return rates


def warmup_lr(learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int) -> list[float]:
    """learning_rate * min(e, warmup_epoch) / warmup_epoch.

    Raises GraphTypeError unless the rate is a float and the counts are integers, GraphValueError where the rate is
    below 0 or a count is not above 0.
    """
    not_negative_float("warmup_lr", "learning_rate", learning_rate)
    positive_int("warmup_lr", "warmup_epoch", warmup_epoch)
    epochs = _epochs("warmup_lr", total_step, step_per_epoch)
    return [learning_rate * min(e, warmup_epoch) / warmup_epoch for e in epochs]


def _epochs(name: str, total_step: int, step_per_epoch: int) -> list[int]:
    """The epoch of each step."""
    positive_int(name, "total_step", total_step)
    positive_int(name, "step_per_epoch", step_per_epoch)
    return [step // step_per_epoch for step in range(total_step)]


def _periods(epoch: int, decay_epoch: int, is_stair: bool) -> float:
    return epoch // decay_epoch if is_stair else epoch / decay_epoch


def exponential_decay(rate: float, decay: float, periods: Operand) -> Any:
    """rate * decay ** periods."""
    return decay**periods * rate


def natural_exponential_decay(rate: float, decay: float, time: Operand) -> Any:
    """rate * exp(-decay * time)."""
    power = time * -decay
    return (math.exp(power) if isinstance(power, float) else ops.exp(power)) * rate


def inverse_decay(rate: float, decay: float, periods: Operand) -> Any:
    """rate / (1 + decay * periods)."""
    return rate / (periods * decay + 1.0)


def cosine_decay(least: float, most: float, share: float | Tensor) -> Any:
    """Decay from `most` to `least` along half a wave of the cosine, for a share from 0 to 1."""
    angle = share * math.pi
    height = (math.cos(angle) if isinstance(angle, float) else ops.cos(angle)) + 1.0
    return height * (0.5 * (most - least)) + least


def polynomial_decay(rate: float, end: float, share: float | Tensor, power: float) -> Any:
    """Decay from `rate` to `end` by a power of the remaining part of a share from 0 to 1."""
    return (1.0 - share) ** power * (rate - end) + end


def check_decay(
    name: str, rate: TensorLike, decay: TensorLike, length: tuple[str, object], is_stair: TensorLike
) -> None:
    """Raise GraphTypeError or GraphValueError for invalid arguments of a decay; `length` is that of a period."""
    positive_int(name, *length)
    positive_float(name, "learning_rate", rate)
    positive_float(name, "decay_rate", decay)
    boolean(name, "is_stair", is_stair)


def check_polynomial(
    name: str, rate: TensorLike, end: TensorLike, power: TensorLike, length: tuple[str, object],
    update: tuple[str, object],
) -> None:  # fmt: skip
    """Raise GraphTypeError or GraphValueError for invalid arguments of a polynomial decay."""
    positive_float(name, "learning_rate", rate)
    not_negative_float(name, "end_learning_rate", end)
    positive_int(name, *length)
    positive_float(name, "power", power)
    boolean(name, *update)


def rising_rates(name: str, min_lr: TensorLike, max_lr: TensorLike) -> tuple[float, float]:
    """Two learning rates, the first below the second; raises GraphTypeError or GraphValueError otherwise."""
    least, most = not_negative_float(name, "min_lr", min_lr), positive_float(name, "max_lr", max_lr)
    if least >= most:
        raise GraphValueError(
            f"For {name!r}, the 'max_lr' must be greater than the 'min_lr', but got 'max_lr' value: {most}, "
            f"'min_lr' value: {least}.",
        )
    return least, most
