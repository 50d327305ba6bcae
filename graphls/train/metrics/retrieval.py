"""Precision, recall and their harmonic mean, of each class."""

from __future__ import annotations

import sys

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.classification import EvaluationBase
from graphls.train.metrics.metric import Array, rearrange_inputs

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
