"""Training steps that accumulate gradients over calls, clip them, and keep averages of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphls import ops
from graphls.base.checks import fraction, positive, positive_int
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.tracer import in_phase
from graphls.nn.cell import Cell
from graphls.nn.grad_reducer import DistributedGradReducer, any_rank_where
from graphls.nn.train_step import TrainOneStepCell, TrainOneStepWithLossScaleCell, sensitivity_like, unscaled
from graphls.nn.updates import AccumulatedGradients, AverageSinceFirstUpdate, Averaging
from graphls.ops.operands import tensor_of
from graphls.ops.state import overflow_get

SETTINGS = ("accumulate_steps", "clip_norm", "clip_value", "ema_decay")


@dataclass(frozen=True)
class Updates:
    """How a step updates: after how many calls, by gradients of which norm or size at most, and with which averages.

    Raises GraphTypeError and GraphValueError, which name `owner`, for settings that do not fit.
    """

    owner: str
    accumulate_steps: int = 1
    clip_norm: float | None = None
    clip_value: float | None = None
    ema_decay: float | None = None

    def __post_init__(self) -> None:
        positive_int(self.owner, "accumulate_steps", self.accumulate_steps)
        for name in ("clip_norm", "clip_value"):
            if getattr(self, name) is not None:
                positive(self.owner, name, getattr(self, name))
        if self.ema_decay is not None:
            fraction(self.owner, "ema_decay", self.ema_decay)
        if self.clip_norm is not None and self.clip_value is not None:
            raise GraphValueError(
                f"For {self.owner!r}, gradients are clipped by 'clip_norm' or by 'clip_value', not both."
            )

    @property
    def is_plain(self) -> bool:
        """Whether each call is an update by the gradients as they are, and nothing more."""
        return self.accumulate_steps == 1 and not self.clips and self.ema_decay is None

    @property
    def clips(self) -> bool:
        """Whether gradients are clipped."""
        return self.clip_norm is not None or self.clip_value is not None

    def clipped(self, grads: Sequence[Tensor], scale: float) -> Any:
        """Gradients, which are multiplied by `scale`, clipped as they would be without."""
        if self.clip_norm is not None:
            return ops.clip_by_global_norm(tuple(grads), self.clip_norm * scale)
        if self.clip_value is not None:
            most = self.clip_value * scale
            return tuple(ops.clip_by_value(grad, -most, most) for grad in grads)
        return grads


class Updating(TrainOneStepCell, Averaging):
    """What both kinds of steps share."""

    updates: Updates
    accumulation: AccumulatedGradients | None

    def _set_updates(self, updates: Updates) -> None:
        self.updates, steps = updates, updates.accumulate_steps
        self.accumulation = AccumulatedGradients(self.weights, steps) if steps > 1 else None
        decay = updates.ema_decay
        self.ema = None if decay is None else AverageSinceFirstUpdate(self.weights, decay, updates.owner)

    def over_all(self, grads: Sequence[Tensor]) -> Any:
        """The gradients of this update so far, of all ranks together in its last call only."""
        if self.accumulation is None:
            return self.grad_reducer(grads)
        mean = self.accumulation.mean(grads)
        if not isinstance(self.grad_reducer, DistributedGradReducer):
            return mean
        return self.grad_reducer.reduced_where(self.accumulation.is_last(), mean)

    def finish(self, loss: Any, grads: Sequence[Tensor], overflow: Tensor | None) -> tuple[Any, Any]:
        """Update by these gradients, or keep them for a later call; returns the loss and whether anything overflowed.

        `overflow` says whether this call did; it is None where nobody looks.
        """
        accumulation = self.accumulation
        if accumulation is None:
            return self.whole_step(loss, grads, overflow)
        is_last = accumulation.is_last()
        if overflow is not None:
            overflow = accumulation.overflowed(overflow)
            overflow = any_rank_where(is_last, overflow) if self.reducer_flag else overflow
        if is_last:
            accumulation.restart()
            return self.whole_step(loss, grads, overflow)
        accumulation.keep(grads, overflow)
        return loss, overflow

    def whole_step(self, loss: Any, grads: Sequence[Tensor], overflow: Tensor | None) -> tuple[Any, Any]:
        """Update everything by these gradients unless they overflowed."""
        if overflow is None:
            return ops.depend(loss, self.update(grads)), None
        overflow = self.process_loss_scale(overflow)
        if not overflow:
            loss = ops.depend(loss, self.update(grads))
        return loss, overflow

    def process_loss_scale(self, overflow: Tensor) -> Tensor:
        """Nothing, where there is no scale; returns the status."""
        return overflow

    def update(self, grads: Sequence[Tensor]) -> Any:
        """Clip the gradients, update the parameters and their averages; returns what the optimizer gives."""
        wide = tuple(map(tensor_of, grads))
        done = self.optimizer(self.updates.clipped(wide, self.optimizer.loss_scale))
        if self.ema is not None:
            self.ema.update()
        return done


class TrainOneStepWithUpdatesCell(Updating):
    """TrainOneStepCell with the settings of Updates; gives the loss of the call."""

    def __init__(self, network: Cell, optimizer: Cell, updates: Updates, sens: float | None = None) -> None:
        super().__init__(network, optimizer, sens)
        self._set_updates(updates)

    def construct(self, *inputs: object) -> Any:
        loss = self.network(*inputs)
        grads = self.over_all(self._gradients(loss, inputs))
        with in_phase("update"):
            return self.finish(loss, grads, None)[0]


class TrainOneStepWithLossScaleAndUpdatesCell(TrainOneStepWithLossScaleCell, Updating):
    """TrainOneStepWithLossScaleCell with the settings of Updates; gives (loss of the call, overflow, scale).

    Where gradients are accumulated, `overflow` says whether this call or an earlier one of the same update overflowed,
    of any rank in the last call of an update and of this one before. Then the update is skipped, and the scale changes
    with an update only.
    """

    def __init__(self, network: Cell, optimizer: Cell, scale_sense: float | Cell | Tensor, updates: Updates) -> None:
        super().__init__(network, optimizer, scale_sense)
        self._set_updates(updates)

    def construct(self, *inputs: object) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(*inputs, sensitivity_like(loss, scale))
        if self.accumulation is None:
            grads = self.over_ranks(grads, scale)
            overflow = self.get_overflow_status(status, grads)
        else:
            grads = self.over_all(unscaled(grads, scale))
            overflow = overflow_get(status, grads)
        with in_phase("update"):
            loss, overflow = self.finish(loss, grads, overflow)
        return loss, overflow, scale
