"""Losses of how near vectors are to each other, and of how far two sets overlap, as cells."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.checks import boolean, integer, number, positive
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.activations import get_activation
from graphls.nn.cell import Cell
from graphls.nn.function_cells import LossBase, finite_labels
from graphls.nn.functions import LogSoftmax, Softmax
from graphls.ops.losses import operands, require_same_shape, require_tensors
from graphls.ops.operands import float_of
from graphls.ops.transcendental import root
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["DiceLoss", "MultiClassDiceLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss"]


class TripletMarginLoss(LossBase):
    """What the distance to a negative lacks of that to a positive and `margin`, for vectors along the last axis."""

    def __init__(
        self, p: float = 2, swap: bool = False, eps: float = 1e-6, reduction: str = "mean", margin: float = 1.0
    ) -> None:
        super().__init__(reduction)
        self.p = number("TripletMarginLoss", "p", p, 1)
        self.swap = boolean("TripletMarginLoss", "swap", swap)
        self.eps = positive("TripletMarginLoss", "eps", eps)
        self.margin = number("TripletMarginLoss", "margin", margin, 0)

    def construct(self, x: Tensor, positive: Tensor, negative: Tensor, margin: Any = None) -> Tensor:
        margin = self.margin if margin is None else margin
        return ops.triplet_margin_loss(x, positive, negative, margin, self.p, self.eps, self.swap, self.reduction)


class DiceLoss(LossBase):
    """1 - 2 * sum(x * y) / (sum(x ** 2) + sum(y ** 2) + smooth) for predictions x and labels y of one shape."""

    def __init__(self, smooth: float = 1e-5) -> None:
        super().__init__()
        self.smooth = positive("DiceLoss", "smooth", smooth)

    def construct(self, logits: TensorLike, label: TensorLike) -> Tensor:
        dtype, (x, y) = operands("DiceLoss", logits, finite_labels("DiceLoss", label))
        require_same_shape("DiceLoss", x, y)
        return ops.cast(_dice(x, y, self.smooth, tuple(range(x.ndim))), dtype)


def _dice(x: Tensor, y: Tensor, smooth: float, axes: tuple[int, ...]) -> Tensor:
    union = ops.add(ops.sum(ops.square(x), axes), ops.sum(ops.square(y), axes))
    return ops.sub(1.0, ops.div(ops.mul(ops.sum(ops.mul(x, y), axes), 2.0), ops.add(union, smooth)))


class MultiClassDiceLoss(LossBase):
    """The mean over classes (axis 1) of their dice losses, each times its weight, of activated predictions.

    `weights` has the shape (C,) or (C, n), for which the result is (n,). The class `ignore_indiex` adds nothing.
    `activation` is a name, a cell or None; a softmax by name is that over classes. Raises GraphTypeError and
    GraphValueError for anything else.
    """

    def __init__(self, weights: Any = None, ignore_indiex: int | None = None, activation: Any = "softmax") -> None:
        super().__init__()
        if weights is not None:
            require_tensors("The weights of MultiClassDiceLoss", weights)
        if ignore_indiex is not None:
            integer("MultiClassDiceLoss", "ignore_indiex", ignore_indiex)
        self.weights = weights
        self.ignore_indiex = ignore_indiex
        self.activation = _over_classes(activation)

    def construct(self, logits: TensorLike, label: TensorLike) -> Tensor:
        dtype, (x, y) = operands("MultiClassDiceLoss", logits, finite_labels("MultiClassDiceLoss", label))
        require_same_shape("MultiClassDiceLoss", x, y)
        if x.ndim < 2:
            raise GraphValueError(f"MultiClassDiceLoss takes scores (N, C, ...), not {x.type}.")
        x = x if self.activation is None else self.activation(x)
        losses = _dice(x, y, 1e-5, (0, *range(2, x.ndim)))
        if self.ignore_indiex is not None:
            losses = ops.where(ops.equal(ops.arange(x.shape[1]), self.ignore_indiex), 0.0, losses)
        return ops.cast(ops.div(ops.sum(self._weighted(losses), 0), float(x.shape[1])), dtype)

    def _weighted(self, losses: Tensor) -> Tensor:
        if self.weights is None:
            return losses
        weights = ops.cast(self.weights, losses.dtype)
        if weights.ndim not in (1, 2) or weights.shape[0] != losses.size:
            raise GraphValueError(
                f"The weights of MultiClassDiceLoss have the shape ({losses.size},) or ({losses.size}, n), not "
                f"{weights.shape}.",
            )
        return ops.mul(ops.reshape(losses, (-1, *(1,) * (weights.ndim - 1))), weights)


def _over_classes(activation: TensorLike) -> Cell | None:
    if activation in ("softmax", "logsoftmax"):
        return Softmax(1) if activation == "softmax" else LogSoftmax(1)
    return get_activation(activation)


class TripletMarginWithDistanceLoss(LossBase):
    """What the distance to a negative lacks of that to a positive and `margin`, by any function of two tensors.

    Without a function, the distance is the Euclidean norm of the difference along axis 1. With `swap` the negative's
    is the smaller one of those to the anchor and to the positive. Raises GraphTypeError and GraphValueError for
    arguments that do not fit.
    """

    def __init__(
        self, distance_function: Any = None, swap: bool = False, reduction: str = "mean", margin: float = 1.0
    ) -> None:
        super().__init__(reduction)
        if distance_function is not None and not callable(distance_function):
            message = f"The 'distance_function' is a function of two tensors, not {distance_function!r}."
            raise GraphTypeError(message)
        self.distance_function = distance_function or _along_first
        self.swap = boolean("TripletMarginWithDistanceLoss", "swap", swap)
        self.margin = number("TripletMarginWithDistanceLoss", "margin", margin, 0)

    def construct(self, x: TensorLike, positive: TensorLike, negative: TensorLike) -> Tensor:
        distance = self.distance_function
        to_far = distance(x, negative)
        to_far = ops.minimum(to_far, distance(positive, negative)) if self.swap else to_far
        return self.get_loss(ops.relu(ops.add(ops.sub(distance(x, positive), to_far), self.margin)))


def _along_first(x: TensorLike, other: TensorLike) -> Tensor:
    difference = ops.sub(float_of(x), float_of(other))
    if difference.ndim < 2:
        message = f"TripletMarginWithDistanceLoss takes rows of vectors, not {difference.type}."
        raise GraphValueError(message)
    return root(ops.sum(ops.square(difference), 1))
