"""The operator classes of activations and losses (see `operations`)."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ir.types import int32
from graphls.ops import losses_classes, losses_distances, network
from graphls.ops.creation import one_hot
from graphls.ops.elementwise import cast, div, exp, mul, neg, square, sub
from graphls.ops.logic import where
from graphls.ops.loss_operands import class_numbers, counted, operands, require_same_shape, two_classes
from graphls.ops.operands import apply, float_of, tensor_of
from graphls.ops.record import operator_class
from graphls.ops.reductions import mean, sum
from graphls.ops.shapes import expand_dims, gather, gather_elements
from graphls.tensors.tensor import Tensor


@operator_class("L2Loss")
def _l2_loss(input_x: Any) -> Tensor:
    """Half of the sum of squares."""
    return mul(sum(square(float_of(input_x))), 0.5)


@operator_class("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(logits: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """The cross entropy of each row of scores (N, C) with probabilities (N, C), and its gradient by the scores."""
    name = "SoftmaxCrossEntropyWithLogits"
    dtype, (x, y) = operands(name, logits, labels)
    require_same_shape(name, x, y)
    _require_rows(name, x)
    log_p = network.log_softmax(x)
    return cast(neg(sum(mul(y, log_p), -1)), dtype), cast(sub(exp(log_p), y), dtype)


@operator_class("SparseSoftmaxCrossEntropyWithLogits", "is_grad")
def _sparse_softmax_cross_entropy(features: Any, labels: Any, is_grad: bool = False) -> Tensor:
    """The mean over rows of scores (N, C) of the cross entropy with classes (N,); its gradient where `is_grad`."""
    name = "SparseSoftmaxCrossEntropyWithLogits"
    dtype, (x,) = operands(name, features)
    _require_rows(name, x)
    classes = class_numbers(name, labels, x.shape[:1], x.shape[1])
    log_p = network.log_softmax(x)
    if not is_grad:
        picked = gather_elements(log_p, 1, expand_dims(classes, 1))
        return cast(neg(mean(picked)), dtype)
    return cast(div(sub(exp(log_p), one_hot(classes, x.shape[1])), float(x.shape[0])), dtype)


def _require_rows(name: str, x: Tensor) -> None:
    if x.ndim != 2 or 0 in x.shape:
        raise GraphValueError(f"{name} takes scores of the shape (N, C), not {x.type}.")


@operator_class("SigmoidCrossEntropyWithLogits")
def _sigmoid_cross_entropy(logits: Any, label: Any) -> Tensor:
    """The binary cross entropy of sigmoid(logits) with each label."""
    name = "SigmoidCrossEntropyWithLogits"
    dtype, (x, y) = operands(name, logits, label)
    require_same_shape(name, x, y)
    return cast(two_classes(y, apply("softplus", neg(x)), apply("softplus", x)), dtype)


@operator_class("NLLLoss", "reduction ignore_index")
def _nll_loss(
    logits: Any, labels: Any, weight: Any, reduction: str = "mean", ignore_index: int = -100
) -> tuple[Tensor, Tensor]:
    """-logits of the class that is the label, (N, C) and (N,), times its weight; and the sum of these weights.

    See `ops.nll_loss`.
    """
    loss = losses_classes.nll_loss(logits, labels, weight, ignore_index, reduction)
    weights = float_of(weight)
    counts, classes = counted(class_numbers("NLLLoss", labels, tensor_of(labels).shape, weights.size, ignore_index),
                              ignore_index)  # fmt: skip
    return loss, sum(where(counts, gather(weights, classes), 0.0))


@operator_class("MultiMarginLoss", "p margin reduction", like=losses_classes.multi_margin_loss)
def _multi_margin_loss(
    x: Any, target: Any, weight: Any = None, p: int = 1, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    return losses_classes.multi_margin_loss(x, target, p, margin, weight, reduction)


@operator_class("MultilabelMarginLoss", "reduction")
def _multilabel_margin_loss(x: Any, target: Any, reduction: str = "mean") -> tuple[Tensor, Tensor]:
    """The multilabel margin loss, see `ops.multilabel_margin_loss`, and a one for each class that is a label."""
    loss = losses_classes.multilabel_margin_loss(x, target, reduction)
    return loss, cast(losses_classes.named_classes(tensor_of(target)), int32)


@operator_class("TripletMarginLoss", "p swap eps reduction", like=losses_distances.triplet_margin_loss)
def _triplet_margin_loss(
    x: Any, positive: Any, negative: Any, margin: Any, p: int = 2, swap: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = float(margin.item()) if isinstance(margin, Tensor) else margin
    return losses_distances.triplet_margin_loss(x, positive, negative, number, p, eps, swap, reduction)
