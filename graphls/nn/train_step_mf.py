"""MindFormers' training step: loss scaling with clipping, accumulation and moving averages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from graphls import ops
from graphls.ir.checks import fraction, positive_int
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.cell import Cell
from graphls.nn.gradients import AccumulatedGradients, ClipGradNorm, local_norms
from graphls.nn.learning_rate_schedule import rate_now
from graphls.nn.optimizers.base import wide_dtype
from graphls.nn.train_step import TrainOneStepWithLossScaleCell, in_phase, sensitivity_like, unscaled
from graphls.ops.operands import state_of
from graphls.tensors.parameter import Parameter, ParameterTuple
from graphls.tensors.tensor import Array, Tensor, TensorLike

__all__ = ["MFTrainOneStepCell"]


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
        self.__dict__["kept"] = None

    def update(self) -> None:
        """Move every average towards its parameter."""
        for parameter, average in zip(self.parameters, self.averages, strict=True):
            distance = ops.sub(ops.cast(state_of(parameter), average.dtype), state_of(average))
            ops.assign_add(average, ops.mul(distance, 1.0 - self.decay))

    def swap(self) -> None:
        """Give the parameters the averages; at the next call, the values that they had."""
        kept: list[Array] | None = self.__dict__["kept"]
        self.__dict__["kept"] = [p.asnumpy() for p in self.parameters] if kept is None else None
        values = [average.asnumpy() for average in self.averages] if kept is None else kept
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.set_data(value)


KNOWN = ("parallel_config", "gradient_accumulation_steps", "ema_decay")


class MFTrainOneStepCell(TrainOneStepWithLossScaleCell):
    """One training step with loss scaling, clipping, accumulation and moving averages, as MindFormers 1.3 has it.

    The step returns (loss, overflow, the scale after the step, learning rate, global norm), with `local_norm` also
    (local norms, sizes):

    - `scale_sense` may be a number too; an integer is an int64 scale.
    - The learning rate is that of this update: a number as it was when the step was made, or a schedule's value;
      with groups the numbers of all in a tuple or, where one of them has a schedule, the last parameter's.
    - With `use_clip_grad` gradients are scaled to a common norm of at most `max_grad_norm` (see ClipGradNorm), and the
      global norm is their norm before, float32 of shape (); else it is None.
    - Local norms are those of each parameter's gradient before clipping, float32, with their sizes, int64.

    `gradient_accumulation_steps=n` makes every n calls one update with the mean of their gradients. Each call
    returns its own loss and local norms, and the global norm of the mean so far. Its `overflow` says whether it or an
    earlier call of the same update overflowed; where it is true on the n-th call, nothing was updated. The loss scale
    is updated on the n-th call only. `ema_decay=d` keeps a moving average of each parameter in the states
    `ema.<name>`, updated with the parameters; see `ema_weights`. `parallel_config` is kept and not used.

    Raises as TrainOneStepWithLossScaleCell does, GraphTypeError for other keyword arguments, GraphTypeError and
    GraphValueError for a `max_grad_norm` or `gradient_accumulation_steps` that is not positive and an `ema_decay`
    outside of (0, 1).
    """

    def __init__(
        self,
        network: Cell,
        optimizer: Cell,
        use_clip_grad: bool = False,
        max_grad_norm: float = 1.0,
        scale_sense: object = 1.0,
        local_norm: bool = False,
        *,
        parallel_config: object = None,
        gradient_accumulation_steps: int = 1,
        ema_decay: float | None = None,
        **kwargs: object,
    ) -> None:
        if kwargs:
            raise GraphTypeError(
                f"MFTrainOneStepCell has no argument {next(iter(kwargs))!r}; the further keyword arguments are "
                f"{', '.join(KNOWN)}.",
            )
        if isinstance(scale_sense, (int, float)) and not isinstance(scale_sense, bool):
            scale_sense = Tensor(scale_sense)
        super().__init__(network, optimizer, scale_sense)
        self.use_clip_grad = use_clip_grad
        self.clip_grad_norm = ClipGradNorm(max_grad_norm)
        self.local_norm = local_norm
        self.parallel_config = parallel_config
        self.learning_rate = _reported_rates(optimizer)
        steps = positive_int("MFTrainOneStepCell", "gradient_accumulation_steps", gradient_accumulation_steps)
        self.accumulation = AccumulatedGradients(self.weights, steps) if steps > 1 else None
        self.ema = None if ema_decay is None else MovingAverage(self.weights, ema_decay, "MFTrainOneStepCell")

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(*inputs, sensitivity_like(loss, scale))
        grads = unscaled(grads, scale)
        with in_phase("update"):
            local = local_norms(grads) if self.local_norm else ()
        grads = self.grad_reducer(grads)
        overflow = self.get_overflow_status(status, grads)
        with in_phase("update"):
            rate = self.current_rate()
            if self.accumulation is None:
                loss, overflow, norm = self.whole_step(loss, grads, overflow)
            else:
                loss, overflow, norm = self.micro_step(self.accumulation, loss, grads, overflow)
        return loss, overflow, scale, rate, norm, *local

    def whole_step(self, loss: TensorLike, grads: TensorLike, overflow: Tensor) -> tuple[Any, Any, Any]:
        """Update everything by these gradients unless they overflowed; returns (loss, overflow, global norm)."""
        overflow = self.process_loss_scale(overflow)
        norm = self.global_norm(grads)
        if not overflow:
            loss = ops.depend(loss, self.update(grads, norm))
        return loss, overflow, norm

    def micro_step(
        self, accumulation: AccumulatedGradients, loss: Tensor, grads: Any, overflow: Any
    ) -> tuple[Any, Any, Any]:
        """Add these gradients to those of earlier calls; the last call of an update updates everything."""
        overflow = accumulation.overflowed(overflow)
        grads = accumulation.mean(grads)
        if accumulation.is_last():
            accumulation.restart()
            return self.whole_step(loss, grads, overflow)
        accumulation.keep(grads, overflow)
        return loss, overflow, self.global_norm(grads)

    def global_norm(self, grads: Any) -> Tensor | None:
        """The common norm of gradients, where the step clips."""
        return self.clip_grad_norm.norm(grads) if self.use_clip_grad else None

    def update(self, grads: Any, norm: Any) -> Any:
        """Clip the gradients, update the parameters and their averages; returns what the optimizer gives."""
        done = self.optimizer(grads if norm is None else self.clip_grad_norm.clipped(grads, norm))
        if self.ema is not None:
            self.ema.update()
        return done

    def current_rate(self) -> Any:
        """The learning rate of the coming update, as the step returns it."""
        rate, optimizer = self.learning_rate, self.optimizer
        if not optimizer.dynamic_lr:
            return rate
        return rate_now(rate[-1] if optimizer.is_group_lr else rate, state_of(optimizer.global_step))

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


def _reported_rates(optimizer: Any) -> Any:
    """The schedules of an optimizer, for each parameter with groups; copies of learning rates that are all numbers."""
    if optimizer.dynamic_lr:
        return optimizer.learning_rate
    rates = tuple(rate.data for rate in optimizer.group_rates)
    return rates if optimizer.is_group_lr else rates[0]
