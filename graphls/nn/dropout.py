"""Layers that drop elements or whole channels in training."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.errors import GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.function_cells import FunctionCell, setting
from graphls.ops.operands import Operand
from graphls.ops.random import check_probability
from graphls.tensors.tensor import TensorLike

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d"]


def _probability(cell: str, name: str, value: Operand) -> float:
    check_probability(cell, value)
    return float(value)


class Dropout2d(FunctionCell, function=ops.dropout2d, shown=("p",)):
    """In training, whole channels of (N, C, H, W) set to 0 with probability `p`; else x itself.

    The others are divided by 1 - p. Raises GraphTypeError for what is no number, GraphValueError outside of [0, 1].
    """

    p: float = setting(_probability, default=0.5)

    def construct(self, x: TensorLike) -> Any:
        return type(self).function(x, self.p) if self.training and self.p > 0 else x


class Dropout1d(Dropout2d, function=ops.dropout1d):
    """In training, whole channels of (N, C, L) or (C, L) set to 0 with probability `p`; see Dropout2d."""


class Dropout3d(Dropout2d, function=ops.dropout3d):
    """In training, whole channels of (N, C, D, H, W) set to 0 with probability `p`; see Dropout2d."""


class Dropout(Cell):
    """In training, elements set to 0 with probability `p` and the others divided by 1 - p; else x itself.

    `keep_prob`, the older argument, is 1 - p, and `dtype` changes nothing. Raises GraphTypeError for what is no number,
    GraphValueError unless some elements are kept.
    """

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: Any = float32) -> None:
        super().__init__()
        if p is None:
            check_probability("Dropout", keep_prob)
            p = 1.0 - keep_prob
        check_probability("Dropout", p)
        if p == 1:
            raise GraphValueError("For 'Dropout', the 'p' must be in [0, 1), but got 1.")
        self.p = float(p)

    def construct(self, x: TensorLike) -> Any:
        return ops.dropout(x, self.p) if self.training and self.p > 0 else x

    def extend_repr(self) -> str:
        return f"p={self.p}"
