"""One layer for all times."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.errors import GraphTypeError
from graphls.nn.cell import Cell
from graphls.ops.operands import axis_of, tensor_of
from graphls.ops.settings import integer
from graphls.tensors.tensor import Tensor

__all__ = ["TimeDistributed"]


class TimeDistributed(Cell):
    """A layer, a cell or an operator, applied to each slice along `time_axis`, which the results are stacked along.

    With `reshape_with_axis` the layer sees all times at once: the axis of times is moved beside that one and joined
    with it, and split from it again in the result. Raises GraphTypeError for what cannot be called and for axes that
    are no integers.
    """

    def __init__(self, layer: Any, time_axis: int, reshape_with_axis: int | None = None) -> None:
        super().__init__()
        if not callable(layer):
            message = f"For 'TimeDistributed', the 'layer' must be a cell or an operator, but got {layer!r}."
            raise GraphTypeError(message)
        self.layer = layer
        self.time_axis = integer("TimeDistributed", "time_axis", time_axis)
        self.reshape_with_axis = (
            None if reshape_with_axis is None else integer("TimeDistributed", "reshape_with_axis", reshape_with_axis)
        )

    def construct(self, inputs: Any) -> Tensor:
        x = tensor_of(inputs)
        time = axis_of(self.time_axis, x.ndim)
        if self.reshape_with_axis is None:
            return ops.stack([self.layer(part) for part in ops.unstack(x, time)], time)
        return self._joined(x, time, axis_of(self.reshape_with_axis, x.ndim))

    def _joined(self, x: Tensor, time: int, other: int) -> Tensor:
        beside = x.ndim - 2 if other == x.ndim - 1 else other + 1 if time > other else other - 1
        moved, first = ops.moveaxis(x, time, beside), min(beside, other)
        pair = moved.shape[first : first + 2]
        y = self.layer(ops.reshape(moved, (*moved.shape[:first], pair[0] * pair[1], *moved.shape[first + 2 :])))
        return ops.reshape(y, (*y.shape[:first], *pair, *y.shape[first + 1 :]))

    def extend_repr(self) -> str:
        return f"time_axis={self.time_axis}, reshape_with_axis={self.reshape_with_axis}"
