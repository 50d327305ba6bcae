"""Metrics of classification: accuracy, precision, recall and F scores."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Metric, is_one_hot, misfit, rearrange_inputs, wrong

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
        """Take in scores (N, C, ...) and labels (N, ...) or one-hot; or zeros and ones of several labels."""
        predicted, labels = self._checked(inputs)
        if self._type == "classification":
            right = np.equal(predicted.argmax(axis=1), labels).reshape(-1)
        else:
            right = np.moveaxis(np.equal(predicted, labels), 1, -1).reshape(-1, self._class_num).all(axis=1)
        self._correct_num += int(right.sum())
        self._total_num += right.size

    def eval(self) -> float:
        self._check_some(self._total_num)
        return self._correct_num / self._total_num


class TopKCategoricalAccuracy(Metric):
    """The share of samples (N, C) whose label is among the k best scores.

    Raises GraphTypeError for a k that is no integer and GraphValueError for one below 1.

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
        self.clear()

    def clear(self) -> None:
        self._correct_num = self._samples_num = 0

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Take in scores (N, C) and labels (N,) or one-hot (N, C)."""
        scores, labels = self._arrays(inputs)
        if scores.ndim == labels.ndim and is_one_hot(labels):
            labels = labels.argmax(axis=1)
        if scores.ndim != 2 or labels.shape != scores.shape[:1]:
            raise misfit(self, "scores (N, C) and labels (N,)", scores, labels)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.k]
        self._correct_num += int((best == labels[:, None]).any(axis=1).sum())
        self._samples_num += labels.size

    def eval(self) -> float:
        self._check_some(self._samples_num)
        return self._correct_num / self._samples_num


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
    """A score of true positives, of what was predicted and of what there is, for each class (or sample)."""

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(eval_type)
        self.clear()

    def clear(self) -> None:
        self._class_num = 0
        self._counts: Array = np.zeros((3, 0))

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Take in scores (N, C, ...) and labels (N, ...) or one-hot; or zeros and ones of several labels."""
        predicted, labels = self._one_hot(inputs)
        counts = np.stack([a.sum(axis=0) for a in (predicted * labels, predicted, labels)])
        if self._type == "multilabel" or not self._counts.size:
            self._counts = np.concatenate([self._counts, counts], axis=1)
        else:
            self._counts = self._counts + counts

    def eval(self, average: bool = False) -> Array | float:
        """One number for each class (for each sample, of several labels), or their mean with `average`."""
        self._check_some(self._class_num)
        if not isinstance(average, bool):
            raise GraphTypeError(f"The argument 'average' must be bool, but got {average!r}.")
        scores = self._scores(*self._counts)
        return float(scores.mean()) if average else scores

    def _scores(self, right: Array, predicted: Array, present: Array) -> Array:
        raise NotImplementedError


class Precision(Retrieval):
    """Of what was predicted to be of a class, the share that is; 0 for a class that was never predicted.

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
    """Of what is of a class, the share that was predicted to be; 0 for a class that there was none of.

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
