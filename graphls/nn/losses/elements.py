"""Losses of every element alone as cells; labels that are nan or infinite are refused before a step runs."""

from __future__ import annotations

from graphls import ops
from graphls.nn.function_cells import LossBase, finite_labels
from graphls.nn.functions import L1Loss
from graphls.ops.losses import operands
from graphls.ops.transcendental import root
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["KLDivLoss", "MAELoss", "RMSELoss"]


class MAELoss(L1Loss):
    """The mean absolute error: another name of L1Loss."""


class RMSELoss(LossBase):
    """The square root of the mean of squared differences between predictions and labels."""

    def __init__(self) -> None:
        super().__init__()

    def construct(self, logits: TensorLike, labels: TensorLike) -> Tensor:
        dtype, (x, y) = operands("RMSELoss", logits, finite_labels("RMSELoss", labels))
        return ops.cast(root(ops.mse_loss(x, y)), dtype)


class KLDivLoss(LossBase):
    """labels * (log(labels) - logits), where logits are logarithms of probabilities and labels are probabilities.

    The reduction is one of those of LossBase or "batchmean", the sum divided by the size of the first axis.
    """

    reductions = ("mean", "batchmean", "sum", "none")

    def construct(self, logits: TensorLike, labels: TensorLike) -> Tensor:
        return ops.kl_div(logits, finite_labels("KLDivLoss", labels), self.reduction)
