"""Elementwise functions of one float operand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import float64
from graphls.primitives.elementary import (
    ceiling,
    exponential,
    floor,
    log_of_one_plus,
    logarithm,
    logistic,
    square_root,
)
from graphls.primitives.emitter import Emitter
from graphls.primitives.in_double import cosine, error_function
from graphls.primitives.primitive import Array, FloatElementwise, f32, no_gradient, of, sample

_ANY = (sample(f32(2, 3)), sample(f32()), sample(f32(0, 2)))
_POSITIVE = (sample(f32(2, 3), low=0.5, high=2.0), sample(f32(), low=0.5, high=2.0))
_STEPS = (sample(f32(4, 5), low=-3.0, high=3.0, gradient=False),)


class Exp(FloatElementwise):
    """The exponential e ** x."""

    widened_at = ("auto",)
    session_from = 1 << 19
    samples = _ANY
    numpy = np.exp
    onnx = staticmethod(exponential)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, y)


class Log(FloatElementwise):
    """The natural logarithm; -inf at 0, nan below."""

    widened_at = ("auto",)
    samples = _POSITIVE
    numpy = np.log
    onnx = staticmethod(logarithm)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.div(g, x)


class Log1p(FloatElementwise):
    """The natural logarithm of 1 + x, exact to the last bits for a small x; -inf at -1, nan below."""

    widened_at = ("auto",)
    samples = (sample(f32(2, 3), low=-0.5, high=2.0), sample(f32(9), low=-1e-6, high=1e-6))
    numpy = np.log1p
    onnx = staticmethod(log_of_one_plus)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.div(g, e.add(x, 1.0))


class Tanh(FloatElementwise):
    """The hyperbolic tangent."""

    session_from = 1 << 19
    samples = _ANY
    onnx = "Tanh"
    numpy = np.tanh

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.sub(1.0, e.square(y)))


class Sigmoid(FloatElementwise):
    """The logistic function 1 / (1 + exp(-x))."""

    session_from = 1 << 17
    samples = (*_ANY, sample(of(float64, 5), low=-800.0, high=800.0, gradient=False))

    def numpy(self, x: Array) -> Array:
        small = np.exp(-np.abs(x))
        return np.asarray(np.exp(np.minimum(x, 0)) / (1 + small))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.mul(y, e.sub(1.0, y)))

    def onnx(self, e: Emitter, x: str) -> str:
        return logistic(e, x)


class Erf(FloatElementwise):
    """The error function."""

    session_from = 1 << 13
    samples = _ANY

    def numpy(self, x: Array) -> Array:
        return np.asarray(_erf(x), dtype=x.dtype)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        slope = e.mul(e.exp(e.neg(e.square(x))), 2 / math.sqrt(math.pi))
        return e.mul(g, slope)

    def onnx(self, e: Emitter, x: str) -> str:
        """The CPU's kernel returns 1 for nan, which the smaller of x and -1 restores."""
        if e.in_types[0].dtype is float64:
            return error_function(e, x)
        return e.Max(e.Erf(x), e.Min(x, e.scalar(-1.0)))


_erf = np.frompyfunc(math.erf, 1, 1)


class Sin(FloatElementwise):
    """The sine of an angle in radians."""

    samples = _ANY
    onnx = "Sin"
    numpy = np.sin

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.cos(x))


class Cos(FloatElementwise):
    """The cosine of an angle in radians."""

    samples = (*_ANY, sample(of(float64, 5)))
    numpy = np.cos

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.neg(e.mul(g, e.sin(x)))

    def onnx(self, e: Emitter, x: str) -> str:
        return cosine(e, x) if e.in_types[0].dtype is float64 else e.Cos(x)


class Rsqrt(FloatElementwise):
    """One over the square root; an infinity at 0, nan below."""

    widened_at = ("auto",)
    session_from = 1 << 19
    samples = _POSITIVE

    def numpy(self, x: Array) -> Array:
        return np.asarray(np.reciprocal(np.sqrt(x)))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(e.mul(g, -0.5), e.mul(y, e.square(y)))

    def onnx(self, e: Emitter, x: str) -> str:
        return e.Reciprocal(square_root(e, x))


class Floor(FloatElementwise):
    """The largest integer that is not above x; gradient zero."""

    half = "exact"
    samples = _STEPS
    numpy = np.floor
    onnx = staticmethod(floor)
    vjp = no_gradient


class Ceil(FloatElementwise):
    """The smallest integer that is not below x; gradient zero."""

    half = "exact"
    samples = _STEPS
    numpy = np.ceil
    onnx = staticmethod(ceiling)
    vjp = no_gradient


class Round(FloatElementwise):
    """The nearest integer, the even one of two; gradient zero."""

    half = "exact"
    samples = _STEPS
    onnx = "Round"
    numpy = np.rint
    vjp = no_gradient


class Relu(FloatElementwise):
    """The larger of x and 0, nan where x is; its gradient is 0 at 0."""

    half = "exact"
    lowered_at = ("O1",)
    session_from = 1 << 19
    samples = (sample(f32(2, 3), low=0.1), sample(f32(7), low=-2, high=-0.1), sample(f32(0, 2)))
    onnx = "Relu"

    def numpy(self, x: Array) -> Array:
        return np.maximum(x, np.zeros((), x.dtype))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.relu_gradient(g, y)


class ReluGradient(FloatElementwise):
    """The gradient g of a relu whose result was y: g * (y > 0)."""

    half = "exact"
    samples = (sample(f32(2, 3), f32(2, 3), low=0.1), sample(f32(4, 5), f32(4, 5), gradient=False))

    def numpy(self, g: Array, y: Array) -> Array:
        return g * (y > 0)

    def vjp(self, e: Builder, gg: Value, g: Value, y: Value, out: Value) -> Any:
        return e.relu_gradient(gg, y), None

    def onnx(self, e: Emitter, g: str, y: str) -> str:
        return e.Mul(g, e.cast(e.Greater(y, e.scalar(0.0)), e.in_types[0].dtype))


class Softplus(FloatElementwise):
    """log(1 + exp(x)), which does not overflow and is exact where it is tiny; its gradient is 1/2 at 0."""

    widened_at = ("auto",)
    session_from = 1 << 16
    samples = (
        sample(f32(2, 3)),
        sample(f32(0, 2)),
        sample(f32(2, 3), low=-30.0, high=-10.0),
        sample(of(float64, 5), low=10.0, high=800.0),
    )

    def numpy(self, x: Array) -> Array:
        return np.asarray(np.logaddexp(x, np.zeros((), x.dtype)))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.sigmoid(x))

    def onnx(self, e: Emitter, x: str) -> str:
        """max(x, 0) + log1p(exp(-abs(x))): the runtime's own kernel is 0 below -17."""
        return e.Add(e.Relu(x), log_of_one_plus(e, exponential(e, e.Neg(e.Abs(x)))))
