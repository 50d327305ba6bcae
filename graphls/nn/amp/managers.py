"""Managers of the loss scale on the host, which create the update cells of training steps."""

from __future__ import annotations

from numbers import Real
from typing import Any

from graphls.base.checks import positive_int
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.nn.cell import Cell
from graphls.nn.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell

MOST_OVERFLOWS = 1000


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
