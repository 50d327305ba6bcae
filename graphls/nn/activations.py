"""Activation cells that consist of more than one function, and activations by name."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.base.checks import positive_int
from graphls.base.errors import GraphKeyError, GraphTypeError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.registry import nearest
from graphls.nn.cell import Cell
from graphls.nn.functions import (
    CELU,
    ELU,
    GLU,
    FastGelu,
    Hardtanh,
    HShrink,
    HSigmoid,
    HSwish,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    ReLU6,
    SeLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    SoftShrink,
    Softsign,
    Tanh,
    Tanhshrink,
)  # fmt: skip
from graphls.nn.initializer import initializer
from graphls.ops.network.network import check_slopes

__all__ = ["GELU", "PReLU", "RReLU", "Threshold", "get_activation"]


class PReLU(Cell):
    """x where it is positive and a learned weight times x elsewhere: one weight, or one for each channel (axis 1).

    `w` is the first weight: a number, or a tensor or list of shape (channel,). Raises GraphTypeError and
    GraphValueError for anything else.
    """

    def __init__(self, channel: int = 1, w: float | list[float] | Tensor = 0.25) -> None:
        super().__init__()
        shape = (positive_int("PReLU", "channel", channel),)
        if isinstance(w, str):
            raise GraphTypeError("For 'PReLU', the 'w' only supported float, list and tensor, but got str.")
        self.w = Parameter(initializer(np.asarray(w) if isinstance(w, list) else w, shape), name="a")

    def construct(self, x: TensorLike) -> Tensor:
        return ops.prelu(x, self.w)


class RReLU(Cell):
    """x where it is positive, and elsewhere x times a number between `lower` and `upper`.

    In training the number is drawn for each element, else it is (lower + upper) / 2. MindSpore draws it always.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3) -> None:
        super().__init__()
        check_slopes("RReLU", lower, upper)
        self.lower, self.upper = lower, upper

    def construct(self, x: TensorLike) -> Tensor:
        return ops.rrelu(x, self.lower, self.upper, self.training)


class Threshold(Cell):
    """x where it is above `threshold` and `value` elsewhere."""

    def __init__(self, threshold: float, value: float) -> None:
        super().__init__()
        self.threshold, self.value = threshold, value

    def construct(self, x: TensorLike) -> Tensor:
        return ops.threshold(x, self.threshold, self.value)


class GELU(Cell):
    """x times the normal distribution function at x, by tanh where `approximate`."""

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        self.approximate = "tanh" if approximate else "none"

    def construct(self, x: TensorLike) -> Tensor:
        return ops.gelu(x, self.approximate)


_KINDS: tuple[type[Cell], ...] = (
    CELU, ELU, FastGelu, GELU, GLU, Hardtanh, HShrink, HSigmoid, HSwish, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU,
    ReLU, ReLU6, RReLU, SeLU, Sigmoid, SiLU, Softmax, Softmax2d, Softmin, Softplus, SoftShrink, Softsign, Tanh,
    Tanhshrink,
)  # fmt: skip
_BY_NAME = {kind.__name__.lower(): kind for kind in _KINDS} | {"swish": SiLU}


def get_activation(activation: str | Cell | None) -> Cell | None:
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
