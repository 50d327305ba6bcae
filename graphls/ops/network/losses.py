"""Elementwise losses and losses of distances, and the operands, labels and reductions of all losses."""

from __future__ import annotations

import math
from typing import Any

from graphls.base import checks
from graphls.base.checks import boolean, number, positive
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.names.traps import OUTER, CallArguments, warn_where
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike, is_tensor
from graphls.ir.types import DType, float32, int32, int64
from graphls.ops.arrays.shapes import reshape
from graphls.ops.math.elementwise import (
    abs,
    add,
    cast,
    clip_by_value,
    exp,
    log,
    maximum,
    minimum,
    mul,
    sqrt,
    square,
    where,
)
from graphls.ops.math.reductions import amax, mean, sum
from graphls.ops.math.transcendental import root
from graphls.ops.operands import Operand, apply, floats, single_session, tensor_of
from graphls.ops.record import cell, operation, operator_class

REDUCTIONS = ("none", "mean", "sum")


def operands(name: str, *tensors: object) -> tuple[DType, tuple[Tensor, ...]]:
    """The float dtype of the result, and the tensors in the dtype of the computation.

    Raises GraphTypeError for anything but tensors.
    """
    require_tensors(name, *tensors)
    promoted = floats(*dispatch.cast_operands(name, *tensors))
    dtype = promoted[0].dtype
    return dtype, tuple(cast(t, float32) if dtype.is_half else t for t in promoted)


def require_tensors(name: str, *tensors: object) -> None:
    """Raise GraphTypeError for anything but tensors."""
    for tensor in tensors:
        if not is_tensor(tensor):
            raise GraphTypeError(f"{name} takes tensors for logits and labels, not {type(tensor).__name__}.")


def weight_setting(cell: str, name: str, value: TensorLike | None) -> TensorLike | None:
    """A weight of the constructor of a cell, or None; raises GraphTypeError for anything but a tensor."""
    if value is not None:
        require_tensors(f"The {name} of {cell}", value)
    return value


def require_same_shape(name: str, first: Tensor, second: Tensor) -> None:
    """Raise GraphValueError where the shapes of predictions and labels differ."""
    if first.shape != second.shape:
        text = f"{name} takes labels in the shape of the predictions, {first.shape}, not {second.shape}"
        raise GraphValueError(f"{text}{rank_advice(first, second)}.")


def rank_advice(first: Tensor, second: Tensor) -> str:
    """Advice for shapes that differ by a last axis of size 1."""
    if first.shape == (*second.shape, 1):
        return "; labels.expand_dims(-1) has it"
    return "; labels.squeeze(-1) has it" if second.shape == (*first.shape, 1) else ""


def class_indices(
    name: str, target: TensorLike, shape: tuple[int, ...], classes: int, ignored: int | None = None
) -> Tensor:
    """Class indices, int32 or int64, as a tensor of a shape.

    Raises GraphTypeError for another dtype, GraphValueError for another shape and, before a step runs, for a label
    that is neither in range(classes) nor `ignored`.
    """
    require_tensors(name, target)
    labels = tensor_of(target)
    if labels.dtype not in (int32, int64):
        raise GraphTypeError(f"{name} takes int32 or int64 labels, not {labels.type}; cast them.")
    if labels.shape != shape:
        advice = "; those of one-hot labels are ops.argmax(labels, 1)" if len(labels.shape) == len(shape) + 1 else ""
        message = f"{name} takes labels of the shape {shape} here, not {labels.shape}{advice}."
        raise GraphValueError(message)
    return apply("check_labels", labels, classes=classes, ignored=ignored)


def valid_labels(labels: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    """A mask of the labels that count, and the labels with class 0 in place of the others."""
    counts = labels != ignored
    return counts, where(counts, labels, 0)


def binary_losses(labels: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Losses of two classes, weighted by the probability of the first one."""
    return labels * positive + (1.0 - labels) * negative


def weighted(losses: Tensor, weight: TensorLike | None) -> Tensor:
    """Losses times a weight that broadcasts, if any."""
    return losses if weight is None else losses * cast(weight, losses.dtype)


def class_weights(name: str, weight: TensorLike | None, classes: int, dtype: DType) -> Tensor | None:
    """A weight for each class in a dtype; raises GraphTypeError or GraphValueError for anything else."""
    if weight is None:
        return None
    require_tensors(f"The weight of {name}", weight)
    weights = tensor_of(weight)
    if weights.shape != (classes,):
        raise GraphValueError(f"The weight of {name} has the shape ({classes},), not {weights.shape}.")
    return cast(weights, dtype)


def reduced(name: str, losses: Tensor, reduction: str, dtype: DType) -> Tensor:
    """The mean or the sum of the losses, or all of them, in the dtype of the result."""
    check_reduction(name, reduction)
    if reduction == "none":
        return cast(losses, dtype)
    return cast(mean(losses) if reduction == "mean" else sum(losses), dtype)


def check_reduction(name: str, reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise GraphValueError for an unknown reduction."""
    if reduction not in allowed:
        raise GraphValueError(f"For {name!r}, the 'reduction' must be in {sorted(allowed)}, but got {reduction!r}.")


def _difference(name: str, input: TensorLike, target: TensorLike) -> tuple[DType, Tensor]:
    """The dtype of a loss, and predictions minus labels, with a warning for an outer difference by broadcasting."""
    dtype, (x, y) = operands(name, input, target)
    difference = x - y
    shapes = {"predictions": x.shape, "labels": y.shape, "shape": difference.shape}
    warn_where(OUTER, name, CallArguments(shapes, frozenset()))
    return dtype, difference


@cell("MSELoss", "reduction", inputs="logits labels", finite="labels")
@operation(also="mint.nn.functional")
def mse_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The square of the difference; both broadcast together."""
    dtype, difference = _difference("mse_loss", input, target)
    return reduced("mse_loss", square(difference), reduction, dtype)


@cell("L1Loss", "reduction", inputs="logits labels", finite="labels")
@operation(also="mint.nn.functional")
def l1_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The absolute value of the difference; both broadcast together."""
    dtype, difference = _difference("l1_loss", input, target)
    return reduced("l1_loss", abs(difference), reduction, dtype)


@cell("SmoothL1Loss", "beta reduction", inputs="logits labels", finite="labels", checks={"beta": positive})
@operation(classes="SmoothL1Loss", settings="beta reduction", also="mint.nn.functional", checks={"beta": positive})
@single_session
def smooth_l1_loss(input: TensorLike, target: TensorLike, beta: float = 1.0, reduction: str = "none") -> Tensor:
    """d ** 2 / (2 * beta) where the absolute difference d is below `beta`, and d - beta / 2 elsewhere."""
    dtype, (x, y) = operands("smooth_l1_loss", input, target)
    require_same_shape("smooth_l1_loss", x, y)
    distance = abs(x - y)
    is_near = distance < beta
    inner = square(where(is_near, distance, 0.0)) * (0.5 / beta)
    return reduced("smooth_l1_loss", where(is_near, inner, distance - beta / 2), reduction, dtype)


@cell("HuberLoss", "reduction delta", inputs="logits labels", finite="labels", checks={"delta": positive})
@operation(checks={"delta": positive})
@single_session
def huber_loss(input: TensorLike, target: TensorLike, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d ** 2 / 2 where the absolute difference d is `delta` at most, and delta * (d - delta / 2) elsewhere."""
    dtype, difference = _difference("huber_loss", input, target)
    distance = abs(difference)
    is_near = distance <= delta
    inner, outer = square(where(is_near, distance, 0.0)) * 0.5, (distance - delta / 2) * delta
    return reduced("huber_loss", where(is_near, inner, outer), reduction, dtype)


@cell("BCELoss", "weight reduction", inputs="logits labels", finite="labels")
@operation(classes="BinaryCrossEntropy", settings="reduction", also="mint.nn.functional")
@single_session
def binary_cross_entropy(
    logits: TensorLike, labels: TensorLike, weight: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """-(labels * log(p) + (1 - labels) * log(1 - p)) for probabilities p, times a weight that broadcasts.

    1e-12 is added to the arguments of logarithms, so that the loss for a probability of 0 or 1 is at most 27.6.
    """
    dtype, (p, y) = operands("binary_cross_entropy", logits, labels)
    require_same_shape("binary_cross_entropy", p, y)
    losses = binary_losses(y, -log(p + 1e-12), -log(1.0 - p + 1e-12))
    return reduced("binary_cross_entropy", weighted(losses, weight), reduction, dtype)


@cell("BCEWithLogitsLoss", "reduction weight pos_weight", inputs="logits labels", finite="labels")
@operation(classes="BCEWithLogitsLoss", settings="reduction")
@single_session
def binary_cross_entropy_with_logits(
    logits: TensorLike, label: TensorLike, weight: Any = None, pos_weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The binary cross entropy of sigmoid(logits), without overflow, times a weight that broadcasts.

    `pos_weight` broadcasts too and multiplies the part of labels of 1.
    """
    name = "binary_cross_entropy_with_logits"
    dtype, (x, y) = operands(name, logits, label)
    require_same_shape(name, x, y)
    losses = binary_losses(y, weighted(apply("softplus", -x), pos_weight), apply("softplus", x))
    return reduced(name, weighted(losses, weight), reduction, dtype)


@operation(classes="KLDivLoss", settings="reduction", also="mint.nn.functional")
@single_session
def kl_div(logits: TensorLike, labels: TensorLike, reduction: str = "mean") -> Tensor:
    """labels * (log(labels) - logits), and 0 for labels of 0: logits are logarithms, labels are probabilities.

    The reduction "batchmean" divides the sum by the size of the first axis.
    """
    dtype, (x, y) = operands("kl_div", logits, labels)
    check_reduction("kl_div", reduction, (*REDUCTIONS, "batchmean"))
    require_same_shape("kl_div", x, y)
    counts = y > 0.0
    losses = where(counts, y * (log(where(counts, y, 1.0)) - x), 0.0)
    if reduction == "batchmean":
        return cast(sum(losses) / float(x.shape[0] if x.ndim else 1), dtype)
    return reduced("kl_div", losses, reduction, dtype)


@cell("SoftMarginLoss", "reduction", inputs="logits labels", finite="labels")
@operation(classes="SoftMarginLoss", settings="reduction")
def soft_margin_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) for targets of 1 and -1."""
    dtype, (x, y) = operands("soft_margin_loss", input, target)
    require_same_shape("soft_margin_loss", x, y)
    return reduced("soft_margin_loss", apply("softplus", -(y * x)), reduction, dtype)


@cell("HingeEmbeddingLoss", "margin reduction", inputs="logits labels", finite="labels")
@operation(checks={"margin": number})
def hinge_embedding_loss(
    inputs: TensorLike, targets: TensorLike, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """The input where the target is 1, and max(0, margin - input) where it is -1."""
    dtype, (x, y) = operands("hinge_embedding_loss", inputs, targets)
    lacking = clip_by_value(margin - x, 0.0)
    losses = where(y > 0.0, x, where(y < 0.0, lacking, 0.0))
    return reduced("hinge_embedding_loss", losses, reduction, dtype)


@cell("MarginRankingLoss", "margin reduction", inputs="input1 input2 target", finite="target")
@operation(checks={"margin": number})
def margin_ranking_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target * (input1 - input2)), for targets of 1 and -1."""
    dtype, (x, other, y) = operands("margin_ranking_loss", input1, input2, target)
    require_same_shape("margin_ranking_loss", x, other)
    lead = y * (x - other)
    losses = clip_by_value(margin - lead, 0.0)
    return reduced("margin_ranking_loss", losses, reduction, dtype)


@cell(
    "GaussianNLLLoss", "* full eps reduction", inputs="logits labels var", finite="labels",
    checks={"full": boolean, "eps": positive},
)  # fmt: skip
@operation(checks={"eps": positive})
def gaussian_nll_loss(
    x: TensorLike, target: TensorLike, var: TensorLike, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(v) + (x - target) ** 2 / v) / 2 with the larger v of `var` and `eps`; all broadcast together.

    With `full`, log(2 * pi) / 2 is added.
    """
    dtype, (x, y, v) = operands("gaussian_nll_loss", x, target, var)
    v = maximum(v, eps)
    losses = (log(v) + square(x - y) / v) * 0.5
    losses = losses + math.log(2 * math.pi) / 2 if full else losses
    return reduced("gaussian_nll_loss", losses, reduction, dtype)


@cell(
    "PoissonNLLLoss", "log_input full eps reduction", inputs="input target", finite="target",
    checks={"log_input": boolean, "full": boolean, "eps": positive},
)  # fmt: skip
@operation(checks={"eps": positive})
def poisson_nll_loss(
    input: TensorLike, target: TensorLike, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """exp(input) - target * input, or input - target * log(input + eps) where the input is not a logarithm.

    With `full`, Stirling's approximation of log(target!) is added where the target is above 1.
    """
    dtype, (x, y) = operands("poisson_nll_loss", input, target)
    logarithm = x if log_input else log(x + eps)
    losses = (exp(x) if log_input else x) - y * logarithm
    return reduced("poisson_nll_loss", losses + _stirling(y) if full else losses, reduction, dtype)


def _stirling(y: Tensor) -> Tensor:
    counts = y > 1.0
    safe = where(counts, y, 1.0)
    approximation = safe * log(safe) - safe + log(safe * (2 * math.pi)) * 0.5
    return where(counts, approximation, 0.0)


def _cosine(name: str, setting: str, value: object) -> float:
    return checks.number(name, setting, value, -1, 1)


@cell(
    "CosineEmbeddingLoss", "margin reduction", inputs="logits_x1 logits_x2 labels", finite="labels",
    checks={"margin": _cosine},
)  # fmt: skip
@operation(also="mint.nn.functional")
def cosine_embedding_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cosine of two vectors where the target is 1, and max(0, cosine - margin) where it is -1.

    Vectors lie along axis 1 of (N, D, ...), or are (D,); the target has the shape without that axis. 1e-12 is added
    to squared lengths. Raises GraphValueError for other shapes and for a margin outside of [-1, 1].
    """
    name = "cosine_embedding_loss"
    dtype, (x, other, y) = operands(name, input1, input2, target)
    require_same_shape(name, x, other)
    axis = 1 if x.ndim > 1 else 0
    if not x.ndim or y.shape != x.shape[:axis] + x.shape[axis + 1 :]:
        raise GraphValueError(f"{name} of vectors {x.type} does not fit a target {y.type}.")
    margin = _cosine(name, "margin", margin)
    lengths = [sqrt(sum(square(v), axis) + 1e-12) for v in (x, other)]
    cosine = sum(x * other, axis) / mul(*lengths)
    apart = where(y == -1.0, clip_by_value(cosine - margin, 0.0), 0.0)
    return reduced(name, where(y == 1.0, 1.0 - cosine, apart), reduction, dtype)


@operation
def triplet_margin_loss(
    anchor: TensorLike, positive: TensorLike, negative: TensorLike, margin: Operand = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, distance to the positive - distance to the negative + margin), for vectors along the last axis.

    The distance is the `p`-norm of the difference plus `eps`. With `swap` the negative's is the smaller one of its
    distances to the anchor and to the positive (Balntas et al., 2016). A margin is a number or a tensor of one element.
    Raises GraphTypeError and GraphValueError for settings that do not fit.
    """
    name = "triplet_margin_loss"
    dtype, (x, near, far) = operands(name, anchor, positive, negative)
    settings = checks.number(name, "p", p, 1), checks.positive(name, "eps", eps)
    to_far = _distance(x, far, *settings)
    to_far = minimum(to_far, _distance(near, far, *settings)) if swap else to_far
    lacking = add(_distance(x, near, *settings) - to_far, _margin(name, margin, x.dtype))
    return reduced(name, clip_by_value(lacking, 0.0), reduction, dtype)


def _margin(name: str, margin: Operand, dtype: DType) -> Operand:
    """A non-negative margin, which a graph may compute."""
    if not is_tensor(margin):
        return checks.number(name, "margin", margin, 0)
    tensor = tensor_of(margin)
    if tensor.size != 1:
        raise GraphValueError(f"The margin of {name} is one number, not {tensor.type}.")
    if isinstance(tensor, Symbol):
        return reshape(cast(tensor, dtype), ())
    return checks.number(name, "margin", tensor.item(), 0)


def _distance(x: Tensor, other: Tensor, p: float, eps: float) -> Tensor:
    if not x.ndim or not other.ndim:
        raise GraphValueError(f"triplet_margin_loss takes vectors, not {x.type} and {other.type}.")
    difference = abs(x - other + eps)
    if p == 1:
        return sum(difference, -1)
    if p == 2:
        return root(sum(square(difference), -1))
    return amax(difference, -1) if p == math.inf else root(sum(difference**p, -1), p)


@operator_class("TripletMarginLoss", "p swap eps reduction", like=triplet_margin_loss)
def _triplet_margin_loss(
    x: Any, positive: Any, negative: Any, margin: Operand, p: int = 2, swap: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return triplet_margin_loss(x, positive, negative, margin, p, eps, swap, reduction)
