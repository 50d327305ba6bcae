"""What training steps do with gradients besides giving them to the optimizer, and with parameters behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from graphls import ops
from graphls.base.checks import fraction
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.tensor import Array, Tensor, TensorLike
from graphls.ir.types import DType
from graphls.nn.cell import Cell
from graphls.nn.optimizers.base import states_like, wide_dtype
from graphls.ops.operands import state_of


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
        """Whether this call completes an update."""
        return ops.equal(state_of(self.accumulation_step), self.steps - 1)

    def overflowed(self, overflow: Tensor) -> Tensor:
        """Whether this call or an earlier one of the same update overflowed."""
        return ops.logical_or(state_of(self.accumulation_overflow), overflow)

    def mean(self, grads: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The part of the mean that is known with the gradients of this call."""
        pairs = zip(self.accu_grads, grads, strict=True)
        return tuple(ops.add(state_of(known), ops.mul(g, 1.0 / self.steps)) for known, g in pairs)

    def keep(self, mean: Sequence[Tensor], overflow: Tensor | None) -> None:
        """Remember what this call has found; None where nobody looks for overflows."""
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
        self.__dict__["kept"] = None

    def update(self) -> None:
        """Move every average towards its parameter."""
        for parameter, average in zip(self.parameters, self.averages, strict=True):
            distance = ops.sub(ops.cast(state_of(parameter), average.dtype), state_of(average))
            ops.assign_add(average, ops.mul(distance, self.rate(average.dtype)))

    def rate(self, dtype: DType) -> TensorLike:
        """How far the averages move in this update."""
        return 1.0 - self.decay

    def swap(self) -> None:
        """Give the parameters the averages; at the next call, the values that they had."""
        kept: list[Array] | None = self.__dict__["kept"]
        self.__dict__["kept"] = [p.asnumpy() for p in self.parameters] if kept is None else None
        values = [average.asnumpy() for average in self.averages] if kept is None else kept
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.set_data(value)


class AverageSinceFirstUpdate(MovingAverage):
    """A MovingAverage that is what the parameters are behind the first update, whatever they were when it was made.

    So weights that are loaded later count, and those that a network begins with do not. The state `ema_updates`, int32
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
        if self.__dict__["kept"] is not None or int(self.ema_updates.asnumpy()):
            super().swap()


class Averaging:
    """What steps that keep moving averages offer; `ema` is None in those that keep none."""

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
