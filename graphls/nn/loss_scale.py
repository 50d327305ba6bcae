"""Cells that update the loss scale inside the step."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.base.checks import positive_int
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32, int32
from graphls.nn.cell import Cell
from graphls.ops.operands import Sizes, state_of
from graphls.ops.state import current_value

__all__ = ["AdaptiveLossScaleUpdateCell", "DynamicLossScaleUpdateCell", "FixedLossScaleUpdateCell"]


class DynamicLossScaleUpdateCell(Cell):
    """The scale falls by `scale_factor` at each overflow and rises by it after `scale_window` steps without one.

    An overflow never makes it fall below 1; nothing limits its rise. The first rise is at step `scale_window`; after
    an overflow at step k the next is at step k + `scale_window`. `construct(loss_scale, overflow)` takes a Parameter of
    shape () or (1,), which keeps its dtype while everything is computed in float32, and a bool, which it returns. The
    counters are the states `current_iterator_step` and `last_overflow_iterator_step`, int32. No argument is checked.
    The formulas are those of MindSpore's cell of this name.

    Examples:
        >>> from graphls import nn
        >>> manager = nn.DynamicLossScaleUpdateCell(loss_scale_value=2**12, scale_factor=2, scale_window=1000)
        >>> manager.get_loss_scale()
        4096
    """

    def __init__(self, loss_scale_value: float, scale_factor: float, scale_window: int) -> None:
        super().__init__()
        self.__dict__["_phase"] = "update"
        self.loss_scale_value = loss_scale_value
        self.scale_factor = scale_factor
        self.scale_window: Any = scale_window
        self.current_iterator_step = _counter(1, "current_iterator_step")
        self.last_overflow_iterator_step = _counter(0, "last_overflow_iterator_step")

    def get_loss_scale(self) -> float:
        """The scale that training starts with."""
        return self.loss_scale_value

    def construct(self, loss_scale: Parameter, overflow: Tensor) -> Tensor:
        self.update_scale(loss_scale, overflow)
        return overflow

    def update_scale(self, loss_scale: Parameter, overflow: Tensor) -> Tensor:
        """Update the scale and the counters; returns whether the window has ended, with or without an overflow."""
        step, last = state_of(self.current_iterator_step), self.last_overflow_iterator_step
        scale = ops.cast(current_value(loss_scale), float32)
        rises = ops.greater_equal(ops.sub(step, last), self.scale_window)
        ops.assign(self.current_iterator_step, ops.add(step, 1))
        if overflow:
            ops.assign(loss_scale, ops.maximum(ops.mul(scale, 1.0 / self.scale_factor), 1.0))
            ops.assign(last, step)
        else:
            ops.assign(loss_scale, ops.mul(scale, ops.where(rises, float(self.scale_factor), 1.0)))
            ops.assign(last, ops.where(rises, step, last))
        return rises


class AdaptiveLossScaleUpdateCell(DynamicLossScaleUpdateCell):
    """DynamicLossScaleUpdateCell with a window that changes: long in quiet times, short after overflows.

    The windows are listed by halving: `max_scale_window`, its half, the half of that and so on, each rounded down to
    hundreds where it is above 100, as long as it is larger than `min_scale_window`; that one is the last. 1000 and 20
    give 1000, 500, 200, 100, 50, 25, 20. Training starts with `scale_window`, which need not be listed. At the third
    rise of the scale without an overflow in between, the window becomes the next larger one of the list, if there is
    one. At the third overflow without a rise in between, it becomes the smallest. Either restarts the count of three,
    and takes effect from the next step.

    The states are those of DynamicLossScaleUpdateCell, `scale_window`, `consecutive_rises` and `consecutive_falls`,
    int32. Raises GraphTypeError for windows that are not integers, GraphValueError for windows below 1 and a largest
    that is smaller than the smallest. The cell is MindFormers' of this name.
    """

    def __init__(
        self, loss_scale_value: float, scale_factor: float, scale_window: int, max_scale_window: int = 1000,
        min_scale_window: int = 20,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        super().__init__(loss_scale_value, scale_factor, positive_int(name, "scale_window", scale_window))
        self.max_scale_window = positive_int(name, "max_scale_window", max_scale_window)
        self.min_scale_window = positive_int(name, "min_scale_window", min_scale_window)
        if max_scale_window < min_scale_window:
            raise GraphValueError(
                f"For {name!r}, the 'max_scale_window' must not be less than the 'min_scale_window', but got "
                f"{max_scale_window} and {min_scale_window}.",
            )
        self.scale_window_list = window_list(max_scale_window, min_scale_window)
        self.scale_window = _counter(scale_window, "scale_window")
        self.consecutive_rises = _counter(0, "consecutive_rises")
        self.consecutive_falls = _counter(0, "consecutive_falls")

    def construct(self, loss_scale: Parameter, overflow: Tensor) -> Tensor:
        window = self.scale_window
        rises = ops.logical_and(self.update_scale(loss_scale, overflow), ops.logical_not(overflow))
        is_third_rise = _count(self.consecutive_rises, rises, overflow)
        is_third_fall = _count(self.consecutive_falls, overflow, rises)
        changed = ops.where(is_third_rise, self.next_larger(window), window)
        ops.assign(window, ops.where(is_third_fall, self.min_scale_window, changed))
        return overflow

    def next_larger(self, window: Sizes) -> Tensor:
        """The smallest window of the list that is larger than this one, or this one where none is."""
        listed = Tensor(self.scale_window_list, int32)
        larger = ops.amin(ops.where(ops.greater(listed, window), listed, np.iinfo(np.int32).max))
        return ops.where(ops.less(window, self.max_scale_window), larger, window)


class FixedLossScaleUpdateCell(Cell):
    """The scale stays as it is; overflowing steps are skipped."""

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        self.__dict__["_phase"] = "update"
        self.loss_scale_value = loss_scale_value

    def get_loss_scale(self) -> float:
        """The scale that training uses."""
        return self.loss_scale_value

    def construct(self, loss_scale: TensorLike, overflow: Tensor) -> Tensor:
        return overflow


def window_list(largest: int, smallest: int) -> list[int]:
    """The windows from the largest to the smallest, each about half of the one before it."""
    windows, window = [], largest
    while window > smallest:
        windows.append(window)
        window //= 2
        if window > 100:
            window -= window % 100
    return [*windows, smallest]


def _count(counter: Parameter, happened: Tensor, interrupted: Tensor) -> Tensor:
    """Count occurrences without an interruption; returns whether this is the third, which restarts the count."""
    count = ops.where(interrupted, 0, ops.add(counter, ops.cast(happened, int32)))
    is_third = ops.equal(count, 3)
    ops.assign(counter, ops.where(is_third, 0, count))
    return is_third


def _counter(value: int, name: str) -> Parameter:
    return Parameter(np.array(value, np.int32), name=name, requires_grad=False)
