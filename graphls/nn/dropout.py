"""Layers that drop elements or whole channels in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from graphls import ops
from graphls.ir.errors import GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.ops.random import check_probability
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d"]


class Dropout2d(Cell):
    """In training, whole channels of (N, C, H, W) set to 0 with probability `p`; else x itself.

    The others are divided by 1 - p. Raises GraphTypeError for what is no number, GraphValueError outside of [0, 1].
    """

    function: ClassVar[Callable[..., Tensor]] = staticmethod(ops.dropout2d)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        check_probability(type(self).__name__, p)
        self.p = float(p)

    def construct(self, x: TensorLike) -> Any:
        return type(self).function(x, self.p) if self.training and self.p > 0 else x

    def extend_repr(self) -> str:
        return f"p={self.p}"


class Dropout1d(Dropout2d):
    """In training, whole channels of (N, C, L) or (C, L) set to 0 with probability `p`; see Dropout2d."""

    function = staticmethod(ops.dropout1d)


class Dropout3d(Dropout2d):
    """In training, whole channels of (N, C, D, H, W) set to 0 with probability `p`; see Dropout2d."""

    function = staticmethod(ops.dropout3d)


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
