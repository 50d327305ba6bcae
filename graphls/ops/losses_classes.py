"""Losses of classes: labels that are numbers of classes, or a probability of each."""

from __future__ import annotations

from typing import Any

from graphls.ir.checks import integer, number
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DType, int32
from graphls.ops.creation import arange, one_hot
from graphls.ops.elementwise import add, cast, div, mul, neg, pow, sub
from graphls.ops.logic import less, logical_and, logical_not, where
from graphls.ops.loss_operands import (
    check_reduction,
    class_numbers,
    class_weights,
    counted,
    operands,
    reduced,
    require_same_shape,
    require_tensors,
    two_classes,
    weighted,
)
from graphls.ops.network import log_softmax, relu
from graphls.ops.operands import apply, tensor_of
from graphls.ops.record import operation
from graphls.ops.reductions import any as any_of
from graphls.ops.reductions import argmax, sum
from graphls.ops.shapes import expand_dims, gather, gather_elements, reshape
from graphls.tensors.tensor import Tensor


@operation
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log(softmax(input)) of the class that is the label, for scores (N, C), (N, C, ...) or (C,).

    Labels are the numbers of classes, int32 or int64 in the shape without the axis of classes, of which those equal to
    `ignore_index` do not count; or they are probabilities in the shape of the scores. `weight` has the shape (C,), and
    the mean divides by the weights of the labels (by their number for probabilities). `label_smoothing` moves that
    much of the probability evenly to all classes (Szegedy et al., 2016).
    """
    require_tensors("cross_entropy", input, target)
    if not tensor_of(input).dtype.is_float:
        kind = tensor_of(input).type
        raise GraphTypeError(f"cross_entropy takes scores that are floats, not {kind}; cast them.")
    if not tensor_of(target).dtype.is_float:
        dtype, (x,) = operands("cross_entropy", input)
        smoothing = number("cross_entropy", "label_smoothing", label_smoothing, 0, 1)
        log_p = log_softmax(x, _class_axis("cross_entropy", x))
        return _nll("cross_entropy", dtype, log_p, target, weight, ignore_index, reduction, smoothing)
    dtype, (x, probabilities) = operands("cross_entropy", input, target)
    return _of_probabilities(dtype, x, probabilities, weight, reduction, label_smoothing)


@operation
def nll_loss(
    inputs: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-input of the class that is the label, for logarithms of probabilities; else as `cross_entropy`."""
    dtype, (x,) = operands("nll_loss", inputs)
    smoothing = number("nll_loss", "label_smoothing", label_smoothing, 0, 1)
    return _nll("nll_loss", dtype, x, target, weight, ignore_index, reduction, smoothing)


def _class_axis(name: str, x: Tensor) -> int:
    if not x.ndim:
        raise GraphValueError(f"{name} takes scores of the shape (N, C), (N, C, ...) or (C,).")
    return 1 if x.ndim > 1 else 0


def _nll(
    name: str, dtype: DType, x: Tensor, target: Any, weight: Any, ignored: int, reduction: str, smoothing: float
) -> Tensor:
    check_reduction(name, reduction)
    axis = _class_axis(name, x)
    classes = x.shape[axis]
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    counts, labels = counted(
        class_numbers(name, target, shape, classes, integer(name, "ignore_index", ignored)), ignored
    )
    weights = class_weights(name, weight, classes, x.dtype)
    losses = neg(_picked(x, labels, axis))
    if weights is not None:
        losses = mul(losses, gather(weights, labels))
    if smoothing:
        evenly = sum(_weighted_classes(neg(x), weights, axis), axis)
        losses = add(mul(losses, 1 - smoothing), mul(evenly, smoothing / classes))
    losses = where(counts, losses, 0.0)
    if reduction != "mean":
        return reduced(name, losses, reduction, dtype)
    total = sum(cast(counts, x.dtype) if weights is None else where(counts, gather(weights, labels), 0.0))
    return cast(div(sum(losses), total), dtype)


def _picked(x: Tensor, labels: Tensor, axis: int) -> Tensor:
    return reshape(gather_elements(x, axis, expand_dims(labels, axis)), labels.shape)


def _weighted_classes(x: Tensor, weights: Tensor | None, axis: int) -> Tensor:
    return x if weights is None else mul(x, reshape(weights, (-1,) + (1,) * (x.ndim - axis - 1)))


def _of_probabilities(dtype: DType, x: Tensor, target: Tensor, weight: Any, reduction: str, smoothing: Any) -> Tensor:
    name, axis = "cross_entropy", _class_axis("cross_entropy", x)
    require_same_shape(name, x, target)
    classes, smoothing = x.shape[axis], number(name, "label_smoothing", smoothing, 0, 1)
    target = add(mul(target, 1 - smoothing), smoothing / classes) if smoothing else target
    log_p = _weighted_classes(log_softmax(x, axis), class_weights(name, weight, classes, x.dtype), axis)
    return reduced(name, neg(sum(mul(target, log_p), axis)), reduction, dtype)


@operation
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """The mean over all C classes of what the label's score lacks of `margin` above another's, to the power `p`.

    Scores have the shape (N, C), labels (N,) and `weight` (C,). Raises GraphValueError for a `p` that is not 1 or 2.
    """
    name = "multi_margin_loss"
    dtype, (x,) = operands(name, input)
    if p not in (1, 2):
        raise GraphValueError(f"For {name!r}, the 'p' must be 1 or 2, but got {p!r}.")
    _require_rows(name, x)
    labels = class_numbers(name, target, x.shape[:1], x.shape[1])
    weights = class_weights(name, weight, x.shape[1], x.dtype)
    lacking = pow(relu(sub(add(x, number(name, "margin", margin)), expand_dims(_picked(x, labels, 1), 1))), p)
    others = where(one_hot(labels, x.shape[1], True, False), 0.0, lacking)
    losses = div(sum(others, 1), float(x.shape[1]))
    return reduced(name, losses if weights is None else mul(losses, gather(weights, labels)), reduction, dtype)


@operation
def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """The sum over labels j and classes i without label of what x[j] lacks of 1 above x[i], divided by C.

    Scores have the shape (N, C) or (C,), and labels, int32 or int64, the same; labels count up to the first -1.
    """
    name = "multilabel_margin_loss"
    dtype, (x,) = operands(name, input)
    if x.ndim not in (1, 2):
        raise GraphValueError(f"{name} takes scores of the shape (N, C) or (C,), not {x.type}.")
    classes = x.shape[-1]
    valid, labels = counted(class_numbers(name, target, x.shape, classes, -1), -1)
    counts = _before_the_end(valid)
    named = _named(labels, counts)
    pairs = logical_and(expand_dims(counts, -1), expand_dims(logical_not(named), -2))
    lacking = relu(sub(add(expand_dims(x, -2), 1.0), expand_dims(gather_elements(x, x.ndim - 1, labels), -1)))
    return reduced(name, div(sum(where(pairs, lacking, 0.0), (-2, -1)), float(classes)), reduction, dtype)


def _before_the_end(valid: Tensor) -> Tensor:
    """Whether each label stands before the first that is none."""
    classes = valid.shape[-1]
    ended = cast(logical_not(valid), int32)
    first = where(any_of(ended, -1, keepdims=True), argmax(ended, -1, keepdims=True), classes)
    return less(arange(classes), first)


def _named(labels: Tensor, counts: Tensor) -> Tensor:
    """Whether each class is a label that counts."""
    return any_of(logical_and(one_hot(labels, labels.shape[-1], True, False), expand_dims(counts, -1)), -2)


def named_classes(target: Tensor) -> Tensor:
    """Whether each class is one of the labels, which count up to the first -1, along the last axis."""
    valid, labels = counted(target, -1)
    return _named(labels, _before_the_end(valid))


@operation
def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """The mean over classes (N, C) of the binary cross entropy of sigmoid(input), times a weight that broadcasts."""
    name = "multilabel_soft_margin_loss"
    dtype, (x, y) = operands(name, input, target)
    require_same_shape(name, x, y)
    _require_rows(name, x)
    losses = two_classes(y, apply("softplus", neg(x)), apply("softplus", x))
    return reduced(name, div(sum(weighted(losses, weight), -1), float(x.shape[-1])), reduction, dtype)


def _require_rows(name: str, x: Tensor) -> None:
    if x.ndim != 2:
        raise GraphValueError(f"{name} takes scores of the shape (N, C), not {x.type}.")
