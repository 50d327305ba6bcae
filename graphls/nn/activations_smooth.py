"""Activation functions as cells: those that bend smoothly, and those along an axis."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.nn.cell import Cell
from graphls.tensors.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GLU", "FastGelu", "LogSigmoid", "Mish", "SeLU", "Softmax2d", "Softmin", "Softplus", "Softsign",
    "Tanhshrink",
]  # fmt: skip


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
