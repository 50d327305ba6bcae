"""Activation functions as cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.errors import GraphKeyError, GraphTypeError
from graphls.ir.registry import nearest
from graphls.nn.cell import Cell
from graphls.nn.checks import positive_int
from graphls.ops.activations import check_slopes
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "FastGelu",
    "HShrink",
    "HSigmoid",
    "HSwish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SeLU",
    "SiLU",
    "Sigmoid",
    "SoftShrink",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "get_activation",
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


class ELU(Cell):
    """x where it is positive and alpha * (exp(x) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def construct(self, x: Any) -> Tensor:
        return ops.elu(x, self.alpha)


class CELU(ELU):
    """x where it is positive and alpha * (exp(x / alpha) - 1) elsewhere."""

    def construct(self, x: Any) -> Tensor:
        return ops.celu(x, self.alpha)


class SeLU(Cell):
    """The elu that keeps mean 0 and variance 1."""

    def construct(self, x: Any) -> Tensor:
        return ops.selu(x)


class Mish(Cell):
    """x * tanh(log(1 + exp(x)))."""

    def construct(self, x: Any) -> Tensor:
        return ops.mish(x)


class FastGelu(Cell):
    """x * sigmoid(1.702 * x)."""

    def construct(self, x: Any) -> Tensor:
        return ops.fast_gelu(x)


class Softplus(Cell):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold."""

    def __init__(self, beta: float = 1, threshold: float = 20) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def construct(self, x: Any) -> Tensor:
        return ops.softplus(x, self.beta, self.threshold)


class Softsign(Cell):
    """x / (1 + abs(x))."""

    def construct(self, x: Any) -> Tensor:
        return ops.softsign(x)


class LogSigmoid(Cell):
    """The logarithm of the logistic function."""

    def construct(self, x: Any) -> Tensor:
        return ops.logsigmoid(x)


class Tanhshrink(Cell):
    """x - tanh(x)."""

    def construct(self, x: Any) -> Tensor:
        return ops.tanhshrink(x)


class Softmin(Cell):
    """The softmax of -x along an axis."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Any) -> Tensor:
        return ops.softmin(x, self.axis)


class Softmax2d(Cell):
    """The softmax over the channels of images (N, C, H, W) or (C, H, W)."""

    def construct(self, x: Any) -> Tensor:
        return ops.softmax2d(x)


class GLU(Cell):
    """a * sigmoid(b) for the two halves a and b of x along an axis."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Any) -> Tensor:
        return ops.glu(x, self.axis)


class ReLU(Cell):
    """The larger of x and 0."""

    def construct(self, x: Any) -> Tensor:
        return ops.relu(x)


class Sigmoid(Cell):
    """The logistic function."""

    def construct(self, x: Any) -> Tensor:
        return ops.sigmoid(x)


class Tanh(Cell):
    """The hyperbolic tangent."""

    def construct(self, x: Any) -> Tensor:
        return ops.tanh(x)


class GELU(Cell):
    """x times the normal distribution function at x, by tanh where `approximate`."""

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        self.approximate = "tanh" if approximate else "none"

    def construct(self, x: Any) -> Tensor:
        return ops.gelu(x, self.approximate)


class SiLU(Cell):
    """x * sigmoid(x)."""

    def construct(self, x: Any) -> Tensor:
        return ops.silu(x)


class Softmax(Cell):
    """The softmax along an axis."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Any) -> Tensor:
        return ops.softmax(x, self.axis)


class LogSoftmax(Softmax):
    """The logarithm of the softmax along an axis."""

    def construct(self, x: Any) -> Tensor:
        return ops.log_softmax(x, self.axis)


_BY_NAME: dict[str, type[Cell]] = {
    "celu": CELU,
    "elu": ELU,
    "fastgelu": FastGelu,
    "gelu": GELU,
    "glu": GLU,
    "hardtanh": Hardtanh,
    "hshrink": HShrink,
    "hsigmoid": HSigmoid,
    "hswish": HSwish,
    "leakyrelu": LeakyReLU,
    "logsigmoid": LogSigmoid,
    "logsoftmax": LogSoftmax,
    "mish": Mish,
    "prelu": PReLU,
    "relu": ReLU,
    "relu6": ReLU6,
    "rrelu": RReLU,
    "selu": SeLU,
    "sigmoid": Sigmoid,
    "silu": SiLU,
    "softmax": Softmax,
    "softmax2d": Softmax2d,
    "softmin": Softmin,
    "softplus": Softplus,
    "softshrink": SoftShrink,
    "softsign": Softsign,
    "swish": SiLU,
    "tanh": Tanh,
    "tanhshrink": Tanhshrink,
}


def get_activation(activation: Any) -> Cell | None:
    """The cell for a name such as "relu"; a cell or None as it is.

    Raises GraphValueError for an unknown name, GraphTypeError for any other object.
    """
    if isinstance(activation, str):
        if activation not in _BY_NAME:
            raise GraphKeyError(f"There is no activation {activation!r}{nearest(activation, _BY_NAME)}.")
        return _BY_NAME[activation]()
    if activation is not None and not isinstance(activation, Cell):
        raise GraphTypeError(f"An activation is a name or a cell, not {activation!r}.")
    return activation
