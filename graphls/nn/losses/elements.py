"""Losses of every element alone as cells; labels that are nan or infinite are refused before a step runs."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls import ops
from graphls.nn.checks import boolean, positive
from graphls.nn.losses.base import LossBase, finite_labels
from graphls.ops.loss_operands import operands
from graphls.ops.roots import root
from graphls.tensors.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "MAELoss", "MarginRankingLoss", "PoissonNLLLoss", "RMSELoss", "SmoothL1Loss", "SoftMarginLoss",
]  # fmt: skip


class L1Loss(LossBase):
    """The absolute value of the difference between predictions and labels, which broadcast together."""

    def construct(self, logits: Any, labels: Any) -> Tensor:
        return ops.l1_loss(logits, finite_labels("L1Loss", labels), self.reduction)


class MAELoss(L1Loss):
    """The mean absolute error: another name of L1Loss."""


class RMSELoss(LossBase):
    """The square root of the mean of squared differences between predictions and labels."""

    def __init__(self) -> None:
        super().__init__()

    def construct(self, logits: Any, labels: Any) -> Tensor:
        dtype, (x, y) = operands("RMSELoss", logits, finite_labels("RMSELoss", labels))
        return ops.cast(root(ops.mse_loss(x, y)), dtype)


class SmoothL1Loss(LossBase):
    """d ** 2 / (2 * beta) where the absolute difference d is below `beta`, and d - beta / 2 elsewhere."""

    def __init__(self, beta: float = 1.0, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.beta = positive("SmoothL1Loss", "beta", beta)

    def construct(self, logits: Any, labels: Any) -> Tensor:
        return ops.smooth_l1_loss(logits, finite_labels("SmoothL1Loss", labels), self.beta, self.reduction)


class HuberLoss(LossBase):
    """d ** 2 / 2 where the absolute difference d is `delta` at most, and delta * (d - delta / 2) elsewhere."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = positive("HuberLoss", "delta", delta)

    def construct(self, logits: Any, labels: Any) -> Tensor:
        return ops.huber_loss(logits, finite_labels("HuberLoss", labels), self.reduction, self.delta)


class BCELoss(LossBase):
    """-(labels * log(p) + (1 - labels) * log(1 - p)) for probabilities p, times `weight`, which broadcasts."""

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = weight

    def construct(self, logits: Any, labels: Any) -> Tensor:
        return ops.binary_cross_entropy(logits, finite_labels("BCELoss", labels), self.weight, self.reduction)


class BCEWithLogitsLoss(LossBase):
    """The binary cross entropy of sigmoid(logits), times `weight`; `pos_weight` multiplies the part of labels of 1."""

    def __init__(self, reduction: str = "mean", weight: Any = None, pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self.weight = weight
        self.pos_weight = pos_weight

    def construct(self, logits: Any, labels: Any) -> Tensor:
        labels = finite_labels("BCEWithLogitsLoss", labels)
        return ops.binary_cross_entropy_with_logits(logits, labels, self.weight, self.pos_weight, self.reduction)


class KLDivLoss(LossBase):
    """labels * (log(labels) - logits), where logits are logarithms of probabilities and labels are probabilities.

    The reduction is one of those of LossBase or "batchmean", the sum divided by the size of the first axis.
    """

    reductions: ClassVar[tuple[str, ...]] = ("mean", "batchmean", "sum", "none")

    def construct(self, logits: Any, labels: Any) -> Tensor:
        return ops.kl_div(logits, finite_labels("KLDivLoss", labels), self.reduction)


class SoftMarginLoss(LossBase):
    """log(1 + exp(-labels * logits)) for labels of 1 and -1."""

    def construct(self, logits: Any, labels: Any) -> Tensor:
        return ops.soft_margin_loss(logits, finite_labels("SoftMarginLoss", labels), self.reduction)


class HingeEmbeddingLoss(LossBase):
    """The distance where the label is 1, and what it lacks of `margin` where the label is -1."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def construct(self, logits: Any, labels: Any) -> Tensor:
        labels = finite_labels("HingeEmbeddingLoss", labels)
        return ops.hinge_embedding_loss(logits, labels, self.margin, self.reduction)


class MarginRankingLoss(LossBase):
    """What target * (input1 - input2) lacks of `margin`, for targets of 1 and -1."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def construct(self, input1: Any, input2: Any, target: Any) -> Tensor:
        target = finite_labels("MarginRankingLoss", target)
        return ops.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class GaussianNLLLoss(LossBase):
    """The negative logarithm of a normal density at the labels, of the mean `logits` and the variance `var`.

    Variances are at least `eps`; with `full`, the constant log(2 * pi) / 2 counts too.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full = boolean("GaussianNLLLoss", "full", full)
        self.eps = positive("GaussianNLLLoss", "eps", eps)

    def construct(self, logits: Any, labels: Any, var: Any) -> Tensor:
        labels = finite_labels("GaussianNLLLoss", labels)
        return ops.gaussian_nll_loss(logits, labels, var, self.full, self.eps, self.reduction)


class PoissonNLLLoss(LossBase):
    """The negative logarithm of a Poisson probability of the target, of the rate exp(input) or, by choice, input.

    With `full`, Stirling's approximation of log(target!) is added where the target is above 1.
    """

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input = boolean("PoissonNLLLoss", "log_input", log_input)
        self.full = boolean("PoissonNLLLoss", "full", full)
        self.eps = positive("PoissonNLLLoss", "eps", eps)

    def construct(self, input: Any, target: Any) -> Tensor:
        target = finite_labels("PoissonNLLLoss", target)
        return ops.poisson_nll_loss(input, target, self.log_input, self.full, self.eps, self.reduction)
