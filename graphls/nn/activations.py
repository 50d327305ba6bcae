"""Activation functions as cells."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.checks import positive_int
from graphls.ir.errors import GraphKeyError, GraphTypeError
from graphls.ir.registry import nearest
from graphls.nn.cell import Cell
from graphls.nn.function_cells import FunctionCell
from graphls.ops.network import check_slopes
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "FastGelu", "HShrink", "HSigmoid", "HSwish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SeLU", "SiLU", "Sigmoid", "SoftShrink", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softsign", "Tanh", "Tanhshrink", "Threshold", "get_activation",
]  # fmt: skip


# -- those made of straight lines -----------------------------------------------------------------------------


class ReLU(FunctionCell, function=ops.relu):
    """The larger of x and 0."""


class ReLU6(FunctionCell, function=ops.relu6):
    """x, at least 0 and at most 6."""


class LeakyReLU(FunctionCell, function=ops.leaky_relu):
    """x where it is positive and alpha * x elsewhere."""

    alpha: float = 0.2


class PReLU(Cell):
    """x where it is positive and a learned weight times x elsewhere: one weight, or one for each channel (axis 1).

    `w` is the first weight: a number, or a tensor or list of shape (channel,). Raises GraphTypeError and
    GraphValueError for anything else.
    """

    def __init__(self, channel: int = 1, w: TensorLike = 0.25) -> None:
        super().__init__()
        shape = (positive_int("PReLU", "channel", channel),)
        if isinstance(w, str):
            raise GraphTypeError("For 'PReLU', the 'w' only supported float, list and tensor, but got str.")
        self.w = Parameter(initializer(np.asarray(w) if isinstance(w, list) else w, shape), name="a")

    def construct(self, x: TensorLike) -> Tensor:
        return ops.prelu(x, self.w)


class RReLU(FunctionCell, function=ops.rrelu):
    """x where it is positive, and elsewhere x times a number between `lower` and `upper`.

    In training the number is drawn for each element, else it is (lower + upper) / 2. MindSpore draws it always.
    """

    lower: float = 1 / 8
    upper: float = 1 / 3

    def _settle(self) -> None:
        check_slopes("RReLU", self.lower, self.upper)

    def construct(self, x: TensorLike) -> Tensor:
        return ops.rrelu(x, self.lower, self.upper, self.training)


class HSigmoid(FunctionCell, function=ops.hardsigmoid):
    """(x + 3) / 6, at least 0 and at most 1."""


class HSwish(FunctionCell, function=ops.hardswish):
    """x * hardsigmoid(x)."""


class Hardtanh(FunctionCell, function=ops.hardtanh):
    """x, at least `min_val` and at most `max_val`."""

    min_val: float = -1.0
    max_val: float = 1.0


class HShrink(FunctionCell, function=ops.hardshrink):
    """x where its absolute value is above `lambd` and 0 elsewhere."""

    lambd: float = 0.5


class SoftShrink(HShrink, function=ops.softshrink):
    """x moved towards 0 by `lambd`, and 0 where it would pass it."""


class Threshold(FunctionCell, function=ops.threshold):
    """x where it is above `threshold` and `value` elsewhere."""

    threshold: float
    value: float

    def construct(self, x: TensorLike) -> Tensor:
        return ops.threshold(x, self.threshold, self.value)


# -- those that bend smoothly ---------------------------------------------------------------------------------


class Sigmoid(FunctionCell, function=ops.sigmoid):
    """The logistic function."""


class Tanh(FunctionCell, function=ops.tanh):
    """The hyperbolic tangent."""


class GELU(Cell):
    """x times the normal distribution function at x, by tanh where `approximate`."""

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        self.approximate = "tanh" if approximate else "none"

    def construct(self, x: TensorLike) -> Tensor:
        return ops.gelu(x, self.approximate)


class FastGelu(FunctionCell, function=ops.fast_gelu):
    """x * sigmoid(1.702 * x)."""


class SiLU(FunctionCell, function=ops.silu):
    """x * sigmoid(x)."""


class ELU(FunctionCell, function=ops.elu):
    """x where it is positive and alpha * (exp(x) - 1) elsewhere."""

    alpha: float = 1.0


class CELU(ELU, function=ops.celu):
    """x where it is positive and alpha * (exp(x / alpha) - 1) elsewhere."""


class SeLU(FunctionCell, function=ops.selu):
    """The elu that keeps mean 0 and variance 1."""


class Mish(FunctionCell, function=ops.mish):
    """x * tanh(log(1 + exp(x)))."""


class Softplus(FunctionCell, function=ops.softplus):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold."""

    beta: float = 1
    threshold: float = 20


class Softsign(FunctionCell, function=ops.softsign):
    """x / (1 + abs(x))."""


class LogSigmoid(FunctionCell, function=ops.logsigmoid):
    """The logarithm of the logistic function."""


class Tanhshrink(FunctionCell, function=ops.tanhshrink):
    """x - tanh(x)."""


# -- those along an axis --------------------------------------------------------------------------------------


class Softmax(FunctionCell, function=ops.softmax):
    """The softmax along an axis."""

    axis: int = -1


class LogSoftmax(Softmax, function=ops.log_softmax):
    """The logarithm of the softmax along an axis."""


class Softmin(FunctionCell, function=ops.softmin):
    """The softmax of -x along an axis."""

    axis: int = -1


class Softmax2d(FunctionCell, function=ops.softmax2d):
    """The softmax over the channels of images (N, C, H, W) or (C, H, W)."""


class GLU(FunctionCell, function=ops.glu):
    """a * sigmoid(b) for the two halves a and b of x along an axis."""

    axis: int = -1


_KINDS: tuple[type[Cell], ...] = (
    CELU, ELU, FastGelu, GELU, GLU, Hardtanh, HShrink, HSigmoid, HSwish, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU,
    ReLU, ReLU6, RReLU, SeLU, Sigmoid, SiLU, Softmax, Softmax2d, Softmin, Softplus, SoftShrink, Softsign, Tanh,
    Tanhshrink,
)  # fmt: skip
_BY_NAME = {kind.__name__.lower(): kind for kind in _KINDS} | {"swish": SiLU}


def get_activation(activation: object) -> Cell | None:
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
