"""How often the best score, or one of the best, is that of the label."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.classification import EvaluationBase
from graphls.train.metrics.metric import Metric, is_one_hot, rearrange_inputs


class Accuracy(EvaluationBase):
    """The share of samples whose best score is that of their label, or all of whose labels are right."""

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
        self._correct_num += right.sum()
        self._total_num += right.size

    def eval(self) -> Any:
        self._check_some(self._total_num)
        return self._correct_num / self._total_num


class TopKCategoricalAccuracy(Metric):
    """The share of samples (N, C) whose label is among the k best scores.

    Raises GraphTypeError for a k that is no integer and GraphValueError for one below 1.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        if isinstance(k, bool) or not isinstance(k, int):
            raise GraphTypeError(f"For '{type(self).__name__}', the argument 'k' must be int, not {k!r}.")
        if k < 1:
            raise GraphValueError(f"For '{type(self).__name__}', the argument 'k' must be at least 1, not {k}.")
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
            raise GraphValueError(
                f"{type(self).__name__} takes scores (N, C) and labels (N,), not {scores.shape} and {labels.shape}.",
            )
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.k]
        self._correct_num += (best == labels[:, None]).any(axis=1).sum()
        self._samples_num += labels.size

    def eval(self) -> Any:
        self._check_some(self._samples_num)
        return self._correct_num / self._samples_num


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label has the best score."""

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label is among the five best scores."""

    def __init__(self) -> None:
        super().__init__(5)
