"""Losses of every element alone.

Each takes predictions and labels, and a `reduction`: "mean", "sum" or "none". The result has the float dtype in
which both meet. Raises GraphTypeError for what is no tensor, GraphValueError for shapes and settings that do not fit.
"""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.checks import number, positive
from graphls.ops.elementwise import abs, add, cast, clip_by_value, div, exp, log, maximum, mul, neg, square, sub
from graphls.ops.logic import greater, less, less_equal, where
from graphls.ops.loss_operands import (
    REDUCTIONS,
    check_reduction,
    operands,
    reduced,
    require_same_shape,
    two_classes,
    weighted,
)
from graphls.ops.operands import apply
from graphls.ops.record import operation
from graphls.ops.reductions import sum
from graphls.tensors.tensor import Tensor, TensorLike


@operation
def mse_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The square of the difference; both broadcast together."""
    dtype, (x, y) = operands("mse_loss", input, target)
    return reduced("mse_loss", square(sub(x, y)), reduction, dtype)


@operation
def l1_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The absolute value of the difference; both broadcast together."""
    dtype, (x, y) = operands("l1_loss", input, target)
    return reduced("l1_loss", abs(sub(x, y)), reduction, dtype)


@operation(classes="SmoothL1Loss", settings="beta reduction")
def smooth_l1_loss(input: TensorLike, target: TensorLike, beta: float = 1.0, reduction: str = "none") -> Tensor:
    """d ** 2 / (2 * beta) where the absolute difference d is below `beta`, and d - beta / 2 elsewhere."""
    dtype, (x, y) = operands("smooth_l1_loss", input, target)
    beta = positive("smooth_l1_loss", "beta", beta)
    require_same_shape("smooth_l1_loss", x, y)
    distance = abs(sub(x, y))
    is_near = less(distance, beta)
    inner = mul(square(where(is_near, distance, 0.0)), 0.5 / beta)
    return reduced("smooth_l1_loss", where(is_near, inner, sub(distance, beta / 2)), reduction, dtype)


@operation
def huber_loss(input: TensorLike, target: TensorLike, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d ** 2 / 2 where the absolute difference d is `delta` at most, and delta * (d - delta / 2) elsewhere."""
    dtype, (x, y) = operands("huber_loss", input, target)
    delta = positive("huber_loss", "delta", delta)
    distance = abs(sub(x, y))
    is_near = less_equal(distance, delta)
    inner, outer = mul(square(where(is_near, distance, 0.0)), 0.5), mul(sub(distance, delta / 2), delta)
    return reduced("huber_loss", where(is_near, inner, outer), reduction, dtype)


@operation(classes="BinaryCrossEntropy", settings="reduction")
def binary_cross_entropy(
    logits: TensorLike, labels: TensorLike, weight: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """-(labels * log(p) + (1 - labels) * log(1 - p)) for probabilities p, times a weight that broadcasts.

    1e-12 is added to what logarithms are taken of, so that the loss of a probability of 0 or 1 is at most 27.6.
    """
    dtype, (p, y) = operands("binary_cross_entropy", logits, labels)
    require_same_shape("binary_cross_entropy", p, y)
    losses = two_classes(y, neg(log(add(p, 1e-12))), neg(log(add(sub(1.0, p), 1e-12))))
    return reduced("binary_cross_entropy", weighted(losses, weight), reduction, dtype)


@operation(classes="BCEWithLogitsLoss", settings="reduction")
def binary_cross_entropy_with_logits(
    logits: TensorLike,
    label: TensorLike,
    weight: Any = None,
    pos_weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The binary cross entropy of sigmoid(logits), which does not overflow, times a weight that broadcasts.

    `pos_weight` broadcasts too and multiplies the part of labels of 1.
    """
    name = "binary_cross_entropy_with_logits"
    dtype, (x, y) = operands(name, logits, label)
    require_same_shape(name, x, y)
    losses = two_classes(y, weighted(apply("softplus", neg(x)), pos_weight), apply("softplus", x))
    return reduced(name, weighted(losses, weight), reduction, dtype)


@operation(classes="KLDivLoss", settings="reduction")
def kl_div(logits: TensorLike, labels: TensorLike, reduction: str = "mean") -> Tensor:
    """labels * (log(labels) - logits), and 0 for labels of 0: logits are logarithms, labels are probabilities.

    The reduction "batchmean" divides the sum by the size of the first axis.
    """
    dtype, (x, y) = operands("kl_div", logits, labels)
    check_reduction("kl_div", reduction, (*REDUCTIONS, "batchmean"))
    require_same_shape("kl_div", x, y)
    counts = greater(y, 0.0)
    losses = where(counts, mul(y, sub(log(where(counts, y, 1.0)), x)), 0.0)
    if reduction == "batchmean":
        return cast(div(sum(losses), float(x.shape[0] if x.ndim else 1)), dtype)
    return reduced("kl_div", losses, reduction, dtype)


@operation(classes="SoftMarginLoss", settings="reduction")
def soft_margin_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) for targets of 1 and -1."""
    dtype, (x, y) = operands("soft_margin_loss", input, target)
    require_same_shape("soft_margin_loss", x, y)
    return reduced("soft_margin_loss", apply("softplus", neg(mul(y, x))), reduction, dtype)


@operation
def hinge_embedding_loss(
    inputs: TensorLike, targets: TensorLike, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """The input where the target is 1, and what it lacks of `margin` where the target is -1."""
    dtype, (x, y) = operands("hinge_embedding_loss", inputs, targets)
    lacking = clip_by_value(sub(number("hinge_embedding_loss", "margin", margin), x), 0.0)
    losses = where(greater(y, 0.0), x, where(less(y, 0.0), lacking, 0.0))
    return reduced("hinge_embedding_loss", losses, reduction, dtype)


@operation
def margin_ranking_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """What target * (input1 - input2) lacks of `margin`, for targets of 1 and -1."""
    dtype, (x, other, y) = operands("margin_ranking_loss", input1, input2, target)
    require_same_shape("margin_ranking_loss", x, other)
    lead = mul(y, sub(x, other))
    losses = clip_by_value(sub(number("margin_ranking_loss", "margin", margin), lead), 0.0)
    return reduced("margin_ranking_loss", losses, reduction, dtype)


@operation
def gaussian_nll_loss(
    x: TensorLike, target: TensorLike, var: TensorLike, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(v) + (x - target) ** 2 / v) / 2 with the larger v of `var` and `eps`; all broadcast together.

    With `full`, log(2 * pi) / 2 is added.
    """
    dtype, (x, y, v) = operands("gaussian_nll_loss", x, target, var)
    v = maximum(v, positive("gaussian_nll_loss", "eps", eps))
    losses = mul(add(log(v), div(square(sub(x, y)), v)), 0.5)
    losses = add(losses, math.log(2 * math.pi) / 2) if full else losses
    return reduced("gaussian_nll_loss", losses, reduction, dtype)


@operation
def poisson_nll_loss(
    input: TensorLike,
    target: TensorLike,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target * input, or input - target * log(input + eps) where the input is no logarithm.

    With `full`, Stirling's approximation of log(target!) is added where the target is above 1.
    """
    dtype, (x, y) = operands("poisson_nll_loss", input, target)
    logarithm = x if log_input else log(add(x, positive("poisson_nll_loss", "eps", eps)))
    losses = sub(exp(x) if log_input else x, mul(y, logarithm))
    return reduced("poisson_nll_loss", add(losses, _stirling(y)) if full else losses, reduction, dtype)


def _stirling(y: Tensor) -> Tensor:
    counts = greater(y, 1.0)
    safe = where(counts, y, 1.0)
    approximation = add(sub(mul(safe, log(safe)), safe), mul(log(mul(safe, 2 * math.pi)), 0.5))
    return where(counts, approximation, 0.0)
