"""Loss scaling: update cells inside of a step, managers on the host, scalers for functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.checks import positive_int
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ir.types import float32, float64, int32
from graphls.nn.cell import Cell
from graphls.ops.operands import Sizes, state_of, tensor_of
from graphls.ops.state import current_value, overflow_get

__all__ = ["AdaptiveLossScaleUpdateCell", "DynamicLossScaleUpdateCell", "FixedLossScaleUpdateCell"]

MOST_OVERFLOWS = 1000


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
    """DynamicLossScaleUpdateCell with a window that adapts: long without overflows, short after them.

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
    """The scale, a float32 scalar, is constant; overflowing steps are skipped."""

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


class LossScaleManager:
    """The interface of managers of the loss scale; here every method returns None.

    Examples:
        >>> from graphls.amp import FixedLossScaleManager, LossScaleManager
        >>> manager = FixedLossScaleManager(1024.0, drop_overflow_update=False)
        >>> isinstance(manager, LossScaleManager), manager.get_loss_scale()
        (True, 1024.0)
    """

    def get_loss_scale(self) -> Any:
        """The loss scale."""

    def update_loss_scale(self, overflow: object) -> None:
        """Tell the manager whether a step overflowed."""

    def get_update_cell(self) -> Cell | None:
        """The cell that updates the scale inside a training step; None for a step that skips nothing."""


class FixedLossScaleManager(LossScaleManager):
    """A loss scale that stays as it is.

    With `drop_overflow_update`, steps that overflow are skipped. Without, every step is taken, and the optimizer
    divides the gradients: create it with the same `loss_scale`. Raises GraphValueError for a scale below 1,
    GraphTypeError for anything but a number.

    Examples:
        >>> from graphls import amp
        >>> amp.FixedLossScaleManager(1024.0).get_loss_scale()
        1024.0
    """

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        if not _number("loss_scale", loss_scale) >= 1:
            raise GraphValueError(f"The argument 'loss_scale' must be >= 1, but got {loss_scale}")
        self._loss_scale = loss_scale
        self._drop_overflow_update = drop_overflow_update

    def get_loss_scale(self) -> float:
        """The loss scale."""
        return self._loss_scale

    def get_drop_overflow_update(self) -> bool:
        """Returns whether steps that overflow are skipped."""
        return self._drop_overflow_update

    def get_update_cell(self) -> FixedLossScaleUpdateCell | None:
        """A FixedLossScaleUpdateCell, or None without `drop_overflow_update`."""
        return FixedLossScaleUpdateCell(self._loss_scale) if self._drop_overflow_update else None


class DynamicLossScaleManager(LossScaleManager):
    """A loss scale that falls by `scale_factor` at an overflow and rises by it after `scale_window` steps without one.

    The rule is that of DynamicLossScaleUpdateCell in Python numbers: max(scale * (1 / scale_factor), 1) at an
    overflow, and scale * scale_factor where the number of steps since the last overflow is a multiple of the window.
    Raises GraphValueError for a scale below 1, a window below 1 and a factor that is not positive, GraphTypeError
    for anything but a number and a window that is not an integer.

    Examples:
        >>> from graphls import amp
        >>> manager = amp.DynamicLossScaleManager(init_loss_scale=2**12, scale_factor=2, scale_window=1000)
        >>> manager.get_loss_scale()
        4096
        >>> manager.update_loss_scale(True)  # in a custom training loop, after an overflow
        >>> manager.get_loss_scale()
        2048.0
    """

    def __init__(self, init_loss_scale: float = 2**24, scale_factor: float = 2, scale_window: int = 2000) -> None:
        if not _number("init_loss_scale", init_loss_scale) >= 1.0:
            raise GraphValueError(f"The argument 'init_loss_scale' must be > 1, but got {init_loss_scale}")
        self.loss_scale = init_loss_scale
        self.scale_window = positive_int("DynamicLossScaleManager", "scale_window", scale_window)
        if not _number("scale_factor", scale_factor) > 0:
            raise GraphValueError(f"The argument 'scale_factor' must be > 0, but got {scale_factor}")
        self.scale_factor = scale_factor
        self.cur_iter = 1
        self.last_overflow_iter = 0
        self.bad_step = 0

    def get_loss_scale(self) -> float:
        """The loss scale as it is now."""
        return self.loss_scale

    def get_drop_overflow_update(self) -> bool:
        """Always true: steps that overflow are skipped."""
        return True

    def get_update_cell(self) -> DynamicLossScaleUpdateCell:
        """A DynamicLossScaleUpdateCell that starts with the scale as it is now."""
        return DynamicLossScaleUpdateCell(self.loss_scale, self.scale_factor, self.scale_window)

    def update_loss_scale(self, overflow: object) -> None:
        """Count a step, and let the scale fall or rise.

        Raises GraphRuntimeError at the 1001st overflow in a row, which is not counted as a step.
        """
        if overflow:
            self.loss_scale = max(self.loss_scale * (1 / self.scale_factor), 1)
            self.last_overflow_iter = self.cur_iter
            self.bad_step += 1
        else:
            if (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
                self.loss_scale *= self.scale_factor
            self.bad_step = 0
        if self.bad_step > MOST_OVERFLOWS:
            raise GraphRuntimeError(
                f"Dynamic loss scale Continuous overflow {self.bad_step} times, has exceeded maximum threshold.",
            )
        self.cur_iter += 1


def _number(name: str, value: object) -> Any:
    """A number as it is; raises GraphTypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise GraphTypeError(
            f"The argument {name!r} must be a number, but got {value!r} with type {type(value).__name__!r}.",
        )
    return value


class LossScaler(ABC):
    """The interface of scalers, whose methods work inside of traced functions and at once outside of them.

    Examples:
        >>> from graphls.amp import DynamicLossScaler, LossScaler, StaticLossScaler
        >>> issubclass(DynamicLossScaler, LossScaler), issubclass(StaticLossScaler, LossScaler)
        (True, True)
    """

    @abstractmethod
    def scale(self, inputs: Any) -> Any:
        """A tensor, or every tensor of a nest, times the scale."""

    @abstractmethod
    def unscale(self, inputs: object) -> Any:
        """A tensor, or every tensor of a nest, divided by the scale."""

    @abstractmethod
    def adjust(self, grads_finite: object) -> bool:
        """Update the scale, given whether all gradients were finite; returns whether this scaler does that."""


class StaticLossScaler(LossScaler):
    """A scale that stays as it is: the Parameter `scale_value`, float32 of shape ().

    `scale` multiplies in the dtype of its input, so a scale beyond the range of float16 makes infinities there.
    `unscale` computes 1 / scale and the product in float32 (float64 for a float64 input) and casts the result back, so
    a large scale is not lost to rounding before it is used. Both keep dtype and shape. Raises GraphTypeError for a
    scale that is not a number, GraphValueError for one below 1.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.amp import StaticLossScaler
        >>> scaler = StaticLossScaler(128.0)
        >>> scaler.scale(tensor([0.5])), scaler.unscale(tensor([64.0]))
        (Tensor(shape=[1], dtype=Float32, value=[64.]), Tensor(shape=[1], dtype=Float32, value=[0.5]))
    """

    def __init__(self, scale_value: float) -> None:
        if isinstance(scale_value, bool) or not isinstance(scale_value, (int, float)):
            raise GraphTypeError(
                "The type of 'scale_value' should be one of '['float','int']', but got type "
                f"{type(scale_value).__name__!r}.",
            )
        if not scale_value >= 1:
            raise GraphValueError(f"The argument 'scale_value' must be > 1, but got {scale_value}")
        self.scale_value = Parameter(np.array(scale_value, np.float32), name="scale_value", requires_grad=False)

    def scale(self, inputs: Any) -> Any:
        """A tensor, or every tensor of a nest, times the scale, in its own dtype."""
        scale = state_of(self.scale_value)

        def scaled(leaf: object) -> Tensor:
            x = tensor_of(leaf)
            return ops.mul(x, ops.cast(scale, x.dtype))

        return map_leaves(scaled, inputs)

    def unscale(self, inputs: object) -> Any:
        """A tensor, or every tensor of a nest, divided by the scale, in its own dtype."""
        inverse = ops.reciprocal(state_of(self.scale_value))

        def unscaled(leaf: Any) -> Tensor:
            x = tensor_of(leaf)
            wide = float64 if x.dtype is float64 else float32
            return ops.cast(ops.mul(ops.cast(x, wide), ops.cast(inverse, wide)), x.dtype)

        return map_leaves(unscaled, inputs)

    def adjust(self, grads_finite: object) -> bool:
        """Changes nothing; returns False."""
        return False


class DynamicLossScaler(StaticLossScaler):
    """A scale that is divided by `scale_factor` at an overflow and multiplied by it after `scale_window` steps.

    It stays between 1 and the largest float32: a rise beyond that does not happen. The states are the Parameters
    `scale_value`, float32, and `counter`, int32, the finite steps since the scale last changed, both of shape ().
    `scale` and `unscale` are those of StaticLossScaler. Raises GraphTypeError for a scale that is not a number and for
    factors and windows that are not integers, GraphValueError for any of them below 1.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.amp import DynamicLossScaler
        >>> scaler = DynamicLossScaler(1024, 2, 1000)
        >>> scaler.scale(tensor(0.5))
        Tensor(shape=[], dtype=Float32, value=512.0)
        >>> scaler.adjust(tensor(False))
        True
        >>> scaler.scale_value.asnumpy()
        array(512., dtype=float32)
    """

    def __init__(self, scale_value: float, scale_factor: int, scale_window: int) -> None:
        super().__init__(scale_value)
        self.scale_window = positive_int("DynamicLossScaler", "scale_window", scale_window)
        self.scale_factor = positive_int("DynamicLossScaler", "scale_factor", scale_factor)
        self.counter = Parameter(np.array(0, np.int32), name="counter", requires_grad=False)

    def adjust(self, grads_finite: object) -> bool:
        """Update scale and counter, given a bool of shape (), whether all gradients were finite; returns True."""
        scale, counter, factor = state_of(self.scale_value), state_of(self.counter), float(self.scale_factor)
        risen = ops.mul(scale, factor)
        rises = ops.logical_and(ops.equal(counter, self.scale_window - 1), ops.isfinite(risen))
        fallen = ops.maximum(ops.div(scale, factor), 1.0)
        ops.assign(self.scale_value, ops.where(grads_finite, ops.where(rises, risen, scale), fallen))
        ops.assign(self.counter, ops.where(grads_finite, ops.mod(ops.add(counter, 1), self.scale_window), 0))
        return True


def all_finite(inputs: object, status: object = None) -> Tensor:
    """Returns whether every float in a tuple or list of tensors is neither infinite nor nan: bool of shape ().

    Lists may nest; integers and bools count as finite. In a traced function this closes an overflow window, so the
    compiler places it around the backward that computed `inputs` and proves that. `status` is MindSpore 2.0's and
    changes nothing. Raises GraphTypeError for a bare tensor and for anything but tensors, GraphValueError where there
    is none.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.amp import all_finite
        >>> all_finite([tensor([1.0, 2.0]), tensor([float("inf")])])
        Tensor(shape=[], dtype=Bool, value=False)
    """
    if not isinstance(inputs, (tuple, list)):
        raise GraphTypeError(f"all_finite takes a tuple or list of tensors, not {inputs!r}.")
    tensors = leaves(inputs)
    if not all(map(is_tensor, tensors)):
        raise GraphTypeError("all_finite takes tensors in a tuple or list, and nothing else there.")
    if not tensors:
        raise GraphValueError("all_finite takes one tensor or more.")
    floats = [x for x in map(tensor_of, tensors) if x.dtype.is_float]
    return ops.logical_not(overflow_get(None, floats)) if floats else Tensor(True)
