"""Learning rates: fixed, listed by step, or computed by a cell."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from graphls import ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.reporting import warn
from graphls.ir.types import float32, int64
from graphls.nn.cell import Cell
from graphls.nn.learning_rate_schedule import LearningRateSchedule
from graphls.ops.operands import state_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, is_tensor


class ListedLearningRate(LearningRateSchedule):
    """One learning rate for each step; after the end, the last one stays."""

    def __init__(self, rates: Any, name: str = "learning_rate") -> None:
        super().__init__(auto_prefix=False)
        self.learning_rate = Parameter(np.asarray(rates, np.float32), name=name, requires_grad=False)
        self.watch = {"calls": 1, "ended": False}

    def construct(self, global_step: Any) -> Tensor:
        last = self.learning_rate.shape[0] - 1
        index = ops.minimum(ops.cast(global_step, int64), last)
        return ops.gather(state_of(self.learning_rate), index, 0)

    def warn_after_end(self, global_step: Parameter) -> None:
        """Warn, once, where the coming update is after the end of the list.

        The counter is read, which waits for a device, only where as many calls were made as can reach the end.
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

    def construct(self, global_step: Any) -> Tensor:
        return state_of(self.learning_rate)


def learning_rate_of(optimizer: str, rate: Any, name: str) -> Parameter | Cell:
    """A parameter for a number, a cell for a list, an iterable or a tensor of rank 1; a cell as it is.

    Raises GraphTypeError for anything else, GraphValueError for a rate below 0 and for an empty list.
    """
    if isinstance(rate, Cell):
        return rate
    if is_tensor(rate):
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


def _checked(optimizer: str, rate: Any) -> float:
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
