"""How often each class is taken for each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Metric, rearrange_inputs

NO_NORM, TARGET, PREDICTION, ALL_NORM = "no_norm", "target", "prediction", "all"
_AXES: dict[str, Any] = {TARGET: 1, PREDICTION: 0, ALL_NORM: None}


class ConfusionMatrix(Metric):
    """The matrix whose row is the class that a sample has, and whose column the one that was predicted.

    `normalize` divides each number by the sum of its row ("target"), of its column ("prediction") or of all ("all").
    Of two classes, a score from `threshold` on is the second. Raises GraphTypeError and GraphValueError for settings
    that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import ConfusionMatrix
        >>> metric = ConfusionMatrix(2)
        >>> metric.clear()
        >>> metric.update(np.array([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]), np.array([1, 0, 1]))
        >>> metric.eval()
        array([[1., 0.],
               [1., 1.]])
    """

    def __init__(self, num_classes: int, normalize: str = NO_NORM, threshold: float = 0.5) -> None:
        super().__init__()
        if type(num_classes) is not int or num_classes < 1:
            raise GraphTypeError(f"The 'num_classes' must be an int of 1 or more, not {num_classes!r}.")  # fmt: skip
        if normalize not in (NO_NORM, *_AXES):
            raise GraphValueError(
                f"The 'normalize' must be 'no_norm', 'target', 'prediction' or 'all', not {normalize!r}.",
            )
        if isinstance(threshold, bool) or not isinstance(threshold, float):
            raise GraphTypeError(f"The 'threshold' must be float, not {threshold!r}.")
        self.num_classes, self.normalize, self.threshold = num_classes, normalize, threshold
        self.clear()

    def clear(self) -> None:
        self.confusion_matrix: Array = np.zeros((self.num_classes, self.num_classes))
        self._is_update = False

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Take in scores (N, C, ...), or classes or scores of the second of two (N, ...), and the classes (N, ...)."""
        predicted, labels = self._arrays(inputs)
        if predicted.ndim == labels.ndim + 1 and predicted.ndim > 1:
            predicted = predicted.argmax(axis=1)
        elif predicted.ndim == labels.ndim and predicted.dtype.kind == "f":
            predicted = predicted >= self.threshold
        if predicted.shape != labels.shape:
            raise GraphValueError(
                f"The shapes of predictions and classes do not fit: {predicted.shape} and {labels.shape}.",
            )
        classes = [a.reshape(-1).astype(np.int64) for a in (labels, predicted)]
        if any(a.size and (a.min() < 0 or a.max() >= self.num_classes) for a in classes):
            raise GraphValueError(f"A class is not below the 'num_classes', {self.num_classes}.")
        np.add.at(self.confusion_matrix, tuple(classes), 1)
        self._is_update = True

    def eval(self) -> Array:
        """The matrix (num_classes, num_classes); a row or column that is empty stays 0 when normalized."""
        self._check_some(self._is_update)
        if self.normalize == NO_NORM:
            return self.confusion_matrix
        counts = self.confusion_matrix
        total = counts.sum(axis=_AXES[self.normalize], keepdims=True)
        shares: Array = counts / np.where(total == 0, 1, total)
        return shares
