"""How often the best score, or one of the best, is that of the label."""

from __future__ import annotations

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.classification import EvaluationBase
from graphls.train.metrics.metric import Metric, is_one_hot, rearrange_inputs


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
