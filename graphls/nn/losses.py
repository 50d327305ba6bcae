"""Loss cells that consist of more than one function of `graphls.ops`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from graphls import ops
from graphls.base.checks import boolean, integer, number, positive
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.dispatch import promoted
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import int32, int64
from graphls.nn.activations import get_activation
from graphls.nn.cell import Cell
from graphls.nn.function_cells import LossBase, finite_labels
from graphls.nn.functions import L1Loss, LogSoftmax, Softmax
from graphls.ops.math.transcendental import root
from graphls.ops.network.losses import (
    class_indices,
    class_weights,
    operands,
    reduced,
    require_same_shape,
    require_tensors,
    weight_setting,
)
from graphls.ops.operands import Operand, apply, float_of, tensor_of

__all__ = [
    "CTCLoss", "CrossEntropyLoss", "DiceLoss", "FocalLoss", "KLDivLoss", "MAELoss", "MultiClassDiceLoss",
    "RMSELoss", "SoftmaxCrossEntropyWithLogits", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class SoftmaxCrossEntropyWithLogits(LossBase):
    """-sum(labels * log_softmax(logits)) for each sample of logits (N, C).

    With `sparse`, labels are the numbers of classes, int32 or int64 of shape (N,); else they are probabilities in the
    shape of the logits. Raises GraphTypeError for labels of another dtype, GraphValueError for another shape and,
    before the step runs, for a label out of range(C), nan or infinite.
    """

    def __init__(self, sparse: bool = False, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.sparse = boolean("SoftmaxCrossEntropyWithLogits", "sparse", sparse)

    def construct(self, logits: TensorLike, labels: TensorLike) -> Tensor:
        require_tensors("SoftmaxCrossEntropyWithLogits", logits, labels)
        logits, labels = tensor_of(logits), tensor_of(labels)
        if logits.ndim != 2:
            raise GraphValueError(f"The logits have the shape (N, C), not that of {logits.type}.")
        return self.get_loss(_sparse(logits, labels) if self.sparse else _dense(logits, labels))


def _sparse(logits: Tensor, labels: Tensor) -> Tensor:
    if labels.dtype not in (int32, int64):
        advice = "use sparse=False for one-hot labels" if labels.shape == logits.shape else "cast them"
        raise GraphTypeError(f"Sparse labels are int32 or int64, not {labels.type}; {advice}.")
    if labels.shape != logits.shape[:1]:
        raise GraphValueError(
            f"Sparse labels for logits {logits.type} have the shape ({logits.shape[0]},), not {labels.shape}; "
            "reshape them.",
        )
    labels = apply("check_labels", labels, classes=logits.shape[1])
    picked = ops.gather_elements(ops.log_softmax(logits), 1, ops.expand_dims(labels, 1))
    return ops.neg(ops.reshape(picked, labels.shape))


def _dense(logits: Tensor, labels: Tensor) -> Tensor:
    if not labels.dtype.is_float:
        raise GraphTypeError(
            f"Labels that are probabilities are floats, not {labels.type}; cast them, or use sparse=True.",
        )
    if labels.shape != logits.shape:
        raise GraphValueError(f"The labels {labels.type} must have the shape of {logits.type}.")
    labels = apply("check_labels", labels)
    logits, labels = promoted(logits, labels)
    return ops.neg(ops.sum(ops.mul(labels, ops.log_softmax(logits)), axis=1))


class CrossEntropyLoss(LossBase):
    """-log(softmax(logits)) of the class that is the label, or its mean under labels that are probabilities.

    Shapes, `weight`, `ignore_index` and `label_smoothing` are those of `ops.cross_entropy`.
    """

    def __init__(
        self, weight: TensorLike | None = None, ignore_index: int = -100, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(reduction)
        self.weight = weight_setting("CrossEntropyLoss", "weight", weight)
        self.ignore_index = integer("CrossEntropyLoss", "ignore_index", ignore_index)
        self.label_smoothing = number("CrossEntropyLoss", "label_smoothing", label_smoothing, 0, 1)

    def construct(self, logits: TensorLike, labels: TensorLike) -> Tensor:
        require_tensors("CrossEntropyLoss", logits, labels)
        if tensor_of(labels).dtype.is_float:
            labels = finite_labels("CrossEntropyLoss", labels)
        return ops.cross_entropy(logits, labels, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class CTCLoss(LossBase):
    """-log of the probability of sequences of labels under all alignments: `ops.ctc_loss` without its second result.

    Also of one sequence: `log_probs` (T, C), `targets` (S,) or (1, S), lengths (1,) or without axes. Targets may be the
    concatenated labels of all samples. Raises as `ops.ctc_loss`, and GraphTypeError where `zero_infinity` is
    not a bool.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank = integer("CTCLoss", "blank", blank)
        self.zero_infinity = boolean("CTCLoss", "zero_infinity", zero_infinity)

    def construct(
        self, log_probs: TensorLike, targets: TensorLike, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        x, labels = tensor_of(log_probs), tensor_of(targets)
        lengths, counts = (ops.reshape(n, (-1,)) for n in map(tensor_of, (input_lengths, target_lengths)))
        is_single = x.ndim == 2
        x = ops.expand_dims(x, 1) if is_single else x
        if labels.ndim == 1:
            labels = ops.expand_dims(labels, 0) if is_single else _padded_rows(labels, counts)
        losses, _ = ops.ctc_loss(x, labels, lengths, counts, self.blank, self.reduction, self.zero_infinity)
        return ops.reshape(losses, ()) if is_single else losses


def _padded_rows(labels: Tensor, counts: Tensor) -> Tensor:
    """Concatenated labels as rows, padded with labels of other samples, long enough for any length."""
    size = labels.size
    if not isinstance(counts, Symbol):
        if int(counts.array.sum()) != size:
            message = f"CTCLoss takes as many labels as the 'target_lengths' {counts.tolist()} say, not {size}."
            raise GraphValueError(message)
        size = int(counts.array.max(initial=0))
    starts = ops.expand_dims(ops.cumsum(counts, 0, exclusive=True), 1)
    positions = ops.minimum(ops.add(starts, ops.arange(size)), labels.size - 1)
    return ops.gather(labels, positions) if size else ops.zeros((counts.size, 0), labels.dtype)


class FocalLoss(LossBase):
    """-(1 - p) ** gamma * log(p) with the softmax p over classes (Lin et al., 2017).

    Scores have the shape (N, C) or (N, C, ...). Labels are numbers of classes, int32 or int64 of shape (N, 1) or
    (N, 1, ...), for a loss of each sample, or probabilities in the shape of the scores, for a loss of each class of
    each sample; both are means over the axes after the second. `weight` has the shape (C,).
    """

    def __init__(self, weight: TensorLike | None = None, gamma: float = 2.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = weight_setting("FocalLoss", "weight", weight)
        self.gamma = number("FocalLoss", "gamma", gamma, 0)

    def construct(self, logits: TensorLike, labels: TensorLike) -> Tensor:
        require_tensors("FocalLoss", logits, labels)
        dtype, (x,) = operands("FocalLoss", logits)
        if x.ndim < 2:
            raise GraphValueError(f"FocalLoss takes scores (N, C) or (N, C, ...), not {x.type}.")
        flat = (*x.shape[:2], prod(x.shape[2:]))
        losses = self._of_classes(ops.log_softmax(ops.reshape(x, flat), 1))
        if tensor_of(labels).dtype.is_float:
            losses = ops.mul(losses, ops.reshape(self._probabilities(x, labels), flat))
            return reduced("FocalLoss", ops.mean(losses, 2), self.reduction, dtype)
        numbers = class_indices("FocalLoss", labels, (x.shape[0], 1, *x.shape[2:]), x.shape[1])
        picked = ops.gather_elements(losses, 1, ops.reshape(numbers, (flat[0], 1, flat[2])))
        return reduced("FocalLoss", ops.mean(picked, (1, 2)), self.reduction, dtype)

    def _of_classes(self, log_p: Tensor) -> Tensor:
        """The loss of each class if it is the label; 1 - p is never 0, where powers below 1 have no slope."""
        others = ops.maximum(ops.neg(ops.expm1(log_p)), 1e-30)
        losses = ops.mul(ops.neg(log_p), ops.pow(others, self.gamma))
        weights = class_weights("FocalLoss", self.weight, log_p.shape[1], log_p.dtype)
        return losses if weights is None else ops.mul(losses, ops.reshape(weights, (-1, 1)))

    def _probabilities(self, x: Tensor, labels: TensorLike) -> Tensor:
        probabilities = ops.cast(finite_labels("FocalLoss", labels), x.dtype)
        require_same_shape("FocalLoss", x, probabilities)
        return probabilities


class TripletMarginLoss(LossBase):
    """max(distance to the positive - distance to the negative + margin, 0), for vectors along the last axis.

    A call may override the margin by a number or a tensor of one element.
    """

    def __init__(
        self, p: float = 2, swap: bool = False, eps: float = 1e-6, reduction: str = "mean", margin: float = 1.0
    ) -> None:
        super().__init__(reduction)
        self.p = number("TripletMarginLoss", "p", p, 1)
        self.swap = boolean("TripletMarginLoss", "swap", swap)
        self.eps = positive("TripletMarginLoss", "eps", eps)
        self.margin = number("TripletMarginLoss", "margin", margin, 0)

    def construct(self, x: Tensor, positive: Tensor, negative: Tensor, margin: Operand | None = None) -> Tensor:
        margin = self.margin if margin is None else margin
        return ops.triplet_margin_loss(x, positive, negative, margin, self.p, self.eps, self.swap, self.reduction)


class DiceLoss(LossBase):
    """1 - 2 * sum(x * y) / (sum(x ** 2) + sum(y ** 2) + smooth) for predictions x and labels y of one shape."""

    def __init__(self, smooth: float = 1e-5) -> None:
        super().__init__()
        self.smooth = positive("DiceLoss", "smooth", smooth)

    def construct(self, logits: TensorLike, label: TensorLike) -> Tensor:
        dtype, (x, y) = operands("DiceLoss", logits, finite_labels("DiceLoss", label))
        require_same_shape("DiceLoss", x, y)
        return ops.cast(_dice(x, y, self.smooth, tuple(range(x.ndim))), dtype)


def _dice(x: Tensor, y: Tensor, smooth: float, axes: tuple[int, ...]) -> Tensor:
    union = ops.add(ops.sum(ops.square(x), axes), ops.sum(ops.square(y), axes))
    return ops.sub(1.0, ops.div(ops.mul(ops.sum(ops.mul(x, y), axes), 2.0), ops.add(union, smooth)))


class MultiClassDiceLoss(LossBase):
    """The mean over classes (axis 1) of their dice losses, each times its weight, of activated predictions.

    `weights` has the shape (C,) or (C, n), for which the result is (n,). The class `ignore_indiex` adds nothing.
    `activation` is a name, a cell or None; a softmax by name is that over classes. Raises GraphTypeError and
    GraphValueError for anything else.
    """

    def __init__(
        self, weights: TensorLike | None = None, ignore_indiex: int | None = None,
        activation: str | Cell | None = "softmax",
    ) -> None:  # fmt: skip
        super().__init__()
        if weights is not None:
            require_tensors("The weights of MultiClassDiceLoss", weights)
        if ignore_indiex is not None:
            integer("MultiClassDiceLoss", "ignore_indiex", ignore_indiex)
        self.weights = weights
        self.ignore_indiex = ignore_indiex
        self.activation = _over_classes(activation)

    def construct(self, logits: TensorLike, label: TensorLike) -> Tensor:
        dtype, (x, y) = operands("MultiClassDiceLoss", logits, finite_labels("MultiClassDiceLoss", label))
        require_same_shape("MultiClassDiceLoss", x, y)
        if x.ndim < 2:
            raise GraphValueError(f"MultiClassDiceLoss takes scores (N, C, ...), not {x.type}.")
        x = x if self.activation is None else self.activation(x)
        losses = _dice(x, y, 1e-5, (0, *range(2, x.ndim)))
        if self.ignore_indiex is not None:
            losses = ops.where(ops.equal(ops.arange(x.shape[1]), self.ignore_indiex), 0.0, losses)
        return ops.cast(ops.div(ops.sum(self._weighted(losses), 0), float(x.shape[1])), dtype)

    def _weighted(self, losses: Tensor) -> Tensor:
        if self.weights is None:
            return losses
        weights = ops.cast(self.weights, losses.dtype)
        if weights.ndim not in (1, 2) or weights.shape[0] != losses.size:
            raise GraphValueError(
                f"The weights of MultiClassDiceLoss have the shape ({losses.size},) or ({losses.size}, n), not "
                f"{weights.shape}.",
            )
        return ops.mul(ops.reshape(losses, (-1, *(1,) * (weights.ndim - 1))), weights)


def _over_classes(activation: str | Cell | None) -> Cell | None:
    if activation in ("softmax", "logsoftmax"):
        return Softmax(1) if activation == "softmax" else LogSoftmax(1)
    return get_activation(activation)


class TripletMarginWithDistanceLoss(LossBase):
    """max(distance to the positive - distance to the negative + margin, 0), by any function of two tensors.

    Without a function, the distance is the Euclidean norm of the difference along axis 1. With `swap` the negative's
    is the smaller one of those to the anchor and to the positive. Raises GraphTypeError and GraphValueError for
    arguments that do not fit.
    """

    def __init__(
        self, distance_function: Callable[..., Tensor] | None = None, swap: bool = False, reduction: str = "mean",
        margin: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(reduction)
        if distance_function is not None and not callable(distance_function):
            message = f"The 'distance_function' is a function of two tensors, not {distance_function!r}."
            raise GraphTypeError(message)
        self.distance_function = distance_function or _along_first
        self.swap = boolean("TripletMarginWithDistanceLoss", "swap", swap)
        self.margin = number("TripletMarginWithDistanceLoss", "margin", margin, 0)

    def construct(self, x: TensorLike, positive: TensorLike, negative: TensorLike) -> Tensor:
        distance = self.distance_function
        to_far = distance(x, negative)
        to_far = ops.minimum(to_far, distance(positive, negative)) if self.swap else to_far
        return self.get_loss(ops.relu(ops.add(ops.sub(distance(x, positive), to_far), self.margin)))


def _along_first(x: TensorLike, other: TensorLike) -> Tensor:
    difference = ops.sub(float_of(x), float_of(other))
    if difference.ndim < 2:
        message = f"TripletMarginWithDistanceLoss takes rows of vectors, not {difference.type}."
        raise GraphValueError(message)
    return root(ops.sum(ops.square(difference), 1))


class MAELoss(L1Loss):
    """The mean absolute error: another name of L1Loss."""


class RMSELoss(LossBase):
    """The square root of the mean of squared differences between predictions and labels.

    Both are of one shape, or broadcast together.
    """

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
