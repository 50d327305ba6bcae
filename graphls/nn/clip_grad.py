"""Clipping gradients by their common norm, and the norm of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphls import ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.tensors.tensor import Tensor


class ClipGradNorm(Cell):
    """Scale gradients so that their common norm is `max_norm` at most; gives (gradients, the norm before).

    The norm n, float32 of shape (), is the square root of the sum of all squares. Every gradient is multiplied by
    min(max_norm / (max(n, max_norm) + 1e-6), 1), which is a little below 1 for gradients that need no clipping, as in
    MindFormers; a norm of nan counts as `max_norm`. Raises GraphTypeError for a `max_norm` that is no number,
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

    def construct(self, grads: Any) -> tuple[Any, Tensor]:
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
