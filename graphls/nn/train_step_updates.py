"""Training steps that accumulate gradients over calls, clip them, and keep moving averages of the parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.checks import fraction, positive, positive_int
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.tensor import Array, Tensor, TensorLike
from graphls.frontend.trace.tracer import in_phase
from graphls.ir.types import DType
from graphls.nn.cell import Cell
from graphls.nn.grad_reducer import DistributedGradReducer, any_rank_where
from graphls.nn.optimizers.base import states_like, wide_dtype
from graphls.nn.train_step import TrainOneStepCell, TrainOneStepWithLossScaleCell, sensitivity_like, unscaled
from graphls.ops.operands import state_of, tensor_of
from graphls.ops.state import overflow_get


class AccumulatedGradients(Cell):
    """The mean of the gradients of `steps` calls of a training step, and whether one of them overflowed.

    A call whose gradients overflow, and those after it up to the end of the update, leave the mean so far as it is.
    The states are `accu_grads.<name>`, `accumulation_step`, int32 of shape (), the number of calls since the last
    update, and `accumulation_overflow`, bool of shape ().
    """

    def __init__(self, parameters: Sequence[Parameter], steps: int) -> None:
        super().__init__(auto_prefix=False)
        self.steps = steps
        self.accu_grads = states_like(parameters, "accu_grads")
        self.accumulation_step = Parameter(np.int32(0), name="accumulation_step", requires_grad=False)
        self.accumulation_overflow = Parameter(np.bool_(False), name="accumulation_overflow", requires_grad=False)

    def is_last(self) -> Tensor:
        """Returns whether this call completes an update."""
        return ops.equal(state_of(self.accumulation_step), self.steps - 1)

    def overflowed(self, overflow: Tensor) -> Tensor:
        """Returns whether this call or an earlier one of the same update overflowed."""
        return ops.logical_or(state_of(self.accumulation_overflow), overflow)

    def mean(self, grads: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The running mean, with the gradients of this call."""
        pairs = zip(self.accu_grads, grads, strict=True)
        return tuple(ops.add(state_of(known), ops.mul(g, 1.0 / self.steps)) for known, g in pairs)

    def keep(self, mean: Sequence[Tensor], overflow: Tensor | None) -> None:
        """Store the running mean and the overflow flag; the flag is None in steps without an overflow check."""
        ops.assign_add(self.accumulation_step, 1)
        if overflow is not None:
            ops.assign(self.accumulation_overflow, overflow)
        for state, value in zip(self.accu_grads, mean, strict=True):
            ops.assign(state, value if overflow is None else ops.where(overflow, state_of(state), value))

    def restart(self) -> None:
        """Begin the next update."""
        for state in (*self.accu_grads, self.accumulation_step, self.accumulation_overflow):
            ops.assign(state, ops.zeros_like(state_of(state)))


class MovingAverage(Cell):
    """A shadow copy of each parameter: average = average + (1 - decay) * (parameter - average) at every update.

    The copies start as the parameters are now. They are the states `ema.<name>`, float32 for 16-bit parameters.
    Raises GraphTypeError and GraphValueError unless `decay` is in (0, 1).
    """

    def __init__(self, parameters: Sequence[Parameter], decay: float, owner: str) -> None:
        super().__init__(auto_prefix=False)
        self.decay = fraction(owner, "ema_decay", decay)
        self.parameters = tuple(parameters)
        self.averages = ParameterTuple(
            Parameter(p.asnumpy().astype(wide_dtype(p).numpy), name=f"ema.{p.name}", requires_grad=False)
            for p in parameters
        )
        self.__dict__["saved"] = None

    def update(self) -> None:
        """Move every average towards its parameter."""
        for parameter, average in zip(self.parameters, self.averages, strict=True):
            distance = ops.sub(ops.cast(state_of(parameter), average.dtype), state_of(average))
            ops.assign_add(average, ops.mul(distance, self.rate(average.dtype)))

    def rate(self, dtype: DType) -> TensorLike:
        """The fraction of the distance that the averages move in this update."""
        return 1.0 - self.decay

    def swap(self) -> None:
        """Exchange the parameters for their averages, and at the next call for their own values again."""
        saved: list[Array] | None = self.__dict__["saved"]
        self.__dict__["saved"] = [p.asnumpy() for p in self.parameters] if saved is None else None
        values = [average.asnumpy() for average in self.averages] if saved is None else saved
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.set_data(value)


class AverageSinceFirstUpdate(MovingAverage):
    """A MovingAverage that starts as the parameters after the first update, regardless of their initial values.

    Weights that are loaded after its creation count, then, and initial weights do not. The state `ema_updates`, int32
    of shape (), counts the updates. Before the first one there is nothing to swap.
    """

    def __init__(self, parameters: Sequence[Parameter], decay: float, owner: str) -> None:
        super().__init__(parameters, decay, owner)
        self.ema_updates = Parameter(np.int32(0), name="ema_updates", requires_grad=False)

    def update(self) -> None:
        super().update()
        ops.assign_add(self.ema_updates, 1)

    def rate(self, dtype: DType) -> TensorLike:
        is_first = ops.equal(state_of(self.ema_updates), 0)
        return ops.where(is_first, Tensor(1.0, dtype), Tensor(1.0 - self.decay, dtype))

    def swap(self) -> None:
        if self.__dict__["saved"] is not None or int(self.ema_updates.asnumpy()):
            super().swap()


class Averaging:
    """The methods of training steps with moving averages; `ema` is None in steps without them."""

    ema: MovingAverage | None

    def swap_ema(self) -> None:
        """Give the parameters their moving averages, and at the next call their own values again.

        Do not train or save in between. Raises GraphValueError where there are no averages.
        """
        if self.ema is None:
            raise GraphValueError("There are no moving averages; make the step with an ema_decay.")
        self.ema.swap()

    @contextmanager
    def ema_weights(self) -> Iterator[None]:
        """Evaluate with the moving averages: `with step.ema_weights(): ...`; raises as `swap_ema` does."""
        self.swap_ema()
        try:
            yield
        finally:
            self.swap_ema()


SETTINGS = ("accumulate_steps", "clip_norm", "clip_value", "ema_decay")


@dataclass(frozen=True)
class Updates:
    """The settings of an update: the number of calls it takes, gradient clipping, and moving averages.

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
        """True if each call is an update by the gradients as they are, and nothing more."""
        return self.accumulate_steps == 1 and not self.clips and self.ema_decay is None

    @property
    def clips(self) -> bool:
        """True if gradients are clipped."""
        return self.clip_norm is not None or self.clip_value is not None

    def clipped(self, grads: Sequence[Tensor], scale: float) -> Any:
        """Clip gradients that are multiplied by `scale`, in proportion."""
        if self.clip_norm is not None:
            return ops.clip_by_global_norm(tuple(grads), self.clip_norm * scale)
        if self.clip_value is not None:
            most = self.clip_value * scale
            return tuple(ops.clip_by_value(grad, -most, most) for grad in grads)
        return grads


class Updating(TrainOneStepCell, Averaging):
    """The base of both kinds of steps."""

    updates: Updates
    accumulation: AccumulatedGradients | None

    def _set_updates(self, updates: Updates) -> None:
        self.updates, steps = updates, updates.accumulate_steps
        self.accumulation = AccumulatedGradients(self.weights, steps) if steps > 1 else None
        decay = updates.ema_decay
        self.ema = None if decay is None else AverageSinceFirstUpdate(self.weights, decay, updates.owner)

    def over_all(self, grads: Sequence[Tensor]) -> Any:
        """The gradients of this update so far, reduced over all ranks in its last call only."""
        if self.accumulation is None:
            return self.grad_reducer(grads)
        mean = self.accumulation.mean(grads)
        if not isinstance(self.grad_reducer, DistributedGradReducer):
            return mean
        return self.grad_reducer.reduced_where(self.accumulation.is_last(), mean)

    def finish(self, loss: Any, grads: Sequence[Tensor], overflow: Tensor | None) -> tuple[Any, Any]:
        """Update by these gradients, or store them for a later call; returns the loss and the overflow so far.

        `overflow` is the flag of this call; it is None in steps without an overflow check.
        """
        accumulation = self.accumulation
        if accumulation is None:
            return self.update_unless_overflow(loss, grads, overflow)
        is_last = accumulation.is_last()
        if overflow is not None:
            overflow = accumulation.overflowed(overflow)
            overflow = any_rank_where(is_last, overflow) if self.reducer_flag else overflow
        if is_last:
            accumulation.restart()
            return self.update_unless_overflow(loss, grads, overflow)
        accumulation.keep(grads, overflow)
        return loss, overflow

    def update_unless_overflow(self, loss: Any, grads: Sequence[Tensor], overflow: Tensor | None) -> tuple[Any, Any]:
        """Update everything by these gradients unless they overflowed."""
        if overflow is None:
            return ops.depend(loss, self.update(grads)), None
        overflow = self.process_loss_scale(overflow)
        if not overflow:
            loss = ops.depend(loss, self.update(grads))
        return loss, overflow

    def process_loss_scale(self, overflow: Tensor) -> Tensor:
        """Return the status; there is no scale to update."""
        return overflow

    def update(self, grads: Sequence[Tensor]) -> Any:
        """Clip the gradients, update the parameters and their averages; returns the optimizer's result."""
        wide = tuple(map(tensor_of, grads))
        result = self.optimizer(self.updates.clipped(wide, self.optimizer.loss_scale))
        if self.ema is not None:
            self.ema.update()
        return result


class TrainOneStepWithUpdatesCell(Updating):
    """TrainOneStepCell with the settings of Updates; returns the loss of the call."""

    def __init__(self, network: Cell, optimizer: Cell, updates: Updates, sens: float | None = None) -> None:
        super().__init__(network, optimizer, sens)
        self._set_updates(updates)

    def construct(self, *inputs: object) -> Any:
        loss = self.network(*inputs)
        grads = self.over_all(self._gradients(loss, inputs))
        with in_phase("update"):
            return self.finish(loss, grads, None)[0]


class TrainOneStepWithLossScaleAndUpdatesCell(TrainOneStepWithLossScaleCell, Updating):
    """TrainOneStepWithLossScaleCell with the settings of Updates; returns (loss of the call, overflow, scale).

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
