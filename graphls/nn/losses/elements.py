"""Losses of every element alone as cells; labels that are nan or infinite are refused before a step runs."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls import ops
from graphls.ir.checks import boolean, positive
from graphls.nn.function_cells import setting
from graphls.nn.losses.base import FunctionLoss, LossBase, finite_labels
from graphls.ops.losses import operands
from graphls.ops.transcendental import root
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "MAELoss", "MarginRankingLoss", "PoissonNLLLoss", "RMSELoss", "SmoothL1Loss", "SoftMarginLoss",
]  # fmt: skip


class L1Loss(FunctionLoss, function=ops.l1_loss, finite="labels"):
    """The absolute value of the difference between predictions and labels, which broadcast together."""

    reduction: str = "mean"


class MAELoss(L1Loss):
    """The mean absolute error: another name of L1Loss."""


class RMSELoss(LossBase):
    """The square root of the mean of squared differences between predictions and labels."""

    def __init__(self) -> None:
        super().__init__()

    def construct(self, logits: TensorLike, labels: TensorLike) -> Tensor:
        dtype, (x, y) = operands("RMSELoss", logits, finite_labels("RMSELoss", labels))
        return ops.cast(root(ops.mse_loss(x, y)), dtype)


class SmoothL1Loss(FunctionLoss, function=ops.smooth_l1_loss, finite="labels"):
    """d ** 2 / (2 * beta) where the absolute difference d is below `beta`, and d - beta / 2 elsewhere."""

    beta: float = setting(positive, default=1.0)
    reduction: str = "none"


class HuberLoss(FunctionLoss, function=ops.huber_loss, finite="labels"):
    """d ** 2 / 2 where the absolute difference d is `delta` at most, and delta * (d - delta / 2) elsewhere."""

    reduction: str = "mean"
    delta: float = setting(positive, default=1.0)


class BCELoss(FunctionLoss, function=ops.binary_cross_entropy, finite="labels"):
    """-(labels * log(p) + (1 - labels) * log(1 - p)) for probabilities p, times `weight`, which broadcasts."""

    weight: Any = None
    reduction: str = "mean"


class BCEWithLogitsLoss(FunctionLoss, function=ops.binary_cross_entropy_with_logits, finite="labels"):
    """The binary cross entropy of sigmoid(logits), times `weight`; `pos_weight` multiplies the part of labels of 1."""

    reduction: str = "mean"
    weight: Any = None
    pos_weight: Any = None


class KLDivLoss(FunctionLoss, function=ops.kl_div, finite="labels"):
    """labels * (log(labels) - logits), where logits are logarithms of probabilities and labels are probabilities.

    The reduction is one of those of LossBase or "batchmean", the sum divided by the size of the first axis.
    """

    reductions: ClassVar[tuple[str, ...]] = ("mean", "batchmean", "sum", "none")
    reduction: str = "mean"


class SoftMarginLoss(FunctionLoss, function=ops.soft_margin_loss, finite="labels"):
    """log(1 + exp(-labels * logits)) for labels of 1 and -1."""

    reduction: str = "mean"


class HingeEmbeddingLoss(FunctionLoss, function=ops.hinge_embedding_loss, finite="labels"):
    """The distance where the label is 1, and what it lacks of `margin` where the label is -1."""

    margin: float = 1.0
    reduction: str = "mean"


class MarginRankingLoss(
    FunctionLoss, function=ops.margin_ranking_loss, inputs=("input1", "input2", "target"), finite="target"
):
    """What target * (input1 - input2) lacks of `margin`, for targets of 1 and -1."""

    margin: float = 0.0
    reduction: str = "mean"


class GaussianNLLLoss(
    FunctionLoss, function=ops.gaussian_nll_loss, inputs=("logits", "labels", "var"), finite="labels"
):
    """The negative logarithm of a normal density at the labels, of the mean `logits` and the variance `var`.

    Variances are at least `eps`; with `full`, the constant log(2 * pi) / 2 counts too.
    """

    full: bool = setting(boolean, default=False, kw_only=True)
    eps: float = setting(positive, default=1e-6, kw_only=True)
    reduction: str = setting(default="mean", kw_only=True)


class PoissonNLLLoss(FunctionLoss, function=ops.poisson_nll_loss, inputs=("input", "target"), finite="target"):
    """The negative logarithm of a Poisson probability of the target, of the rate exp(input) or, by choice, input.

    With `full`, Stirling's approximation of log(target!) is added where the target is above 1.
    """

    log_input: bool = setting(boolean, default=True)
    full: bool = setting(boolean, default=False)
    eps: float = setting(positive, default=1e-8)
    reduction: str = "mean"
