"""Losses by name, the checks of their labels, and the cells that training and validation run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls import nn, ops
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.cli.arguments import function_of, is_function
from graphls.cli.training.columns import Array
from graphls.cli.training.model import Shape
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.registry import nearest
from graphls.ir.types import float32, int64
from graphls.ops.operands import tensor_of
from graphls.train.metrics.metric import Metric

IGNORED = -100
"""The class of ignored labels, as in `ops.cross_entropy`."""
Function = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Loss:
    """A loss by name: a function of prediction and label that returns one number.

    `activation` is the operator that it includes, which is removed from the end of a model; `right` returns masks of
    the labels that are predicted right and of those that count, None if a loss has no notion of that.
    """

    function: Function
    activation: str = ""
    right: Callable[[Any, Any], tuple[Any, Any]] | None = None
    takes_label: bool = True


def loss_of(name: str) -> Loss:
    """The loss of a name, or of `module:function`; raises GraphValueError, with the closest name, for another one."""
    if is_function(name):
        function = function_of(name, "--loss")
        return Loss(function() if isinstance(function, type) else function)
    if name not in LOSSES:
        listed = ", ".join(LOSSES)
        text = f"There is no loss {name!r}{nearest(name, LOSSES)}"
        raise GraphValueError(f"{text}; take one of {listed}, or module:function.")
    return LOSSES[name]


def label_check(name: str, prediction: Shape | None) -> Callable[[Array, str], Array]:
    """The function that checks labels and casts them for a loss: classes to integers, other numbers to floats."""
    classes = _classes(prediction) if name == "cross_entropy" else None

    def check(labels: Array, source: str) -> Array:
        if labels.dtype.kind in "fV" and not np.isfinite(labels).all():
            raise GraphValueError(f"The label in {source} holds nan or an infinity; take such rows out.")
        if name != "cross_entropy":
            integers = np.int64 if is_function(name) else np.float32
            return labels.astype(integers) if labels.dtype.kind in "iu" else labels
        labels = _of_classes(labels, source)
        if classes is not None and labels.dtype.kind == "i" and labels.ndim == 1:
            _check_range(labels, classes, source)
        return labels

    return check


def _classes(prediction: Shape | None) -> int | None:
    """The number of classes, if the model declares it."""
    return prediction[1] if prediction is not None and len(prediction) == 2 else None


def _of_classes(labels: Array, source: str) -> Array:
    """Labels of a cross entropy: class numbers as int64, (N, 1) as (N,), and probabilities as float32."""
    is_column = labels.ndim == 2 and labels.shape[1] == 1
    labels = labels[:, 0] if is_column else labels
    if labels.dtype.kind in "fV" and labels.ndim > 1:
        return labels.astype(np.float32)
    if labels.dtype.kind in "fV" and not np.equal(labels, np.floor(labels)).all():
        row = np.flatnonzero(labels != np.floor(labels))[0]
        text = f"The label {labels[row]} in row {row} of {source} is not a class"
        raise GraphValueError(f"{text}; give numbers of classes, or another loss, such as mse.")
    return labels.astype(np.int64)


def _check_range(labels: Array, classes: int, source: str) -> None:
    wrong = np.flatnonzero((labels < 0) & (labels != IGNORED) | (labels >= classes))
    if wrong.size:
        text = f"The label {labels[wrong[0]]} in row {wrong[0]} of {source} is not one of the model's {classes} classes"
        raise GraphValueError(f"{text}; number them from 0 to {classes - 1}.")


def _cross_entropy(prediction: Tensor, label: Tensor) -> Any:
    scores, label = _scores(prediction, label)
    return ops.cross_entropy(scores, label, ignore_index=IGNORED)


def _scores(prediction: Tensor, label: Tensor) -> tuple[Any, Any]:
    """Scores with the classes along axis 1, and labels: from (N, C, ...), or from (N, ..., C) if only that fits."""
    shape = prediction.shape
    if label.shape == shape:
        if label.dtype.is_float and len(shape) > 1:
            return prediction, label
        if len(shape) > 1:  # one-hot labels as integers
            return prediction, ops.cast(label, prediction.dtype)
    if label.shape == (shape[0], *shape[2:]):
        return prediction, label
    if label.shape == shape[:-1]:
        return ops.reshape(prediction, (-1, shape[-1])), ops.reshape(label, (-1,))
    text = f"The label has the shape {label.shape} for a prediction of {shape}"
    raise GraphValueError(f"{text}; cross_entropy takes numbers of classes {(shape[0], *shape[2:])}, or {shape}.")


def _right_class(prediction: Tensor, label: Tensor) -> tuple[Any, Any]:
    scores, label = _scores(prediction, label)
    predicted = ops.argmax(scores, 1)
    if label.dtype.is_float:
        return ops.equal(predicted, ops.argmax(label, 1)), ops.ones_like(ops.cast(predicted, float32))
    return ops.equal(ops.cast(predicted, int64), ops.cast(label, int64)), ops.not_equal(label, IGNORED)


def _of_pairs(function: Callable[[Any, Any], Any]) -> Function:
    """A loss whose labels get the shape of the prediction: else (N,) and (N, 1) would broadcast to (N, N)."""

    def loss(prediction: Tensor, label: Tensor) -> Any:
        return function(prediction, _like(prediction, label))

    return loss


def _like(prediction: Tensor, label: Tensor) -> Any:
    if tuple(n for n in label.shape if n != 1) != tuple(n for n in prediction.shape if n != 1):
        text = f"The label has the shape {label.shape} for a prediction of {prediction.shape}"
        raise GraphValueError(f"{text}; give it that shape.")
    return ops.cast(ops.reshape(label, prediction.shape), prediction.dtype)


def _binary(prediction: Tensor, label: Tensor) -> Any:
    ones = ops.ones_like(prediction)
    return ops.binary_cross_entropy_with_logits(prediction, label, ones, ones)


def _right_sign(prediction: Tensor, label: Tensor) -> tuple[Any, Any]:
    right = ops.equal(ops.greater(prediction, 0.0), ops.greater(_like(prediction, label), 0.5))
    return right, ops.ones_like(prediction)


LOSSES = {
    "cross_entropy": Loss(_cross_entropy, "Softmax", _right_class),
    "binary_cross_entropy": Loss(_of_pairs(_binary), "Sigmoid", _right_sign),
    "mse": Loss(_of_pairs(ops.mse_loss)),
    "l1": Loss(_of_pairs(ops.l1_loss)),
    "huber": Loss(_of_pairs(ops.huber_loss)),
    "none": Loss(lambda prediction, label: prediction, takes_label=False),
}


class WithLoss(nn.Cell):
    """A network of several inputs with a loss, which is computed in float32 if the network is in 16 bits."""

    def __init__(self, network: nn.Cell, loss: Loss) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.loss = loss
        self.cell = loss.function if isinstance(loss.function, nn.Cell) else None

    def construct(self, *columns: Any) -> Any:
        return self.forward(columns)[0]

    def forward(self, columns: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """The loss, the prediction and the label of a batch."""
        inputs, label = (columns[:-1], columns[-1]) if self.loss.takes_label else (columns, None)
        prediction = tensor_of(self.network(*inputs))
        if prediction.dtype.is_half:
            prediction = ops.cast(prediction, float32)
        function = self.loss.function if self.cell is None else self.cell
        loss = function(prediction, label)
        if not isinstance(loss, Tensor) or loss.size != 1:
            kind = f"the shape {loss.shape}" if isinstance(loss, Tensor) else f"type {type(loss).__name__}"
            raise GraphTypeError(f"A loss is one number of a batch, and this is of {kind}; give its mean.")
        return ops.reshape(loss, ()), prediction, label


class Evaluation(WithLoss):
    """The cell of validation: returns the loss of a batch, the number of right labels and the number of labels."""

    def construct(self, *columns: Any) -> Any:
        loss, prediction, label = self.forward(columns)
        if self.loss.right is None:
            rows = ops.fill(float32, (), float(tensor_of(columns[0]).shape[0]))
            return loss, ops.zeros_like(rows), rows
        right, counts = self.loss.right(prediction, label)
        counts = ops.cast(counts, float32)
        return loss, ops.sum(ops.mul(ops.cast(right, float32), counts)), ops.sum(counts)


class Mean(Metric):
    """The mean over all labels of the loss (0), or of the right ones (1)."""

    def __init__(self, of: int) -> None:
        super().__init__()
        self.of = of
        self.clear()

    def clear(self) -> None:
        self.sum, self.count = 0.0, 0.0

    def update(self, *inputs: Any) -> None:
        """Add the outputs of Evaluation."""
        loss, right, count = (float(x.asnumpy()) for x in inputs)
        self.sum += right if self.of else loss * count
        self.count += count

    def eval(self) -> float:
        self._check_not_empty(self.count)
        return self.sum / self.count
