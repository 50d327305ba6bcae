"""The receiver operating characteristic, and the area under a curve."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Metric, rearrange_inputs


class ROC(Metric):
    """False and true positive rates over all thresholds, of two classes or of each of several.

    `class_num` is the number of classes, None for two; `pos_label` the label of the positive of two, 1 unless given.
    Raises GraphTypeError for settings that are no integers.

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
        """Take in the scores (N, ...) of the positive class, or (N, C, ...) of all, and the labels (N, ...).

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

    x rises or falls; with `reorder` the points are sorted first. Raises GraphTypeError for what is no row of numbers,
    GraphValueError for rows of different lengths, and for an x that does neither.

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
