"""The formulas by which learning rates change: of numbers for lists of rates, of tensors for cells of the step."""

from __future__ import annotations

import math
from typing import Any

from graphls import ops
from graphls.ir.checks import boolean, not_negative_float, positive_float, positive_int
from graphls.ir.errors import GraphValueError
from graphls.ops.operands import Operand
from graphls.tensors.tensor import Tensor, TensorLike


def exponential(rate: float, decay: float, periods: Operand) -> Any:
    """rate * decay ** periods."""
    return decay**periods * rate


def natural_exponential(rate: float, decay: float, time: Operand) -> Any:
    """rate * exp(-decay * time)."""
    power = time * -decay
    return (math.exp(power) if isinstance(power, float) else ops.exp(power)) * rate


def inverse(rate: float, decay: float, periods: Operand) -> Any:
    """rate / (1 + decay * periods)."""
    return rate / (periods * decay + 1.0)


def cosine(least: float, most: float, share: float | Tensor) -> Any:
    """From `most` to `least` by half a wave of the cosine, for a share from 0 to 1."""
    angle = share * math.pi
    height = (math.cos(angle) if isinstance(angle, float) else ops.cos(angle)) + 1.0
    return height * (0.5 * (most - least)) + least


def polynomial(rate: float, end: float, share: float | Tensor, power: float) -> Any:
    """From `rate` to `end` by a power of what is left of a share from 0 to 1."""
    return (1.0 - share) ** power * (rate - end) + end


def check_decay(
    name: str, rate: TensorLike, decay: TensorLike, length: tuple[str, object], is_stair: TensorLike
) -> None:
    """Raise GraphTypeError or GraphValueError for what a decay by periods does not take; `length` is that of one."""
    positive_int(name, *length)
    positive_float(name, "learning_rate", rate)
    positive_float(name, "decay_rate", decay)
    boolean(name, "is_stair", is_stair)


def check_polynomial(
    name: str,
    rate: TensorLike,
    end: TensorLike,
    power: TensorLike,
    length: tuple[str, object],
    update: tuple[str, object],
) -> None:
    """Raise GraphTypeError or GraphValueError for what a polynomial decay does not take."""
    positive_float(name, "learning_rate", rate)
    not_negative_float(name, "end_learning_rate", end)
    positive_int(name, *length)
    positive_float(name, "power", power)
    boolean(name, *update)


def rising(name: str, min_lr: TensorLike, max_lr: TensorLike) -> tuple[float, float]:
    """Two learning rates, the first below the second; raises GraphTypeError or GraphValueError otherwise."""
    least, most = not_negative_float(name, "min_lr", min_lr), positive_float(name, "max_lr", max_lr)
    if least >= most:
        raise GraphValueError(
            f"For {name!r}, the 'max_lr' must be greater than the 'min_lr', but got 'max_lr' value: {most}, "
            f"'min_lr' value: {least}.",
        )
    return least, most
