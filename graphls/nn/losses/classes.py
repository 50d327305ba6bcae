"""Losses of classes as cells: labels that are numbers of classes, or a probability of each."""

from __future__ import annotations

from math import prod
from typing import Any

from graphls import ops
from graphls.ir.checks import boolean, integer, number
from graphls.ir.errors import GraphValueError
from graphls.nn.function_cells import LossBase, finite_labels
from graphls.ops.losses import (
    class_numbers,
    class_weights,
    given_weight,
    operands,
    reduced,
    require_same_shape,
    require_tensors,
)
from graphls.ops.operands import tensor_of
from graphls.tensors.tensor import Symbol, Tensor, TensorLike

__all__ = ["CTCLoss", "CrossEntropyLoss", "FocalLoss"]


class CrossEntropyLoss(LossBase):
    """-log(softmax(logits)) of the class that is the label, or its mean under labels that are probabilities.

    Shapes, `weight`, `ignore_index` and `label_smoothing` are those of `ops.cross_entropy`.
    """

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(reduction)
        self.weight = given_weight("CrossEntropyLoss", "weight", weight)
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
    labels of all samples one after the other. Raises as `ops.ctc_loss`, and GraphTypeError where `zero_infinity` is no
    bool.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank = integer("CTCLoss", "blank", blank)
        self.zero_infinity = boolean("CTCLoss", "zero_infinity", zero_infinity)

    def construct(
        self, log_probs: TensorLike, targets: TensorLike, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        x, labels = tensor_of(log_probs), tensor_of(targets)
        times, counts = (ops.reshape(n, (-1,)) for n in map(tensor_of, (input_lengths, target_lengths)))
        is_single = x.ndim == 2
        x = ops.expand_dims(x, 1) if is_single else x
        if labels.ndim == 1:
            labels = ops.expand_dims(labels, 0) if is_single else _padded_rows(labels, counts)
        losses, _ = ops.ctc_loss(x, labels, times, counts, self.blank, self.reduction, self.zero_infinity)
        return ops.reshape(losses, ()) if is_single else losses


def _padded_rows(labels: Tensor, counts: Tensor) -> Tensor:
    """Labels of samples one after the other as rows, with labels of others behind; long enough for any length."""
    size = labels.size
    if not isinstance(counts, Symbol):
        if int(counts.array.sum()) != size:
            message = f"CTCLoss takes as many labels as the 'target_lengths' {counts.tolist()} say, not {size}."
            raise GraphValueError(message)
        size = int(counts.array.max(initial=0))
    starts = ops.expand_dims(ops.cumsum(counts, 0, exclusive=True), 1)
    places = ops.minimum(ops.add(starts, ops.arange(size)), labels.size - 1)
    return ops.gather(labels, places) if size else ops.zeros((counts.size, 0), labels.dtype)


class FocalLoss(LossBase):
    """-(1 - p) ** gamma * log(p) with the softmax p over classes (Lin et al., 2017).

    Scores have the shape (N, C) or (N, C, ...). Labels are numbers of classes, int32 or int64 of shape (N, 1) or
    (N, 1, ...), for a loss of each sample, or probabilities in the shape of the scores, for a loss of each class of
    each sample; both are means over the axes after the second. `weight` has the shape (C,).
    """

    def __init__(self, weight: Any = None, gamma: float = 2.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = given_weight("FocalLoss", "weight", weight)
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
        numbers = class_numbers("FocalLoss", labels, (x.shape[0], 1, *x.shape[2:]), x.shape[1])
        picked = ops.gather_elements(losses, 1, ops.reshape(numbers, (flat[0], 1, flat[2])))
        return reduced("FocalLoss", ops.mean(picked, (1, 2)), self.reduction, dtype)

    def _of_classes(self, log_p: Tensor) -> Tensor:
        """The loss of each class if it is the label; 1 - p is never 0, where powers below 1 have no slope."""
        others = ops.maximum(ops.neg(ops.expm1(log_p)), 1e-30)
        losses = ops.mul(ops.neg(log_p), ops.pow(others, self.gamma))
        weights = class_weights("FocalLoss", self.weight, log_p.shape[1], log_p.dtype)
        return losses if weights is None else ops.mul(losses, ops.reshape(weights, (-1, 1)))

    def _probabilities(self, x: Tensor, labels: TensorLike) -> Tensor:
        given = ops.cast(finite_labels("FocalLoss", labels), x.dtype)
        require_same_shape("FocalLoss", x, given)
        return given
