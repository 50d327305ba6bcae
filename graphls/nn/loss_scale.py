"""Cells that update the loss scale inside the step."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.nn.cell import Cell
from graphls.parameter import Parameter
from graphls.tensor import Tensor


class DynamicLossScaleUpdateCell(Cell):
    """The scale falls by `scale_factor` at each overflow and rises by it after `scale_window` steps without one.

    It never falls below 1. The first rise is at step `scale_window`; after an overflow at step k the next is at
    step k + `scale_window`. The formulas are those of MindSpore's cell of this name, in float32. The counters
    are the states `current_iterator_step` and `last_overflow_iterator_step`, int32.
    """

    def __init__(self, loss_scale_value: float, scale_factor: float, scale_window: int) -> None:
        super().__init__()
        self.__dict__["_phase"] = "update"
        self.loss_scale_value = loss_scale_value
        self.scale_factor = scale_factor
        self.scale_window = scale_window
        self.current_iterator_step = _counter(1, "current_iterator_step")
        self.last_overflow_iterator_step = _counter(0, "last_overflow_iterator_step")

    def get_loss_scale(self) -> float:
        """The scale that training starts with."""
        return self.loss_scale_value

    def construct(self, loss_scale: Parameter, overflow: Tensor) -> Tensor:
        step, last = self.current_iterator_step, self.last_overflow_iterator_step
        rises = ops.greater_equal(ops.sub(step, last), self.scale_window)
        fallen = ops.maximum(ops.mul(loss_scale, 1.0 / self.scale_factor), 1.0)
        risen = ops.where(rises, ops.mul(loss_scale, float(self.scale_factor)), loss_scale)
        ops.assign(loss_scale, ops.where(overflow, fallen, risen))
        ops.assign(last, ops.where(ops.logical_or(overflow, rises), step, last))
        ops.assign(step, ops.add(step, 1))
        return overflow


class FixedLossScaleUpdateCell(Cell):
    """The scale stays as it is; overflowing steps are skipped."""

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        self.__dict__["_phase"] = "update"
        self.loss_scale_value = loss_scale_value

    def get_loss_scale(self) -> float:
        """The scale that training uses."""
        return self.loss_scale_value

    def construct(self, loss_scale: Any, overflow: Tensor) -> Tensor:
        return overflow


def _counter(value: int, name: str) -> Parameter:
    return Parameter(np.array(value, np.int32), name=name, requires_grad=False)
