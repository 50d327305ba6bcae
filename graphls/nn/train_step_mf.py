"""Training steps of MindFormers, with gradient clipping, accumulation over calls, and moving averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphls import ops
from graphls.base.checks import positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.tracer import in_phase
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.learning_rate_schedule import rate_now
from graphls.nn.train_step import TrainOneStepWithLossScaleCell, sensitivity_like, unscaled
from graphls.nn.train_step_updates import AccumulatedGradients, Averaging, MovingAverage
from graphls.ops.operands import state_of

__all__ = ["MFPipelineWithLossScaleCell", "MFTrainOneStepCell"]


class ClipGradNorm(Cell):
    """Scale gradients so that their common norm is `max_norm` at most; returns (gradients, the norm before).

    The norm n, float32 of shape (), is the square root of the sum of all squares. Every gradient is multiplied by
    min(max_norm / (max(n, max_norm) + 1e-6), 1), which is a little below 1 for gradients that need no clipping, as in
    MindFormers; a norm of nan counts as `max_norm`. Raises GraphTypeError for a `max_norm` that is not a number,
    GraphValueError unless it is finite and above 0.
    """

    def __init__(self, max_norm: float = 1.0) -> None:
        super().__init__()
        if isinstance(max_norm, bool) or not isinstance(max_norm, (int, float)):
            raise GraphTypeError(
                f"For 'ClipGradNorm', the argument 'clip_norm' must be a number, but got {max_norm!r}."
            )
        if not max_norm > 0 or math.isinf(max_norm):
            rule = "must be finite" if max_norm > 0 else "must > 0.0"
            raise GraphValueError(f"For 'ClipGradNorm', the argument 'clip_norm' {rule}, but got {max_norm}.")
        self.max_norm = float(max_norm)

    def construct(self, grads: Sequence[Tensor]) -> tuple[Any, Tensor]:
        norm = self.norm(grads)
        return self.clipped(grads, norm), norm

    def norm(self, grads: Sequence[Tensor]) -> Tensor:
        """The common norm of gradients."""
        return ops.sqrt(_total([_squares(g) for g in grads]))

    def clipped(self, grads: Sequence[Tensor], norm: Tensor) -> tuple[Tensor, ...]:
        """Gradients with this common norm, scaled."""
        larger = ops.where(ops.greater_equal(norm, self.max_norm), norm, self.max_norm)
        coefficient = ops.minimum(ops.div(self.max_norm, ops.add(larger, 1e-6)), 1.0)
        return tuple(ops.cast(ops.mul(g, coefficient), g.dtype) for g in grads)


def local_norms(grads: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The norm of each gradient, float32, and its number of elements, int64, both of shape (gradients,)."""
    norms = ops.sqrt(ops.stack([_squares(g) for g in grads]))
    return norms, Tensor([g.size for g in grads])


def _squares(gradient: Tensor) -> Tensor:
    return ops.sum(ops.square(ops.cast(gradient, float32)))


def _total(numbers: Sequence[Tensor]) -> Tensor:
    result = numbers[0]
    for number in numbers[1:]:
        result = ops.add(result, number)
    return result


KEYWORDS = ("parallel_config", "gradient_accumulation_steps", "ema_decay")


class MFTrainOneStepCell(TrainOneStepWithLossScaleCell, Averaging):
    """One training step with loss scaling, clipping, accumulation and moving averages, as in MindFormers 1.3.

    The step returns (loss, overflow, the scale after the step, learning rate, global norm), with `local_norm` also
    (local norms, sizes):

    - `scale_sense` may be a number too; an integer is an int64 scale.
    - The learning rate is that of this update: the number at the time the step was created, or a schedule's value;
      with groups the numbers of all in a tuple or, where one of them has a schedule, the last parameter's.
    - With `use_clip_grad` gradients are scaled to a common norm of at most `max_grad_norm` (see ClipGradNorm), and the
      global norm is their norm before, float32 of shape (); else it is None.
    - Local norms are those of each parameter's gradient before clipping, float32, with their sizes, int64.

    `gradient_accumulation_steps=n` makes one update of every n calls, with the mean of their gradients. Each call
    returns its own loss and local norms, and the global norm of the mean so far. Its `overflow` says whether it or an
    earlier call of the same update overflowed; where it is true on the n-th call, nothing was updated. The loss scale
    is updated on the n-th call only. `ema_decay=d` keeps a moving average of each parameter in the states
    `ema.<name>`, updated with the parameters; see `ema_weights`. `parallel_config` is stored but not used.

    Raises as TrainOneStepWithLossScaleCell does, GraphTypeError for other keyword arguments, GraphTypeError and
    GraphValueError for a `max_grad_norm` or `gradient_accumulation_steps` that is not positive and an `ema_decay`
    outside of (0, 1).

    Examples:
        >>> import graphls
        >>> from graphls import nn, tensor
        >>> net = nn.Dense(2, 1, weight_init="zeros", has_bias=False)
        >>> scale = nn.DynamicLossScaleUpdateCell(2**16, 2, 1000)
        >>> loss_cell = nn.WithLossCell(net, nn.MSELoss())
        >>> sgd = nn.SGD(net.trainable_params(), 0.1)
        >>> step = nn.MFTrainOneStepCell(loss_cell, sgd, use_clip_grad=True, scale_sense=scale)
        >>> x, y = tensor([[3.0, 4.0]]), tensor([[1.0]])
        >>> loss, overflow, scale, rate, norm = graphls.compile(step, x, y)(x, y)
        >>> float(loss), bool(overflow), float(scale), float(norm)
        (1.0, False, 65536.0, 10.0)
    """

    def __init__(
        self, network: Cell, optimizer: Cell, use_clip_grad: bool = False, max_grad_norm: float = 1.0,
        scale_sense: float | Cell | Tensor = 1.0, local_norm: bool = False, *, parallel_config: object = None,
        gradient_accumulation_steps: int = 1, ema_decay: float | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        if kwargs:
            raise GraphTypeError(
                f"{type(self).__name__} has no argument {next(iter(kwargs))!r}; the further keyword arguments are "
                f"{', '.join(KEYWORDS)}.",
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

    @property
    def _output_names(self) -> str | tuple[str, ...]:
        return ("loss", "overflow", "scale", "current_learning_rate", "global_norm", "local_norms", "sizes")

    def construct(self, *inputs: object) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(*inputs, sensitivity_like(loss, self.sensitivity(scale)))
        with in_phase("update"):
            local = local_norms(unscaled(grads, scale)) if self.local_norm else ()
        grads = self.over_ranks(grads, scale)
        overflow = self.get_overflow_status(status, grads)
        with in_phase("update"):
            rate = self.current_rate()
            if self.accumulation is None:
                loss, overflow, norm = self.update_unless_overflow(loss, grads, overflow)
            else:
                loss, overflow, norm = self.accumulate(self.accumulation, loss, grads, overflow)
        return loss, overflow, scale, rate, norm, *local

    def sensitivity(self, scale: Tensor) -> Tensor:
        """The factor of the gradients at this scale."""
        return scale

    def update_unless_overflow(
        self, loss: TensorLike, grads: Sequence[Tensor], overflow: Tensor
    ) -> tuple[Any, Any, Any]:
        """Update everything by these gradients unless they overflowed; returns (loss, overflow, global norm)."""
        overflow = self.process_loss_scale(overflow)
        norm = self.global_norm(grads)
        if not overflow:
            loss = ops.depend(loss, self.update(grads, norm))
        return loss, overflow, norm

    def accumulate(
        self, accumulation: AccumulatedGradients, loss: Tensor, grads: Sequence[Tensor], overflow: Tensor
    ) -> tuple[Any, Any, Any]:
        """Add these gradients to those of earlier calls; the last call of an update updates everything."""
        overflow = accumulation.overflowed(overflow)
        grads = accumulation.mean(grads)
        if accumulation.is_last():
            accumulation.restart()
            return self.update_unless_overflow(loss, grads, overflow)
        accumulation.keep(grads, overflow)
        return loss, overflow, self.global_norm(grads)

    def global_norm(self, grads: Sequence[Tensor]) -> Tensor | None:
        """The common norm of gradients; None where the step does not clip."""
        return self.clip_grad_norm.norm(grads) if self.use_clip_grad else None

    def update(self, grads: Sequence[Tensor], norm: Tensor | None) -> Any:
        """Clip the gradients, update the parameters and their averages; returns the optimizer's result."""
        result = self.optimizer(grads if norm is None else self.clip_grad_norm.clipped(grads, norm))
        if self.ema is not None:
            self.ema.update()
        return result

    def current_rate(self) -> Any:
        """The learning rate of the coming update, as the step returns it."""
        rate, optimizer = self.learning_rate, self.optimizer
        if not optimizer.dynamic_lr:
            return rate
        return rate_now(rate[-1] if optimizer.is_group_lr else rate, state_of(optimizer.global_step))


class MFPipelineWithLossScaleCell(MFTrainOneStepCell):
    """The training step of MindFormers for a network that runs on `micro_batch_num` parts of a batch.

    The network is a PipelineCell, or a GradAccumulationCell, of so many parts. The step returns what MFTrainOneStepCell
    does; the loss is the sum over the parts, and the gradients are those of their mean, as the loss is scaled by the
    scale divided by `micro_batch_num`. It clips by default, and runs in every mode and on one device, too. Raises as
    MFTrainOneStepCell does, and GraphTypeError and GraphValueError for a `micro_batch_num` that is not positive.

    Examples:
        >>> import graphls
        >>> from graphls import nn, tensor
        >>> net = nn.Dense(1, 1, weight_init="zeros", has_bias=False)
        >>> parts = nn.PipelineCell(nn.WithLossCell(net, nn.MSELoss()), 2)
        >>> step = nn.MFPipelineWithLossScaleCell(parts, nn.SGD(net.trainable_params(), 0.5), micro_batch_num=2)
        >>> x, y = tensor([[3.0], [4.0]]), tensor([[1.0], [1.0]])
        >>> loss, overflow, scale, rate, norm = graphls.compile(step, x, y)(x, y)
        >>> float(loss), float(norm)  # 1 + 1, and the mean of 6 and 8
        (2.0, 7.0)
    """

    def __init__(
        self, network: Cell, optimizer: Cell, use_clip_grad: bool = True, max_grad_norm: float = 1.0,
        scale_sense: float | Cell | Tensor = 1.0, micro_batch_num: int = 1, local_norm: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(network, optimizer, use_clip_grad, max_grad_norm, scale_sense, local_norm, **kwargs)
        self.micro_size = positive_int("MFPipelineWithLossScaleCell", "micro_batch_num", micro_batch_num)

    def sensitivity(self, scale: Tensor) -> Tensor:
        """The scale of each part of the batch, float32."""
        return scale if self.micro_size == 1 else ops.div(ops.cast(scale, float32), float(self.micro_size))


def _reported_rates(optimizer: Any) -> Any:
    """The schedules of an optimizer, for each parameter with groups; copies of learning rates that are all numbers."""
    if optimizer.dynamic_lr:
        return optimizer.learning_rate
    rates = tuple(rate.value() for rate in optimizer.group_rates)
    return rates if optimizer.is_group_lr else rates[0]
