"""Activations, softmax, and losses."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.interpreter import Running
from graphls.onnx.table import operator, unary
from graphls.ops.gradients import with_gradient
from graphls.ops.operands import axis_of, tensor_of

unary({"Relu": ops.relu, "Sigmoid": ops.sigmoid, "Softsign": ops.softsign, "Mish": ops.mish})


@operator("Softplus")
def softplus(x: Any) -> Any:
    return ops.softplus(x, threshold=np.inf)


@operator("Elu")
def elu(x: Any, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Any:
    return ops.elu(x, alpha)


@operator("Celu")
def celu(x: Any, *, alpha: float = 1.0) -> Any:
    return ops.celu(x, alpha)


@operator("Selu")
def selu(x: Any, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Any:
    return ops.mul(ops.elu(x, alpha), gamma)


@operator("LeakyRelu")
def leaky_relu(x: Any, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Any:
    return ops.where(ops.less(x, 0), ops.mul(x, alpha), x)


@operator("PRelu", since=7)
def prelu(x: Any, slope: Any) -> Any:
    return ops.where(ops.less(x, 0), ops.mul(x, slope), x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    return ops.where(ops.greater(x, alpha), x, ops.zeros_like(x))


@operator("HardSigmoid")
def hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None) -> Any:
    return ops.clip_by_value(x * alpha + beta, 0.0, 1.0)


@operator("HardSwish")
def hard_swish(x: Any) -> Any:
    return ops.mul(x, hard_sigmoid(x, alpha=1 / 6))


@operator("Swish")
def swish(x: Any, *, alpha: float = 1.0) -> Any:
    return ops.silu(x) if alpha == 1 else ops.mul(x, ops.sigmoid(x * alpha))


@operator("Gelu")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return ops.gelu(x, approximate)


@operator("Shrink")
def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    zero = ops.zeros_like(x)
    return ops.where(ops.less(x, -lambd), x + bias, ops.where(ops.greater(x, lambd), x - bias, zero))


def _declare(kind: str, function: Callable[[Any, int], Tensor], otherwise: Callable[[Any, int], Tensor]) -> None:
    """Declare an operator on rows; `otherwise` is what it is where what it gives is looked through for nan."""

    def chosen(node: Running) -> Callable[[Any, int], Tensor]:
        return otherwise if node.is_read_by("IsNaN", "Where") else function

    @operator(kind)
    def of_rows(node: Running, x: Any, *, axis: int = 1) -> Any:
        return _by_rows(x, axis, chosen(node))

    @operator(kind, since=13)
    def along(node: Running, x: Any, *, axis: int = -1) -> Any:
        return chosen(node)(x, axis)


def _by_rows(x: Any, axis: int, function: Callable[[Any, int], Tensor]) -> Any:
    """Until version 12, over all axes from one on together."""
    at = axis_of(axis, x.ndim or 2)
    flat = ops.reshape(x, (prod(x.shape[:at]), prod(x.shape[at:])))
    return ops.reshape(function(flat, -1), x.shape)


def _hardmax(x: Any, axis: int) -> Any:
    x = tensor_of(x)
    if not x.size:
        return ops.zeros_like(x)
    return ops.cast(ops.one_hot(ops.argmax(x, axis), x.shape[axis], 1, 0, axis), x.dtype)


def softmax_of_hidden(x: Any, axis: int) -> Tensor:
    """The softmax with no gradient by what is -inf, so also by rows that are nothing else, whose softmax is nan.

    Exporters put something else in place of such rows behind it: attention to nothing.
    """

    def gradient(x: Any, y: Any, sensitivity: Any) -> Any:
        slope = y * (sensitivity - ops.sum(sensitivity * y, axis, True))
        return (ops.where(ops.equal(x, -np.inf), ops.zeros_like(slope), slope),)

    found: Tensor = with_gradient(lambda x: ops.softmax(x, axis), gradient, tensor_of(x))
    return found


_declare("Softmax", ops.softmax, softmax_of_hidden)
_declare("LogSoftmax", ops.log_softmax, ops.log_softmax)
_declare("Hardmax", _hardmax, _hardmax)
