"""Activation functions as cells: those made of straight lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.errors import GraphTypeError
from graphls.nn.cell import Cell
from graphls.nn.checks import positive_int
from graphls.ops.activations import check_slopes
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = [
    "HShrink", "HSigmoid", "HSwish", "Hardtanh", "LeakyReLU", "PReLU", "RReLU", "ReLU6", "SoftShrink", "Threshold",
]  # fmt: skip


class ReLU6(Cell):
    """x, at least 0 and at most 6."""

    def construct(self, x: Any) -> Tensor:
        return ops.relu6(x)


class LeakyReLU(Cell):
    """x where it is positive and alpha * x elsewhere."""

    def __init__(self, alpha: float = 0.2) -> None:
        super().__init__()
        self.alpha = alpha

    def construct(self, x: Any) -> Tensor:
        return ops.leaky_relu(x, self.alpha)


class PReLU(Cell):
    """x where it is positive and a learned weight times x elsewhere: one weight, or one for each channel (axis 1).

    `w` is the first weight: a number, or a tensor or list of shape (channel,). Raises GraphTypeError and
    GraphValueError for anything else.
    """

    def __init__(self, channel: int = 1, w: Any = 0.25) -> None:
        super().__init__()
        shape = (positive_int("PReLU", "channel", channel),)
        if isinstance(w, str):
            message = "For 'PReLU', the 'w' only supported float, list and tensor, but got str."
            raise GraphTypeError(message)
        self.w = Parameter(initializer(np.asarray(w) if isinstance(w, list) else w, shape), name="a")

    def construct(self, x: Any) -> Tensor:
        return ops.prelu(x, self.w)


class RReLU(Cell):
    """x where it is positive, and elsewhere x times a number between `lower` and `upper`.

    In training the number is drawn for each element, else it is (lower + upper) / 2. MindSpore draws it always.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3) -> None:
        super().__init__()
        check_slopes("RReLU", lower, upper)
        self.lower = lower
        self.upper = upper

    def construct(self, x: Any) -> Tensor:
        return ops.rrelu(x, self.lower, self.upper, self.training)


class HSigmoid(Cell):
    """(x + 3) / 6, at least 0 and at most 1."""

    def construct(self, x: Any) -> Tensor:
        return ops.hardsigmoid(x)


class HSwish(Cell):
    """x * hardsigmoid(x)."""

    def construct(self, x: Any) -> Tensor:
        return ops.hardswish(x)


class Hardtanh(Cell):
    """x, at least `min_val` and at most `max_val`."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val

    def construct(self, x: Any) -> Tensor:
        return ops.hardtanh(x, self.min_val, self.max_val)


class HShrink(Cell):
    """x where its absolute value is above `lambd` and 0 elsewhere."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def construct(self, x: Any) -> Tensor:
        return ops.hardshrink(x, self.lambd)


class SoftShrink(HShrink):
    """x moved towards 0 by `lambd`, and 0 where it would pass it."""

    def construct(self, x: Any) -> Tensor:
        return ops.softshrink(x, self.lambd)


class Threshold(Cell):
    """x where it is above `threshold` and `value` elsewhere."""

    def __init__(self, threshold: float, value: float) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value

    def construct(self, x: Any) -> Tensor:
        return ops.threshold(x, self.threshold, self.value)
