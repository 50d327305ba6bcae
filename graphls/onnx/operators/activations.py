"""Activations and softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.interpreter import Running
from graphls.onnx.table import operator, unary
from graphls.onnx.values import Input, Ints
from graphls.ops.gradients import with_gradient
from graphls.ops.operands import axis_of, tensor_of

unary({"Relu": ops.relu, "Sigmoid": ops.sigmoid, "Softsign": ops.softsign, "Mish": ops.mish})


@operator("Softplus")
def softplus(x: Input) -> Tensor:
    return ops.softplus(x, threshold=np.inf)


@operator("Elu")
def elu(x: Input, *, alpha: float = 1.0, consumed_inputs: Ints | None = None) -> Tensor:
    return ops.elu(x, alpha)


@operator("Celu")
def celu(x: Input, *, alpha: float = 1.0) -> Tensor:
    return ops.celu(x, alpha)


@operator("Selu")
def selu(x: Input, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Tensor:
    return ops.mul(ops.elu(x, alpha), gamma)


@operator("LeakyRelu")
def leaky_relu(x: Input, *, alpha: float = 0.01, consumed_inputs: Ints | None = None) -> Tensor:
    return ops.where(ops.less(x, 0), ops.mul(x, alpha), x)


@operator("PRelu", since=7)
def prelu(x: Input, slope: Input) -> Tensor:
    return ops.where(ops.less(x, 0), ops.mul(x, slope), x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Input, *, alpha: float = 1.0) -> Tensor:
    return ops.where(ops.greater(x, alpha), x, ops.zeros_like(x))


@operator("HardSigmoid")
def hard_sigmoid(x: Input, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Ints | None = None) -> Tensor:
    y: Tensor = ops.clip_by_value(x * alpha + beta, 0.0, 1.0)
    return y


@operator("HardSwish")
def hard_swish(x: Input) -> Tensor:
    return ops.mul(x, hard_sigmoid(x, alpha=1 / 6))


@operator("Swish")
def swish(x: Input, *, alpha: float = 1.0) -> Tensor:
    return ops.silu(x) if alpha == 1 else ops.mul(x, ops.sigmoid(x * alpha))


@operator("Gelu")
def gelu(x: Input, *, approximate: str = "none") -> Tensor:
    return ops.gelu(x, approximate)


@operator("Shrink")
def shrink(x: Input, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    zero = ops.zeros_like(x)
    return ops.where(ops.less(x, -lambd), x + bias, ops.where(ops.greater(x, lambd), x - bias, zero))


Normaliser: TypeAlias = Callable[[Input, int], Tensor]
"""A function of a tensor along an axis."""


def _declare(kind: str, function: Normaliser, of_hidden: Normaliser) -> None:
    """Declare an operator along an axis, computed by `of_hidden` where IsNaN or Where reads its result."""

    def chosen(node: Running) -> Normaliser:
        return of_hidden if node.is_read_by("IsNaN", "Where") else function

    @operator(kind)
    def of_rows(node: Running, x: Input, *, axis: int = 1) -> Tensor:
        return _by_rows(x, axis, chosen(node))

    @operator(kind, since=13)
    def along(node: Running, x: Input, *, axis: int = -1) -> Tensor:
        return chosen(node)(x, axis)


def _by_rows(x: Input, axis: int, function: Normaliser) -> Tensor:
    """A function over all axes from one on together, as these operators were defined until version 12."""
    at = axis_of(axis, x.ndim or 2)
    flat = ops.reshape(x, (prod(x.shape[:at]), prod(x.shape[at:])))
    return ops.reshape(function(flat, -1), x.shape)


def _hardmax(x: Input, axis: int) -> Tensor:
    x = tensor_of(x)
    if not x.size:
        return ops.zeros_like(x)
    return ops.cast(ops.one_hot(ops.argmax(x, axis), x.shape[axis], 1, 0, axis), x.dtype)


def softmax_of_hidden(x: Input, axis: int) -> Tensor:
    """Softmax whose gradient by elements of -inf is 0, also in rows of nothing else, whose softmax is nan.

    Such rows are queries that attend to nothing; exporters replace their softmax by something else behind it.
    """

    def gradient(x: Tensor, y: Tensor, sensitivity: Tensor) -> tuple[Tensor]:
        slope = y * (sensitivity - ops.sum(sensitivity * y, axis, True))
        return (ops.where(ops.equal(x, -np.inf), ops.zeros_like(slope), slope),)

    result: Tensor = with_gradient(lambda x: ops.softmax(x, axis), gradient, tensor_of(x))
    return result


_declare("Softmax", ops.softmax, softmax_of_hidden)
_declare("LogSoftmax", ops.log_softmax, ops.log_softmax)
_declare("Hardmax", _hardmax, _hardmax)
