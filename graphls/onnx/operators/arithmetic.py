"""Elementwise operators: arithmetic, comparisons, logic and elementary functions."""

from __future__ import annotations

from functools import reduce

import numpy as np

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.table import Binary, binary, operator, unary
from graphls.onnx.values import Input, OptionalInput, is_known
from graphls.ops.operands import apply, tensor_of

unary({
    "Abs": ops.abs, "Neg": ops.neg, "Sign": ops.sign, "Sqrt": ops.sqrt, "Exp": ops.exp, "Log": ops.log,
    "Erf": ops.erf, "Sin": ops.sin, "Cos": ops.cos, "Tan": ops.tan, "Asin": ops.asin, "Acos": ops.acos,
    "Atan": ops.atan, "Sinh": ops.sinh, "Cosh": ops.cosh, "Tanh": ops.tanh, "Asinh": ops.asinh, "Acosh": ops.acosh,
    "Atanh": ops.atanh, "Reciprocal": ops.reciprocal, "Not": ops.logical_not, "IsNaN": ops.isnan, "Det": ops.det,
    "Floor": ops.floor, "Ceil": ops.ceil, "Round": ops.round, "BitwiseNot": ops.invert, "Identity": lambda x: x,
})  # fmt: skip
binary({
    "Add": ops.add, "Sub": ops.sub, "Mul": ops.mul, "And": ops.logical_and, "Or": ops.logical_or,
    "Xor": ops.logical_xor, "Equal": ops.equal, "Less": ops.less, "LessOrEqual": ops.less_equal,
    "Greater": ops.greater, "GreaterOrEqual": ops.greater_equal, "BitwiseAnd": ops.bitwise_and,
    "BitwiseOr": ops.bitwise_or, "BitwiseXor": ops.bitwise_xor,
})  # fmt: skip


@operator("Div", since=7)
def div(x: Input, y: Input) -> Tensor:
    return ops.div(x, y) if tensor_of(x).dtype.is_float else apply("truncate_div", tensor_of(x), tensor_of(y))


@operator("Mod")
def mod(x: Input, y: Input, *, fmod: int = 0) -> Tensor:
    return ops.fmod(x, y) if fmod else ops.mod(x, y)


@operator("Pow", since=7)
def pow(x: Input, y: Input) -> Tensor:
    x, exponent = tensor_of(x), tensor_of(y)
    number = exponent.item() if is_known(exponent) and exponent.size == 1 and exponent.ndim <= x.ndim else None
    if x.dtype.is_float and number in (0.5, 1.0, 2.0):
        return x if number == 1 else ops.sqrt(x) if number == 0.5 else ops.square(x)
    if x.dtype.is_float or not exponent.dtype.is_float:
        return ops.pow(x, ops.cast(exponent, x.dtype))
    return ops.cast(ops.pow(ops.cast(x, exponent.dtype), exponent), x.dtype)


def _variadic(kind: str, function: Binary) -> None:
    @operator(kind)
    def rule(*xs: Input) -> Input:
        return reduce(function, xs)


for _kind in ("Max", "Min", "Sum"):
    _variadic(_kind, {"Max": ops.maximum, "Min": ops.minimum, "Sum": ops.add}[_kind])


@operator("Mean")
def mean(*xs: Input) -> Input:
    return reduce(ops.add, xs) / len(xs)


@operator("Clip")
def clip(x: Input, *, min: float = -np.inf, max: float = np.inf) -> Input:
    return _clipped(x, None if min == -np.inf else min, None if max == np.inf else max)


@operator("Clip", since=11)
def clip_between(x: Input, min: OptionalInput = None, max: OptionalInput = None) -> Input:
    return _clipped(x, min, max)


def _clipped(x: Input, low: Input | float | None, high: Input | float | None) -> Input:
    """Elements clipped with slope 1 on both bounds; where the bounds cross, the result is the upper one."""
    x = x if low is None else ops.clip_by_value(x, low, None)
    return x if high is None else ops.clip_by_value(x, None, high)


@operator("Where")
def where(condition: Input, x: Input, y: Input) -> Tensor:
    return ops.where(condition, x, y)


@operator("IsInf")
def isinf(x: Input, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if detect_negative and detect_positive:
        return ops.isinf(x)
    if detect_positive:
        return ops.isposinf(x)
    return ops.isneginf(x) if detect_negative else ops.zeros(tensor_of(x).shape, np.bool_)


@operator("BitShift")
def bit_shift(x: Input, y: Input, *, direction: str) -> Tensor:
    return (ops.bitwise_left_shift if direction == "LEFT" else ops.bitwise_right_shift)(x, y)
