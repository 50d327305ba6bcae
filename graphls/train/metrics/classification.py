"""Predictions of classes, or of several labels at once, brought into one form."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Metric, is_one_hot

_KINDS = ("classification", "multilabel")


class EvaluationBase(Metric):
    """A metric of scores (N, C, ...) and labels: numbers of classes (N, ...) or one-hot, or zeros and ones of both.

    `eval_type` is "classification" or "multilabel". Raises GraphTypeError for another one, and `update`
    GraphValueError for shapes that do not fit each other, or a number of classes that changes between batches.

    Examples:
        >>> from graphls.train import Accuracy, EvaluationBase
        >>> metric = Accuracy("multilabel")
        >>> isinstance(metric, EvaluationBase)
        True
    """

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__()
        if eval_type not in _KINDS:
            raise GraphTypeError(f"The 'eval_type' must be in {_KINDS}, but got {eval_type!r}.")
        self._type = eval_type
        self._class_num = 0

    def _checked(self, inputs: tuple[Any, ...]) -> tuple[Array, Array]:
        predicted, labels = self._arrays(inputs)
        if self._type == "classification":
            if predicted.ndim == labels.ndim and is_one_hot(labels):
                labels = labels.argmax(axis=1)
            _check_classes(predicted, labels)
        else:
            _check_labels(predicted, labels)
        self._check_class_number(predicted.shape[1])
        return predicted, labels

    def _check_class_number(self, count: int) -> None:
        if self._class_num and self._class_num != count:
            raise GraphValueError(
                f"Class number not match, last input predicted data contain {self._class_num} classes, "
                f"but current predicted data contain {count} classes.",
            )
        self._class_num = count

    def _one_hot(self, inputs: tuple[object, ...]) -> tuple[Array, Array]:
        """Predictions and labels as zeros and ones, (samples, classes), or (classes, samples) of several labels."""
        predicted, labels = self._checked(inputs)
        count = self._class_num
        if self._type == "multilabel":
            first, second = (a.swapaxes(1, 0).reshape(count, -1) for a in (predicted, labels))
            return first, second
        if labels.size and (labels.max() >= count or labels.min() < 0):
            raise GraphValueError(
                f"The labels reach from {labels.min()} to {labels.max()}, but the predictions have {count} classes.",
            )
        identity = np.eye(count)
        return identity[predicted.argmax(axis=1).reshape(-1)], identity[labels.astype(np.int64).reshape(-1)]


def _check_classes(predicted: Array, labels: Array) -> None:
    if predicted.ndim != labels.ndim + 1:
        raise GraphValueError(
            f"Classification case, dims of y_pred equal dims of y add 1, but got y_pred: {predicted.ndim} dims and "
            f"y: {labels.ndim} dims.",
        )
    if labels.shape != (predicted.shape[0], *predicted.shape[2:]):
        raise GraphValueError(
            f"Classification case, y_pred shape and y shape can not match. y_pred: {predicted.shape}, "
            f"y: {labels.shape}.",
        )


def _check_labels(predicted: Array, labels: Array) -> None:
    if predicted.shape != labels.shape or predicted.ndim < 2:
        raise GraphValueError(
            f"For multilabel case, the shapes of y_pred and y are the same, (N, C, ...), but got {predicted.shape} "
            f"and {labels.shape}.",
        )
    if not (np.isin(predicted, (0, 1)).all() and np.isin(labels, (0, 1)).all()):
        raise GraphValueError("For multilabel case, input value must be 1 or 0.")
