"""Activation functions as cells."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.errors import GraphKeyError, GraphTypeError
from graphls.ir.registry import nearest
from graphls.nn.activations_hard import (
    Hardtanh,
    HShrink,
    HSigmoid,
    HSwish,
    LeakyReLU,
    PReLU,
    ReLU6,
    RReLU,
    SoftShrink,
)
from graphls.nn.activations_smooth import (
    CELU,
    ELU,
    GLU,
    FastGelu,
    LogSigmoid,
    Mish,
    SeLU,
    Softmax2d,
    Softmin,
    Softplus,
    Softsign,
    Tanhshrink,
)
from graphls.nn.cell import Cell
from graphls.tensors.tensor import Tensor

__all__ = ["GELU", "LogSoftmax", "ReLU", "SiLU", "Sigmoid", "Softmax", "Tanh", "get_activation"]


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
