"""What is done to gradients before the optimizer sees them: clipping to a norm, and accumulation over calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls import ops
from graphls.ir.checks import positive_int
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.optimizers.base import states_like
from graphls.ops.operands import state_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.pytree import leaves, map_leaves, rebuild, structure
from graphls.tensors.tensor import Tensor, TensorLike, is_tensor

__all__ = ["GradAccumulationCell"]


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


class GradAccumulationCell(Cell):
    """A network that runs on `micro_size` parts of its inputs, one after the other; gives the sum of its outputs.

    Every tensor among the inputs is split along its first axis; anything else goes to every part. The gradient of the
    sum is the sum of the gradients. Raises GraphTypeError for a network that is no cell or a `micro_size` that is no
    integer, GraphValueError for one below 1 and for an axis that it does not divide.
    """

    def __init__(self, network: Cell, micro_size: int) -> None:
        super().__init__(auto_prefix=False)
        if not isinstance(network, Cell):
            raise GraphTypeError(f"GradAccumulationCell takes a cell, not {network!r}.")
        self.network = network
        self.micro_size = positive_int("GradAccumulationCell", "micro_size", micro_size)

    def construct(self, *inputs: Any) -> Any:
        total = self.network(*self._part(inputs, 0))
        for number in range(1, self.micro_size):
            total = _sum(total, self.network(*self._part(inputs, number)))
        return total

    def _part(self, inputs: tuple[Any, ...], number: int) -> tuple[Any, ...]:
        part: tuple[Any, ...] = map_leaves(lambda x: self._slice(x, number) if is_tensor(x) else x, inputs)
        return part

    def _slice(self, x: Tensor, number: int) -> Any:
        if not x.shape or x.shape[0] % self.micro_size:
            raise GraphValueError(
                f"For 'GradAccumulationCell', an input of shape {x.shape} cannot be split into {self.micro_size} parts "
                "along its first axis; take a batch that the micro_size divides.",
            )
        size = x.shape[0] // self.micro_size
        return x[number * size : (number + 1) * size]


def _sum(first: TensorLike, second: TensorLike) -> Any:
    """Two nests of outputs as one, whose tensors are added."""
    if structure(first) != structure(second):
        raise GraphValueError("A network must give every part of a batch as many outputs.")
    pairs = zip(leaves(first), leaves(second), strict=True)
    return rebuild(first, [ops.add(a, b) if is_tensor(a) else a for a, b in pairs])


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

    def keep(self, mean: Sequence[Tensor], overflow: Tensor) -> None:
        """Remember what this call has found."""
        ops.assign_add(self.accumulation_step, 1)
        ops.assign(self.accumulation_overflow, overflow)
        for state, value in zip(self.accu_grads, mean, strict=True):
            ops.assign(state, ops.where(overflow, state_of(state), value))

    def restart(self) -> None:
        """Begin the next update."""
        for state in (*self.accu_grads, self.accumulation_step, self.accumulation_overflow):
            ops.assign(state, ops.zeros_like(state_of(state)))
