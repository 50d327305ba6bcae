"""Metrics of classification: accuracy, precision, recall, F scores, and the receiver operating characteristic."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Mean, Metric, is_one_hot, misfit, rearrange_inputs, wrong

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


class Accuracy(EvaluationBase):
    """The share of samples whose best score is that of their label, or all of whose labels are right.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Accuracy
        >>> metric = Accuracy()
        >>> metric.clear()
        >>> metric.update(np.array([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]), np.array([1, 0, 1]))
        >>> round(metric.eval(), 4)
        0.6667
    """

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(eval_type)
        self.clear()

    def clear(self) -> None:
        self._correct_num = self._total_num = 0
        self._class_num = 0

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add scores (N, C, ...) and labels (N, ...) or one-hot; or zeros and ones of several labels."""
        predicted, labels = self._checked(inputs)
        if self._type == "classification":
            right = np.equal(predicted.argmax(axis=1), labels).reshape(-1)
        else:
            right = np.moveaxis(np.equal(predicted, labels), 1, -1).reshape(-1, self._class_num).all(axis=1)
        self._correct_num += int(right.sum())
        self._total_num += right.size

    def eval(self) -> float:
        self._check_not_empty(self._total_num)
        return self._correct_num / self._total_num


class TopKCategoricalAccuracy(Mean):
    """The share of samples (N, C) whose label is among the k best scores.

    Raises GraphTypeError for a k that is not an integer and GraphValueError for one below 1.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import TopKCategoricalAccuracy
        >>> metric = TopKCategoricalAccuracy(2)
        >>> metric.clear()
        >>> metric.update(np.array([[0.1, 0.7, 0.2], [0.6, 0.1, 0.3]]), np.array([1, 2]))
        >>> metric.eval()
        1.0
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        if isinstance(k, bool) or not isinstance(k, int):
            raise GraphTypeError(f"For '{type(self).__name__}', the argument 'k' must be int, not {k!r}.")
        if k < 1:
            raise wrong(self, f"the argument 'k' must be at least 1, not {k}")
        self.k = k

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add scores (N, C) and labels (N,) or one-hot (N, C)."""
        scores, labels = self._arrays(inputs)
        if scores.ndim == labels.ndim and is_one_hot(labels):
            labels = labels.argmax(axis=1)
        if scores.ndim != 2 or labels.shape != scores.shape[:1]:
            raise misfit(self, "scores (N, C) and labels (N,)", scores, labels)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.k]
        self._sum += float((best == labels[:, None]).any(axis=1).sum())
        self._samples_num += labels.size


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label has the best score.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Top1CategoricalAccuracy
        >>> metric = Top1CategoricalAccuracy()
        >>> metric.clear()
        >>> metric.update(np.array([[0.1, 0.7, 0.2], [0.6, 0.1, 0.3]]), np.array([1, 2]))
        >>> metric.eval()
        0.5
    """

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label is among the five best scores.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Top5CategoricalAccuracy
        >>> metric = Top5CategoricalAccuracy()
        >>> metric.clear()
        >>> metric.update(np.arange(12.0).reshape(2, 6), np.array([0, 1]))
        >>> metric.eval()
        0.5
    """

    def __init__(self) -> None:
        super().__init__(5)


_EPS = sys.float_info.min


class Retrieval(EvaluationBase):
    """A score of each class (or sample) from its true positives, predictions and labels."""

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(eval_type)
        self.clear()

    def clear(self) -> None:
        self._class_num = 0
        self._counts: Array = np.zeros((3, 0))

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add scores (N, C, ...) and labels (N, ...) or one-hot; or zeros and ones of several labels."""
        predicted, labels = self._one_hot(inputs)
        counts = np.stack([a.sum(axis=0) for a in (predicted * labels, predicted, labels)])
        if self._type == "multilabel" or not self._counts.size:
            self._counts = np.concatenate([self._counts, counts], axis=1)
        else:
            self._counts = self._counts + counts

    def eval(self, average: bool = False) -> Array | float:
        """One number for each class (for each sample, of several labels), or their mean with `average`."""
        self._check_not_empty(self._class_num)
        if not isinstance(average, bool):
            raise GraphTypeError(f"The argument 'average' must be bool, but got {average!r}.")
        scores = self._scores(*self._counts)
        return float(scores.mean()) if average else scores

    def _scores(self, right: Array, predicted: Array, present: Array) -> Array:
        raise NotImplementedError


class Precision(Retrieval):
    """The share of the predictions of a class that are right; 0 for a class that was never predicted.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Precision
        >>> metric = Precision()
        >>> metric.clear()
        >>> metric.update(np.array([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]), np.array([1, 0, 1]))
        >>> metric.eval()
        array([0.5, 1. ])
    """

    def _scores(self, right: Array, predicted: Array, present: Array) -> Array:
        return right / (predicted + _EPS)


class Recall(Retrieval):
    """The share of the samples of a class that were predicted as such; 0 for a class without samples.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Recall
        >>> metric = Recall()
        >>> metric.clear()
        >>> metric.update(np.array([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]), np.array([1, 0, 1]))
        >>> metric.eval()
        array([1. , 0.5])
    """

    def _scores(self, right: Array, predicted: Array, present: Array) -> Array:
        return right / (present + _EPS)


class Fbeta(Retrieval):
    """(1 + beta ** 2) * precision * recall / (beta ** 2 * precision + recall) of each class.

    Raises GraphTypeError or GraphValueError for a beta that is not a number above 0.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Fbeta
        >>> metric = Fbeta(2.0)
        >>> metric.clear()
        >>> metric.update(np.array([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]), np.array([1, 0, 1]))
        >>> round(float(metric.eval(average=True)), 4)
        0.6944
    """

    def __init__(self, beta: float) -> None:
        if isinstance(beta, bool) or not isinstance(beta, (int, float)):
            raise GraphTypeError(f"For 'Fbeta', the argument 'beta' must be a number, not {beta!r}.")
        if not beta > 0:
            raise GraphValueError(f"For 'Fbeta', the argument 'beta' must be above 0, not {beta}.")
        super().__init__()
        self.beta = beta

    def _scores(self, right: Array, predicted: Array, present: Array) -> Array:
        weight = self.beta**2
        return (1 + weight) * right / (weight * present + predicted + _EPS)


class F1(Fbeta):
    """The harmonic mean of precision and recall of each class.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import F1
        >>> metric = F1()
        >>> metric.clear()
        >>> metric.update(np.array([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]), np.array([1, 0, 1]))
        >>> metric.eval().round(4)
        array([0.6667, 0.6667])
    """

    def __init__(self) -> None:
        super().__init__(1.0)


class ROC(Metric):
    """False and true positive rates over all thresholds, of two classes or of each of several.

    `class_num` is the number of classes, None for two; `pos_label` the label of the positive of two, 1 unless given.
    Raises GraphTypeError for settings that are not integers.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import ROC, auc
        >>> metric = ROC(pos_label=1)
        >>> metric.clear()
        >>> metric.update(np.array([0.1, 0.4, 0.6, 0.8]), np.array([0, 1, 0, 1]))
        >>> false_rate, true_rate, thresholds = metric.eval()
        >>> float(auc(false_rate, true_rate))
        0.75
    """

    def __init__(self, class_num: int | None = None, pos_label: int | None = None) -> None:
        super().__init__()
        for name, value in (("class_num", class_num), ("pos_label", pos_label)):
            if value is not None and type(value) is not int:
                raise GraphTypeError(f"For 'ROC', the argument {name!r} must be int, not {value!r}.")
        self.class_num, self.pos_label = class_num, pos_label
        self.clear()

    def clear(self) -> None:
        self._scores: list[Array] = []
        self._labels: list[Array] = []

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add the scores (N, ...) of the positive class, or (N, C, ...) of all, and the labels (N, ...).

        Raises GraphValueError where their shapes do not fit, or `pos_label` is given for several classes.
        """
        scores, labels = self._arrays(inputs)
        several = self.class_num not in (None, 1)
        if several and self.pos_label is not None:
            raise GraphValueError("For 'ROC', 'pos_label' must be None when there are several classes.")  # fmt: skip
        if several and (scores.ndim < 2 or scores.shape[1] != self.class_num):
            raise GraphValueError(
                f"For 'ROC' of {self.class_num} classes, scores are (N, {self.class_num}, ...), not {scores.shape}.",
            )
        columns = np.moveaxis(scores, 1, -1) if several else scores[..., None]
        if columns.shape[:-1] != labels.shape:
            raise GraphValueError(f"For 'ROC', scores {scores.shape} and labels {labels.shape} do not fit.")
        self._scores.append(columns.reshape(-1, columns.shape[-1]))
        self._labels.append(labels.reshape(-1))

    def eval(self) -> Any:
        """False positive rates, true positive rates and thresholds, falling; a list of each for several classes.

        Raises GraphRuntimeError without samples, and GraphValueError where a class has all samples or none.
        """
        if not self._labels:
            raise GraphRuntimeError("The 'ROC' must be updated before it is evaluated.")
        scores, labels = np.concatenate(self._scores), np.concatenate(self._labels)
        if self.class_num in (None, 1):
            return _curve(scores[:, 0], labels == (1 if self.pos_label is None else self.pos_label))
        curves = [_curve(scores[:, c], labels == c) for c in range(scores.shape[1])]
        return tuple(map(list, zip(*curves, strict=True)))


def _curve(scores: Array, positive: Array) -> tuple[Array, Array, Array]:
    order = np.argsort(-scores, kind="stable")
    scores, positive = scores[order], positive[order]
    last = np.append(np.nonzero(np.diff(scores))[0], scores.size - 1)
    right = np.append(0, np.cumsum(positive)[last])
    wrong = np.append(0, 1 + last - right[1:])
    thresholds = np.append(scores[0] + 1, scores[last])
    for counts, what in ((wrong, "negative"), (right, "positive")):
        if counts[-1] <= 0:
            raise GraphValueError(f"No {what} samples in true value, so the curve has no meaning.")
    return wrong / wrong[-1], right / right[-1], thresholds


def auc(x: Any, y: Any, reorder: bool = False) -> float:
    """The area under the curve through the points (x, y), by the trapezoidal rule.

    x rises or falls; with `reorder` the points are sorted first. Raises GraphTypeError for anything but a row of
    numbers, GraphValueError for rows of different lengths, and for an x that does neither.

    Examples:
        >>> from graphls.train import auc
        >>> float(auc([0.0, 0.5, 1.0], [0.0, 1.0, 1.0]))
        0.75
    """
    if not all(isinstance(a, (np.ndarray, list)) for a in (x, y)):
        raise GraphTypeError("auc takes arrays or lists.")
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim != 1 or x.shape != y.shape or x.size < 2:
        raise GraphValueError(f"auc takes two rows of two or more numbers, not {x.shape} and {y.shape}.")  # fmt: skip
    if reorder:
        order = np.lexsort((y, x))
        x, y = x[order], y[order]
    steps = np.diff(x)
    if (steps < 0).any() and (steps > 0).any():
        raise GraphValueError(
            "Reordering is not turned on, and the x array is neither rising nor falling; sort it, or use reorder=True.",
        )
    area = float(np.sum(steps * (y[1:] + y[:-1]) / 2))
    return -area if (steps < 0).any() else area
