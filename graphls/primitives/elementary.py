"""Elementary functions as ONNX operators, correct where a runtime's own kernel is not."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from graphls.ir.types import float32, float64
from graphls.primitives.emitter import Emitter


def square_root(e: Emitter, x: str) -> str:
    """The square root; by way of float64, whose kernel is another one, if that of float32 is wrong."""
    if e.in_types[0].dtype is float64 or e.is_right("Sqrt"):
        return e.Sqrt(x)
    return e.cast(e.Sqrt(e.cast(x, float64)), e.in_types[0].dtype)


def exponential(e: Emitter, x: str) -> str:
    """e ** x; where the kernel of float64 does not reach 0, the square of exp(x / 2)."""
    if e.is_right("Exp"):
        return e.Exp(x)
    half = e.Exp(e.Mul(x, e.scalar(0.5)))
    return e.Where(e.Less(x, e.scalar(-700.0)), e.Mul(half, half), e.Exp(x))


def logarithm(e: Emitter, x: str) -> str:
    """The natural logarithm; where the kernel is wrong for denormal numbers, by that of a multiple of them.

    Without a Where, which is ten times as slow when it selects from tensors.
    """
    if e.is_right("Log"):
        return e.Log(x)
    dtype, powers = e.in_types[0].dtype, 64
    is_tiny = e.cast(e.Less(x, e.scalar(float(np.finfo(dtype.numpy).tiny))), dtype)
    multiple = e.Mul(x, e.Add(e.Mul(is_tiny, e.scalar(2.0**powers)), e.scalar(1.0)))
    return e.Sub(e.Log(multiple), e.Mul(is_tiny, e.scalar(powers * math.log(2))))


def log_of_one_plus(e: Emitter, x: str) -> str:
    """The ONNX log1p: x * log(u) / (u - 1) with u = 1 + x corrects the rounding of u (W. Kahan)."""
    one = e.scalar(1.0)
    u = e.Add(x, one)
    is_itself = e.Or(e.Equal(u, one), e.Equal(x, e.scalar(math.inf)))
    return e.Mul(x, e.Where(is_itself, one, e.Div(e.Log(u), e.Sub(u, one))))


def exponential_minus_one(e: Emitter, x: str) -> str:
    """The ONNX expm1: x * (u - 1) / log(u) with u = exp(x) corrects the rounding of u (W. Kahan)."""
    one, u = e.scalar(1.0), exponential(e, x)
    less = e.Sub(u, one)
    near = e.Mul(x, e.Where(e.Equal(u, one), one, e.Div(less, e.Log(u))))
    is_far = e.Or(e.Equal(less, e.scalar(-1.0)), e.Greater(u, e.scalar(1e4)))
    return e.Where(is_far, less, near)


def logistic(e: Emitter, x: str) -> str:
    """u / (1 + u) with u = exp(x), exact where it is tiny, unlike kernels that compute 1 - something there.

    x is clipped at 40, from where the result is 1 in every dtype. In 16 bits, and in other runtimes than ONNX Runtime,
    a kernel may be as exact.
    """
    dtype = e.in_types[0].dtype
    if (dtype.is_half or not (e.runs_as_written or e.is_gpu)) and e.is_right("Sigmoid"):
        return e.Sigmoid(x)
    u = exponential(e, e.Min(x, e.scalar(40.0)))
    return e.Softsign(u) if dtype is float32 else e.Div(u, e.Add(u, e.scalar(1.0)))


def floor(e: Emitter, x: str) -> str:
    """The integer below; where the kernel loses the sign of zero, by the nearest one, whose kernel does not."""
    if e.is_right("Floor"):
        return e.Floor(x)
    nearest = e.Round(x)
    return e.Sub(nearest, e.cast(e.Greater(nearest, x), e.in_types[0].dtype))


def ceiling(e: Emitter, x: str) -> str:
    """The integer above, with the sign of x where it is zero."""
    return e.Ceil(x) if e.is_right("Ceil") else e.Neg(floor(e, e.Neg(x)))


def with_sign_of(e: Emitter, x: str, size: str) -> str:
    """A non-negative number with the sign of x, for odd functions."""
    return e.Mul(size, e.Where(is_negative(e, x), e.scalar(-1.0), e.scalar(1.0)))


def is_negative(e: Emitter, x: str) -> str:
    """True where the sign bit is set, also for -0.0."""
    zero = e.scalar(0.0)
    return e.Or(e.Less(x, zero), e.Less(e.Reciprocal(x), zero))


def polynomial(e: Emitter, x: str, coefficients: Iterable[float]) -> str:
    """A polynomial by Horner's rule; the coefficient of the highest power comes first."""
    first, *others = coefficients
    result = e.scalar(first)
    for coefficient in others:
        result = e.Add(e.Mul(result, x), e.scalar(coefficient))
    return str(result)
