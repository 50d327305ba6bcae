"""The confusion matrix of a classifier, and measures computed from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.registry import nearest
from graphls.train.metrics.metric import Array, Metric, check_choice, check_type, rearrange_inputs, wrong

NO_NORM, TARGET, PREDICTION, ALL_NORM = "no_norm", "target", "prediction", "all"
_AXES: dict[str, Any] = {TARGET: 1, PREDICTION: 0, ALL_NORM: None}


class ConfusionMatrix(Metric):
    """The matrix whose rows are the classes of samples, and whose columns the predicted classes.

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
        """Add scores (N, C, ...), or classes or scores of the second of two (N, ...), and the classes (N, ...)."""
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
        self._check_not_empty(self._is_update)
        if self.normalize == NO_NORM:
            return self.confusion_matrix
        counts = self.confusion_matrix
        total = counts.sum(axis=_AXES[self.normalize], keepdims=True)
        shares: Array = counts / np.where(total == 0, 1, total)
        return shares


_NAMES = {
    "tpr": "sensitivity, recall, hit_rate, true_positive_rate",
    "tnr": "specificity, selectivity, true_negative_rate",
    "ppv": "precision, positive_predictive_value",
    "npv": "negative_predictive_value",
    "fnr": "miss_rate, false_negative_rate",
    "fpr": "fall_out, false_positive_rate",
    "fdr": "false_discovery_rate",
    "for": "false_omission_rate",
    "pt": "prevalence_threshold",
    "ts": "threat_score, critical_success_index, csi",
    "acc": "accuracy",
    "ba": "balanced_accuracy",
    "f1": "f1_score",
    "mcc": "matthews_correlation_coefficient",
    "fm": "fowlkes_mallows_index",
    "bm": "informedness, bookmaker_informedness",
    "mk": "markedness, deltap",
}
_SHORT = {name: short for short, names in _NAMES.items() for name in (short, *names.split(", "))}


class Counts:
    """True and false positives and negatives, arrays of one shape, and rates of them, nan where the divisor is 0."""

    def __init__(self, tp: Array, fp: Array, tn: Array, fn: Array) -> None:
        self.tp, self.fp, self.tn, self.fn = tp, fp, tn, fn
        self.tpr, self.fnr = _ratio(tp, tp + fn), _ratio(fn, tp + fn)
        self.tnr, self.fpr = _ratio(tn, tn + fp), _ratio(fp, tn + fp)
        self.ppv, self.fdr = _ratio(tp, tp + fp), _ratio(fp, tp + fp)
        self.npv, self.omitted = _ratio(tn, tn + fn), _ratio(fn, tn + fn)


_MEASURES: dict[str, Callable[[Counts], Array]] = {
    "tpr": lambda c: c.tpr,
    "tnr": lambda c: c.tnr,
    "ppv": lambda c: c.ppv,
    "npv": lambda c: c.npv,
    "fnr": lambda c: c.fnr,
    "fpr": lambda c: c.fpr,
    "fdr": lambda c: c.fdr,
    "for": lambda c: c.omitted,
    "pt": lambda c: _ratio(np.sqrt(c.tpr * (1 - c.tnr)) + c.tnr - 1, c.tpr + c.tnr - 1),
    "ts": lambda c: _ratio(c.tp, c.tp + c.fn + c.fp),
    "acc": lambda c: _ratio(c.tp + c.tn, c.tp + c.tn + c.fp + c.fn),
    "ba": lambda c: (c.tpr + c.tnr) / 2,
    "f1": lambda c: _ratio(2 * c.tp, 2 * c.tp + c.fn + c.fp),
    "mcc": lambda c: _ratio(
        c.tp * c.tn - c.fp * c.fn,
        np.sqrt((c.tp + c.fp) * (c.tp + c.fn) * (c.tn + c.fp) * (c.tn + c.fn)),
    ),
    "fm": lambda c: np.sqrt(c.ppv * c.tpr),
    "bm": lambda c: c.tpr + c.tnr - 1,
    "mk": lambda c: c.ppv + c.npv - 1,
}

# The axes of (samples, channels) that are summed in sequence, and whether each sum becomes a mean.
_DECREASES: dict[str, tuple[tuple[Any, bool], ...]] = {
    "none": (),
    "mean": ((1, True), (0, True)),
    "sum": (((0, 1), False),),
    "mean_batch": ((0, True),),
    "sum_batch": ((0, False),),
    "mean_channel": ((1, True),),
    "sum_channel": ((1, False),),
}


class ConfusionMatrixMetric(Metric):
    """A measure of right and wrong answers about classes, such as sensitivity, precision or informedness.

    `metric_name` is its name or one of its usual other names, in small or capital letters: "sensitivity",
    "specificity", "precision", "negative predictive value", "miss rate", "fall out", "false discovery rate", "false
    omission rate", "prevalence threshold", "threat score", "accuracy", "balanced accuracy", "f1 score", "matthews
    correlation coefficient", "fowlkes mallows index", "informedness" and "markedness".

    The answers of all samples and channels are counted together, and `eval` returns an array of one number. With
    `calculation_method` each channel of each sample has a measure, `decrease` makes one number of those of a batch
    ("mean" or "sum"; the others leave several, unless there is one sample or one channel), and `eval` returns the mean
    of the batches as a float. `skip_channel=False` leaves the first channel out, and True counts it, as in MindSpore.

    Raises GraphTypeError and GraphValueError for settings that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import ConfusionMatrixMetric
        >>> metric = ConfusionMatrixMetric(metric_name="tpr")
        >>> metric.clear()
        >>> metric.update(np.array([[[0], [1]], [[1], [0]]]), np.array([[[0], [1]], [[0], [1]]]))
        >>> metric.eval()
        array([0.5])
    """

    def __init__(
        self, skip_channel: bool = True, metric_name: str = "sensitivity", calculation_method: bool = False,
        decrease: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__()
        check_type(self, "skip_channel", skip_channel, bool)
        check_type(self, "metric_name", metric_name, str)
        check_type(self, "calculation_method", calculation_method, bool)
        check_choice(self, "decrease", decrease, _DECREASES)
        name = metric_name.replace(" ", "_").lower()
        if name not in _SHORT:
            raise GraphValueError(f"There is no measure {metric_name!r}{nearest(name, _SHORT)}.")
        self.skip_channel, self.metric_name = skip_channel, metric_name
        self.calculation_method, self.decrease = calculation_method, decrease
        self._measure = _MEASURES[_SHORT[name]]
        self.clear()

    def clear(self) -> None:
        self._counts: Array = np.zeros(4)
        self._sum, self._number = 0.0, 0
        self._is_updated = False

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add predictions and labels, zeros and ones (N, C, ...) of one shape.

        Raises GraphValueError for other shapes, for labels that are not whole numbers, for predictions (N, C) with
        `calculation_method`, and where `decrease` leaves more than one number.
        """
        predicted, labels = self._checked(inputs)
        counts = _counts(predicted, labels)
        if self.calculation_method:
            number, count = self._reduced(self._measure(Counts(*counts)))
            self._sum += number * count
            self._number += count
        else:
            self._counts = self._counts + counts.sum(axis=(1, 2))
        self._is_updated = True

    def _checked(self, inputs: tuple[object, ...]) -> tuple[Array, Array]:
        predicted, labels = self._arrays(inputs)
        if not (labels.astype(np.uint8) == labels).all():
            raise GraphValueError("For 'ConfusionMatrixMetric', the labels must be zeros and ones.")
        if predicted.ndim < 2 or predicted.shape != labels.shape:
            shapes = f"{predicted.shape} and {labels.shape}"
            raise wrong(self, f"predictions and labels are (N, C, ...) of one shape, not {shapes}")
        if self.calculation_method and predicted[0, 0].size == 1 and predicted.ndim < 4:
            text = "'calculation_method' must be False for one answer to each class, (N, C), but got"
            raise wrong(self, f"{text} {predicted.shape}")
        first = 0 if self.skip_channel or predicted.shape[1] == 1 else 1
        return predicted[:, first:], labels[:, first:]

    def _reduced(self, measures: Array) -> tuple[float, int]:
        """The reduction of measures (samples, channels) to one number, and how many of them it covers."""
        counts: Array = ~np.isnan(measures)
        values = np.where(counts, measures, 0)
        for axis, is_mean in _DECREASES[self.decrease]:
            counts = (counts > 0).sum(axis=axis)
            values = values.sum(axis=axis)
            values = values / np.maximum(counts, 1) if is_mean else values
        if values.size != 1:
            text = f"'decrease' must leave one number, and {self.decrease!r} leaves {values.size}; take 'mean' or"
            raise wrong(self, f"{text} 'sum'")
        return values.item(), int(counts.item())

    def eval(self) -> Any:
        """The measure: an array of one number, or a float with `calculation_method`.

        Raises GraphRuntimeError where there was no batch, and with `calculation_method` where no sample has a measure.
        """
        self._check_not_empty(self._number if self.calculation_method else self._is_updated)
        if self.calculation_method:
            return self._sum / self._number
        return self._measure(Counts(*self._counts[:, None]))


def _ratio(part: Array, total: Array) -> Array:
    ratio: Array = np.divide(part, total, out=np.full(np.shape(part), np.nan), where=total != 0)
    return ratio


def _counts(predicted: Array, labels: Array) -> Array:
    """True positives, false positives, true negatives, false negatives: (4, samples, channels)."""
    predicted, labels = (a.reshape(*a.shape[:2], -1).astype(np.float64) for a in (predicted, labels))
    right = [(predicted + labels == answer).sum(axis=2).astype(np.float64) for answer in (2, 0)]
    positive = labels.sum(axis=2)
    return np.stack([right[0], labels.shape[2] - positive - right[1], right[1], positive - right[0]])
