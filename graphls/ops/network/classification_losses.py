"""Classification losses: labels are class indices or class probabilities."""

from __future__ import annotations

from typing import Any

from graphls.base.checks import integer, number, probability
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DType, int32
from graphls.ops.arrays.creation import arange, one_hot
from graphls.ops.arrays.shapes import expand_dims, gather, gather_elements, reshape
from graphls.ops.math.elementwise import (
    cast,
    exp,
    logical_and,
    square,
    where,
)
from graphls.ops.math.reductions import any as any_of
from graphls.ops.math.reductions import argmax, mean, sum
from graphls.ops.network import network
from graphls.ops.network.losses import (
    binary_losses,
    check_reduction,
    class_indices,
    class_weights,
    operands,
    reduced,
    require_same_shape,
    require_tensors,
    valid_labels,
    weight_setting,
    weighted,
)
from graphls.ops.network.network import log_softmax, relu
from graphls.ops.operands import apply, float_of, single_session, tensor_of
from graphls.ops.record import cell, operation, operator_class


@operation(also="mint.nn.functional", checks={"label_smoothing": probability})
@single_session
def cross_entropy(
    input: TensorLike, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-log(softmax(input)) of the labelled class, for scores (N, C), (N, C, ...) or (C,).

    Labels are class indices, int32 or int64 in the shape without the axis of classes, of which those equal to
    `ignore_index` do not count; or they are probabilities in the shape of the scores. `weight` has the shape (C,), and
    the mean divides by the weights of the labels (by their number for probabilities). `label_smoothing` spreads that
    part of the probability evenly over all classes (Szegedy et al., 2016).
    """
    require_tensors("cross_entropy", input, target)
    if not tensor_of(input).dtype.is_float:
        kind = tensor_of(input).type
        raise GraphTypeError(f"cross_entropy takes scores that are floats, not {kind}; cast them.")
    if not tensor_of(target).dtype.is_float:
        dtype, (x,) = operands("cross_entropy", input)
        smoothing = label_smoothing
        log_p = log_softmax(x, _class_axis("cross_entropy", x))
        return _nll("cross_entropy", dtype, log_p, target, weight, ignore_index, reduction, smoothing)
    dtype, (x, probabilities) = operands("cross_entropy", input, target)
    if probabilities.ndim == x.ndim - 1:
        text = f"cross_entropy takes labels that are floats as probabilities, in the shape {x.shape}"
        raise GraphTypeError(f"{text}, not {probabilities.type}; cast numbers of classes: labels.astype('int32').")
    return _of_probabilities(dtype, x, probabilities, weight, reduction, label_smoothing)


@cell(
    "NLLLoss", "weight ignore_index reduction", inputs="logits labels",
    checks={"weight": weight_setting, "ignore_index": integer},
)  # fmt: skip
@operation(also="mint.nn.functional", checks={"label_smoothing": probability})
@single_session
def nll_loss(
    inputs: TensorLike, target: TensorLike, weight: TensorLike | None = None, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-input of the labelled class, for logarithms of probabilities; otherwise as `cross_entropy`.

    `inputs` are of (N, C) or (N, C, d1, ...), the target of (N) or (N, d1, ...).
    """
    dtype, (x,) = operands("nll_loss", inputs)
    smoothing = label_smoothing
    return _nll("nll_loss", dtype, x, target, weight, ignore_index, reduction, smoothing)


def _class_axis(name: str, x: Tensor) -> int:
    if not x.ndim:
        raise GraphValueError(f"{name} takes scores of the shape (N, C), (N, C, ...) or (C,).")
    return 1 if x.ndim > 1 else 0


def _nll(
    name: str, dtype: DType, x: Tensor, target: TensorLike, weight: TensorLike | None, ignored: int, reduction: str,
    smoothing: float,
) -> Tensor:  # fmt: skip
    check_reduction(name, reduction)
    axis = _class_axis(name, x)
    classes = x.shape[axis]
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    counts, labels = valid_labels(
        class_indices(name, target, shape, classes, integer(name, "ignore_index", ignored)), ignored
    )
    weights = class_weights(name, weight, classes, x.dtype)
    losses = -_picked(x, labels, axis)
    if weights is not None:
        losses = losses * gather(weights, labels)
    if smoothing:
        evenly = sum(_weighted_classes(-x, weights, axis), axis)
        losses = losses * (1 - smoothing) + evenly * (smoothing / classes)
    losses = where(counts, losses, 0.0)
    if reduction != "mean":
        return reduced(name, losses, reduction, dtype)
    total = sum(cast(counts, x.dtype) if weights is None else where(counts, gather(weights, labels), 0.0))
    return cast(sum(losses) / total, dtype)


def _picked(x: Tensor, labels: Tensor, axis: int) -> Tensor:
    return reshape(gather_elements(x, axis, expand_dims(labels, axis)), labels.shape)


def _weighted_classes(x: Tensor, weights: Tensor | None, axis: int) -> Tensor:
    return x if weights is None else x * reshape(weights, (-1,) + (1,) * (x.ndim - axis - 1))


def _of_probabilities(
    dtype: DType, x: Tensor, target: Tensor, weight: TensorLike, reduction: str, smoothing: TensorLike
) -> Tensor:
    name, axis = "cross_entropy", _class_axis("cross_entropy", x)
    require_same_shape(name, x, target)
    classes, smoothing = x.shape[axis], number(name, "label_smoothing", smoothing, 0, 1)
    target = target * (1 - smoothing) + smoothing / classes if smoothing else target
    log_p = _weighted_classes(log_softmax(x, axis), class_weights(name, weight, classes, x.dtype), axis)
    return reduced(name, -sum(target * log_p, axis), reduction, dtype)


def _one_or_two(name: str, setting: str, value: object) -> int:
    if value not in (1, 2):
        raise GraphValueError(f"For {name!r}, the {setting!r} must be 1 or 2, but got {value!r}.")
    return 1 if value == 1 else 2


@cell(
    "MultiMarginLoss", "p margin reduction weight", inputs="x target", defaults={"margin": 1.0},
    checks={"p": _one_or_two, "margin": number, "weight": weight_setting},
)  # fmt: skip
@operation
def multi_margin_loss(
    input: TensorLike, target: TensorLike, p: int = 1, margin: float = 1, weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over all C classes of max(0, margin - (score of the label - score of the class)) ** p.

    Scores have the shape (N, C), labels (N,) and `weight` (C,). Raises GraphValueError for a `p` that is not 1 or 2.
    """
    name = "multi_margin_loss"
    dtype, (x,) = operands(name, input)
    _one_or_two(name, "p", p)
    _require_rows(name, x)
    labels = class_indices(name, target, x.shape[:1], x.shape[1])
    weights = class_weights(name, weight, x.shape[1], x.dtype)
    lacking = relu(x + number(name, "margin", margin) - expand_dims(_picked(x, labels, 1), 1)) ** p
    others = where(one_hot(labels, x.shape[1], True, False), 0.0, lacking)
    losses = sum(others, 1) / float(x.shape[1])
    return reduced(name, losses if weights is None else losses * gather(weights, labels), reduction, dtype)


@cell("MultilabelMarginLoss", "reduction", inputs="x target")
@operation
def multilabel_margin_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The sum over labels j and other classes i of max(0, 1 - (x[j] - x[i])), divided by C.

    Scores have the shape (N, C) or (C,), and labels, int32 or int64, the same; labels count up to the first -1.
    """
    name = "multilabel_margin_loss"
    dtype, (x,) = operands(name, input)
    if x.ndim not in (1, 2):
        raise GraphValueError(f"{name} takes scores of the shape (N, C) or (C,), not {x.type}.")
    classes = x.shape[-1]
    valid, labels = valid_labels(class_indices(name, target, x.shape, classes, -1), -1)
    counts = _before_first_invalid(valid)
    named = _labelled_classes(labels, counts)
    pairs = logical_and(expand_dims(counts, -1), expand_dims(~named, -2))
    lacking = relu(expand_dims(x, -2) + 1.0 - expand_dims(gather_elements(x, x.ndim - 1, labels), -1))
    return reduced(name, sum(where(pairs, lacking, 0.0), (-2, -1)) / float(classes), reduction, dtype)


def _before_first_invalid(valid: Tensor) -> Tensor:
    """True for labels before the first invalid one."""
    classes = valid.shape[-1]
    ended = cast(~valid, int32)
    first = where(any_of(ended, -1, keepdims=True), argmax(ended, -1, keepdims=True), classes)
    return arange(classes) < first


def _labelled_classes(labels: Tensor, counts: Tensor) -> Tensor:
    """True for classes that are among the labels that count."""
    return any_of(logical_and(one_hot(labels, labels.shape[-1], True, False), expand_dims(counts, -1)), -2)


def named_classes(target: Tensor) -> Tensor:
    """True for classes among the labels, which count up to the first -1, along the last axis."""
    valid, labels = valid_labels(target, -1)
    return _labelled_classes(labels, _before_first_invalid(valid))


@cell(
    "MultiLabelSoftMarginLoss", "weight reduction", inputs="x target", finite="target",
    checks={"weight": weight_setting},
)  # fmt: skip
@operation
def multilabel_soft_margin_loss(
    input: TensorLike, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes (N, C) of the binary cross entropy of sigmoid(input), times a weight that broadcasts."""
    name = "multilabel_soft_margin_loss"
    dtype, (x, y) = operands(name, input, target)
    require_same_shape(name, x, y)
    _require_rows(name, x)
    losses = binary_losses(y, apply("softplus", -x), apply("softplus", x))
    return reduced(name, sum(weighted(losses, weight), -1) / float(x.shape[-1]), reduction, dtype)


def _require_rows(name: str, x: Tensor) -> None:
    if x.ndim != 2:
        raise GraphValueError(f"{name} takes scores of the shape (N, C), not {x.type}.")


@operator_class("L2Loss")
def _l2_loss(input_x: TensorLike) -> Tensor:
    """Half of the sum of squares."""
    return sum(square(float_of(input_x))) * 0.5


@operator_class("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(logits: TensorLike, labels: TensorLike) -> tuple[Tensor, Tensor]:
    """The cross entropy of each row of scores (N, C) with probabilities (N, C), and its gradient by the scores."""
    name = "SoftmaxCrossEntropyWithLogits"
    dtype, (x, y) = operands(name, logits, labels)
    require_same_shape(name, x, y)
    _require_rows_operator(name, x)
    log_p = network.log_softmax(x)
    return cast(-sum(y * log_p, -1), dtype), cast(exp(log_p) - y, dtype)


@operator_class("SparseSoftmaxCrossEntropyWithLogits", "is_grad")
def _sparse_softmax_cross_entropy(features: TensorLike, labels: TensorLike, is_grad: bool = False) -> Tensor:
    """The mean over rows of scores (N, C) of the cross entropy with classes (N,); its gradient where `is_grad`."""
    name = "SparseSoftmaxCrossEntropyWithLogits"
    dtype, (x,) = operands(name, features)
    _require_rows_operator(name, x)
    classes = class_indices(name, labels, x.shape[:1], x.shape[1])
    log_p = network.log_softmax(x)
    if not is_grad:
        picked = gather_elements(log_p, 1, expand_dims(classes, 1))
        return cast(-mean(picked), dtype)
    return cast((exp(log_p) - one_hot(classes, x.shape[1])) / float(x.shape[0]), dtype)


def _require_rows_operator(name: str, x: Tensor) -> None:
    if x.ndim != 2 or 0 in x.shape:
        raise GraphValueError(f"{name} takes scores of the shape (N, C), not {x.type}.")


@operator_class("SigmoidCrossEntropyWithLogits")
def _sigmoid_cross_entropy(logits: TensorLike, label: TensorLike) -> Tensor:
    """The binary cross entropy of sigmoid(logits) with each label."""
    name = "SigmoidCrossEntropyWithLogits"
    dtype, (x, y) = operands(name, logits, label)
    require_same_shape(name, x, y)
    return cast(binary_losses(y, apply("softplus", -x), apply("softplus", x)), dtype)


@operator_class("NLLLoss", "reduction ignore_index")
def _nll_loss(
    logits: TensorLike, labels: TensorLike, weight: TensorLike, reduction: str = "mean", ignore_index: int = -100
) -> tuple[Tensor, Tensor]:
    """-logits of the labelled class, (N, C) and (N,), times its weight; and the sum of these weights.

    See `ops.nll_loss`.
    """
    loss = nll_loss(logits, labels, weight, ignore_index, reduction)
    weights = float_of(weight)
    indices = class_indices("NLLLoss", labels, tensor_of(labels).shape, weights.size, ignore_index)
    counts, classes = valid_labels(indices, ignore_index)
    return loss, sum(where(counts, gather(weights, classes), 0.0))


@operator_class("MultiMarginLoss", "p margin reduction", like=multi_margin_loss)
def _multi_margin_loss(
    x: TensorLike, target: TensorLike, weight: Tensor | None = None, p: int = 1, margin: float = 1.0,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return multi_margin_loss(x, target, p, margin, weight, reduction)


@operator_class("MultilabelMarginLoss", "reduction")
def _multilabel_margin_loss(x: TensorLike, target: TensorLike, reduction: str = "mean") -> tuple[Tensor, Tensor]:
    """The multilabel margin loss, see `ops.multilabel_margin_loss`, and a one for each labelled class."""
    loss = multilabel_margin_loss(x, target, reduction)
    return loss, cast(named_classes(tensor_of(target)), int32)
