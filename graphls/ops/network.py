"""Functions of neural networks: matrix products, activations, softmax, dropout."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ops.elementwise import add, erf, mul
from graphls.ops.operands import apply, axis_of, float_of, in_single, numbers, operand_of
from graphls.ops.random import check_probability, kept_or_zero
from graphls.ops.record import operation, operator_class
from graphls.ops.shapes import reshape, swapaxes
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor


@operation(symbol="matmul")
def matmul(x: Any, other: Any) -> Tensor:
    """The matrix product over the last two axes, broadcasting those before them.

    A vector counts as a row on the left and as a column on the right, and its axis of size 1 goes away again.
    Raises GraphValueError for numbers and for sizes that do not fit.
    """
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    if not x.ndim or not other.ndim:
        raise GraphValueError(f"matmul takes vectors and matrices, not {x.type} and {other.type}.")
    a = reshape(x, (1, -1)) if x.ndim == 1 else x
    b = reshape(other, (-1, 1)) if other.ndim == 1 else other
    y = apply("matmul", a, b)
    if x.ndim > 1 and other.ndim > 1:
        return y
    rows = () if x.ndim == 1 else y.shape[-2:-1]
    return reshape(y, (*y.shape[:-2], *rows, *(() if other.ndim == 1 else y.shape[-1:])))


@operation(classes="ReLU", in_place="relu_")
def relu(x: Any) -> Tensor:
    """The larger of x and 0."""
    return apply("relu", float_of(x))


@operation(classes="Sigmoid", in_place="sigmoid_")
def sigmoid(x: Any) -> Tensor:
    """The logistic function 1 / (1 + exp(-x))."""
    return apply("sigmoid", float_of(x))


@operation(classes="GeLU Gelu")
def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x times the normal distribution function at x; "tanh" approximates it (Hendrycks and Gimpel, 2016).

    Raises GraphValueError for another `approximate`.
    """
    if approximate not in ("none", "tanh"):
        raise GraphValueError(f"'approximate' is 'none' or 'tanh', not {approximate!r}.")
    return in_single(_gelu if approximate == "none" else _approximate_gelu, float_of(x))


def _gelu(x: Tensor) -> Tensor:
    return mul(mul(x, 0.5), add(erf(mul(x, math.sqrt(0.5))), 1.0))


def _approximate_gelu(x: Tensor) -> Tensor:
    """(1 + tanh(u)) / 2 is the logistic function of 2 * u, which stays exact far below 0.

    It is 0 or 1 from 12 on, so that the square may be bounded, where that of a large x would make the slope nan.
    """
    square = apply("minimum", *numbers(mul(x, x), 144.0), ties="first")
    return mul(x, sigmoid(mul(mul(x, add(mul(square, 0.044715), 1.0)), math.sqrt(8 / math.pi))))


@operation(names="swish")
def silu(x: Any) -> Tensor:
    """x * sigmoid(x)."""
    return in_single(lambda x: mul(x, sigmoid(x)), float_of(x))


@operation(classes="Softmax", settings="axis")
def softmax(x: Any, axis: int = -1) -> Tensor:
    """exp(x) divided by its sum along an axis."""
    x = float_of(x)
    return apply("softmax", x, axis=axis_of(axis, x.ndim))


@operation(classes="LogSoftmax", settings="axis")
def log_softmax(logits: Any, axis: int = -1) -> Tensor:
    """The logarithm of the softmax along an axis."""
    x = float_of(logits)
    return apply("log_softmax", x, axis=axis_of(axis, x.ndim))


@operation
def dropout(x: Any, p: float = 0.5, training: bool = True, seed: int | None = None) -> Tensor:
    """x with elements set to 0 with probability `p`, and the others divided by 1 - p; x itself unless `training`.

    In a compiled step the mask follows from `set_seed`, the step and the place in the program, and `seed` is not
    used. Raises GraphTypeError for a `p` that is no number, GraphValueError outside of [0, 1].
    """
    check_probability("dropout", p)
    tensor = float_of(x)
    if not training or p == 0:
        return tensor
    return kept_or_zero(tensor, p, tensor.shape, seed)


@operator_class("MatMul BatchMatMul", "transpose_a transpose_b")
def _matmul(x: Any, other: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """The matrix product over the last two axes, of which either operand's may be exchanged first."""
    x = swapaxes(x, -1, -2) if transpose_a else x
    return matmul(x, swapaxes(other, -1, -2) if transpose_b else other)
