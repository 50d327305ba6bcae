"""Moving averages of parameters, to evaluate with."""

from __future__ import annotations

from collections.abc import Sequence

from graphls import ops
from graphls.nn.cell import Cell
from graphls.nn.checks import fraction
from graphls.nn.optimizers import wide_dtype
from graphls.ops.operands import state_of
from graphls.tensors.parameter import Parameter, ParameterTuple
from graphls.tensors.tensor import Array


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
