"""Metrics that are means over samples: errors of predictions, losses and overlaps."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Mean, misfit, rearrange_inputs


class _Error(Mean):
    """An error summed over each sample, and its mean over the samples."""

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add predictions and true values of as many elements, the samples along the first axis."""
        predicted, labels = self._arrays(inputs)
        if predicted.size != labels.size or not labels.ndim:
            raise misfit(self, "two arrays of as many elements", predicted, labels)
        difference = labels.reshape(predicted.shape).astype(np.float64) - predicted
        self._sum += float(self._error(difference).sum())
        self._samples_num += labels.shape[0]

    @staticmethod
    def _error(difference: Array) -> Array:
        raise NotImplementedError


class MAE(_Error):
    """The sum of absolute errors, divided by the number of samples.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import MAE
        >>> metric = MAE()
        >>> metric.clear()
        >>> metric.update(np.array([1.0, 2.0]), np.array([1.5, 4.0]))
        >>> metric.eval()
        1.25
    """

    @staticmethod
    def _error(difference: Array) -> Array:
        return np.abs(difference)


class MSE(_Error):
    """The sum of squared errors, divided by the number of samples.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import MSE
        >>> metric = MSE()
        >>> metric.clear()
        >>> metric.update(np.array([1.0, 2.0]), np.array([1.5, 4.0]))
        >>> metric.eval()
        2.125
    """

    @staticmethod
    def _error(difference: Array) -> Array:
        return np.square(difference)


class Loss(Mean):
    """The mean of the losses of all batches.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.train import Loss
        >>> metric = Loss()
        >>> metric.clear()
        >>> metric.update(tensor(1.0))
        >>> metric.update(tensor(2.0))
        >>> metric.eval()
        1.5
    """

    inputs: ClassVar[tuple[str, ...]] = ("loss",)

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add a loss without axes, or a row of them.

        Raises GraphValueError for a loss of several axes.
        """
        (loss,) = self._arrays(inputs)
        if loss.ndim > 1 or not loss.size:
            raise GraphValueError(f"The dimension of loss must be 1, but got {loss.shape}.")
        self._sum += float(loss.mean())
        self._samples_num += 1


class Perplexity(Mean):
    """exp of the mean of -log(probability of the label), without the labels that are to be ignored.

    Probabilities below 1e-10 count as that. Raises GraphTypeError for an `ignore_label` that is not an integer or None.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Perplexity
        >>> metric = Perplexity()
        >>> metric.clear()
        >>> metric.update(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 1]))
        >>> round(float(metric.eval()), 4)
        1.633
    """

    inputs: ClassVar[tuple[str, ...]] = ("preds", "labels")

    def __init__(self, ignore_label: int | None = None) -> None:
        if ignore_label is not None and type(ignore_label) is not int:
            raise GraphTypeError(f"The 'ignore_label' must be int or None, not {ignore_label!r}.")
        super().__init__()
        self.ignore_label = ignore_label

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add probabilities (..., C) and the labels (...) of their classes.

        Raises GraphValueError where their shapes do not fit and for a label that is not a class.
        """
        predicted, labels = self._arrays(inputs)
        if predicted.ndim < 1 or labels.shape != predicted.shape[:-1]:
            raise misfit(self, "probabilities (..., C) and labels (...)", predicted, labels)
        labels, predicted = labels.reshape(-1).astype(np.int64), predicted.reshape(-1, predicted.shape[-1])
        mask = np.ones(labels.shape, bool) if self.ignore_label is None else labels != self.ignore_label
        wrong = mask & ((labels < 0) | (labels >= predicted.shape[1]))
        if wrong.any():
            raise GraphValueError(f"The label {labels[wrong][0]} is not below {predicted.shape[1]}.")
        self._sum -= float(np.log(np.maximum(1e-10, predicted[mask, labels[mask]])).sum())
        self._samples_num += int(mask.sum())

    def eval(self) -> float:
        return float(np.exp(super().eval()))


class Dice(Mean):
    """2 * x . y / (x . x + y . y + smooth) of each batch, summed up and divided by the number of samples.

    Raises GraphTypeError for a `smooth` that is not a float, GraphValueError for one that is not above 0.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Dice
        >>> metric = Dice()
        >>> metric.clear()
        >>> metric.update(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
        >>> round(float(metric.eval()), 4)
        0.4
    """

    def __init__(self, smooth: float = 1e-5) -> None:
        if isinstance(smooth, bool) or not isinstance(smooth, float):
            raise GraphTypeError(f"For 'Dice', the argument 'smooth' must be float, not {smooth!r}.")
        if not smooth > 0:
            raise GraphValueError(f"For 'Dice', the argument 'smooth' must be above 0, not {smooth}.")
        super().__init__()
        self.smooth = smooth

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Add two arrays of the same shape, the samples along the first axis.

        Raises GraphValueError where their shapes differ.
        """
        x, y = self._arrays(inputs)
        if x.shape != y.shape or not x.ndim:
            raise misfit(self, "two arrays of one shape", x, y)
        a, b = x.reshape(-1).astype(np.float64), y.reshape(-1).astype(np.float64)
        self._sum += float(2 * (a @ b) / (a @ a + b @ b + self.smooth))
        self._samples_num += x.shape[0]
