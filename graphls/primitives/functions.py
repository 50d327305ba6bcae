"""Elementwise functions of floats: exponentials, logarithms, roots, rounding, activations, error functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import float64
from graphls.primitives.elementary import (
    ceiling,
    complementary_error_function,
    error_function,
    exponential,
    exponential_minus_one,
    floor,
    gaussian,
    inverse_error_function,
    log_of_one_plus,
    logarithm,
    logistic,
    polynomial,
    square_root,
)
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import namespace
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

    def xla(self, jax: Any, x: Array) -> Any:
        """XLA loses 7 bits of a negative float64."""
        if x.dtype != np.float64:
            return jax.numpy.log1p(x)
        is_negative = (x < 0) & (x >= -1)
        y = jax.numpy.log1p(jax.numpy.where(is_negative, -x / (1 + x), x))
        return jax.numpy.where(is_negative, -y, y)
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

    def numpy(self, x: Array) -> Any:
        xp = namespace(x)
        small = xp.exp(-abs(x))
        return xp.exp(xp.minimum(x, 0)) / (1 + small)

    def xla(self, jax: Any, x: Array) -> Any:
        """One exponential in place of two."""
        return jax.lax.logistic(x)

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

    def xla(self, jax: Any, x: Array) -> Any:
        return jax.lax.erf(x)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        slope = e.mul(e.exp(e.neg(e.square(x))), 2 / math.sqrt(math.pi))
        return e.mul(g, slope)

    def onnx(self, e: Emitter, x: str) -> str:
        """The CPU's kernel returns 1 for nan, which the smaller of x and -1 restores."""
        if e.in_types[0].dtype is float64:
            return error_function(e, x)
        return e.Max(e.Erf(x), e.Min(x, e.scalar(-1.0)))


_erf = np.frompyfunc(math.erf, 1, 1)


class Rsqrt(FloatElementwise):
    """One over the square root; an infinity at 0, nan below."""

    widened_at = ("auto",)
    session_from = 1 << 19
    samples = _POSITIVE

    def numpy(self, x: Array) -> Any:
        xp = namespace(x)
        return xp.reciprocal(xp.sqrt(x))

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

    def numpy(self, x: Array) -> Any:
        return namespace(x).maximum(x, np.zeros((), x.dtype))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.relu_gradient(g, y)


class ReluGradient(FloatElementwise):
    """The gradient g of a relu whose result was y: g * (y > 0)."""

    half = "exact"
    samples = (sample(f32(2, 3), f32(2, 3), low=0.1), sample(f32(4, 5), f32(4, 5), gradient=False))

    def numpy(self, g: Array, y: Array) -> Array:
        return g * (y > 0)

    def xla(self, jax: Any, g: Array, y: Array) -> Any:
        """The product itself, which is nan for an infinite g: XLA would make a selection of one with a bool."""
        return g * jax.numpy.where(y > 0, np.ones((), g.dtype), np.zeros((), g.dtype))

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

    def numpy(self, x: Array) -> Any:
        return namespace(x).logaddexp(x, np.zeros((), x.dtype))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.sigmoid(x))

    def onnx(self, e: Emitter, x: str) -> str:
        """max(x, 0) + log1p(exp(-abs(x))): the runtime's own kernel is 0 below -17."""
        return e.Add(e.Relu(x), log_of_one_plus(e, exponential(e, e.Neg(e.Abs(x)))))


class Expm1(FloatElementwise):
    """exp(x) - 1, exact to the last bits for a small x."""

    widened_at = ("auto",)
    samples = (*_ANY, sample(f32(9), low=-1e-6, high=1e-6))
    numpy = np.expm1
    onnx = staticmethod(exponential_minus_one)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.exp(x))


class Logaddexp(FloatElementwise):
    """log(exp(x) + exp(y)), broadcasting, without overflow; equal infinities share the gradient."""

    is_commutative = True
    session_from = 1 << 16
    samples = (
        sample(f32(2, 3), f32(3)),
        sample(f32(4, 1), f32(1, 3), low=-80.0, high=80.0, gradient=False),
        sample(f32(0, 3), f32()),
    )
    numpy = np.logaddexp

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        """The logistic function of the difference, which is 0 for equal infinities."""
        infinite = e.equal(e.abs(x), e.constant(math.inf, x.type.dtype))
        both, zero = e.logical_and(infinite, e.equal(x, y)), e.constant(0.0, x.type.dtype)
        difference = e.sub(e.where(both, zero, x), e.where(both, zero, y))
        return e.mul(g, e.sigmoid(difference)), e.mul(g, e.sigmoid(e.neg(difference)))

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        """The larger one plus log1p(exp(-distance)), exact for small results."""
        distance = e.Where(e.Equal(x, y), e.scalar(0.0), e.Abs(e.Sub(x, y)))
        return e.Add(e.Max(x, y), log_of_one_plus(e, exponential(e, e.Neg(distance))))


_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
    -1.26551223,
)  # fmt: skip
"""The exponent of erfc(x) / t plus x ** 2, as a polynomial in t (Press et al., Numerical Recipes, 6.2)."""


class Erfc(FloatElementwise):
    """1 - erf(x), exact where it is tiny."""

    session_from = 1 << 13
    samples = (*_ANY, sample(f32(40), low=-6.0, high=9.0, gradient=False))

    def numpy(self, x: Array) -> Array:
        return np.asarray(_erfc(x), dtype=x.dtype)

    def xla(self, jax: Any, x: Array) -> Any:
        return jax.lax.erfc(x)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        slope = e.mul(e.exp(e.neg(e.square(x))), -2 / math.sqrt(math.pi))
        return e.mul(g, slope)

    def onnx(self, e: Emitter, x: str) -> str:
        if e.in_types[0].dtype is float64:
            return complementary_error_function(e, x)
        size = e.Min(e.Abs(x), e.scalar(30.0))
        t = e.Reciprocal(e.Add(e.Mul(size, e.scalar(0.5)), e.scalar(1.0)))
        tail = e.Mul(e.Mul(t, e.Exp(polynomial(e, t, _ERFC))), gaussian(e, size))
        folded = e.Where(e.Less(x, e.scalar(0.0)), e.Sub(e.scalar(2.0), tail), tail)
        return e.Where(e.Equal(x, x), folded, x)


_erfc = np.frompyfunc(math.erfc, 1, 1)


_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
"""erfinv(x) / x as polynomials in w - 2.5 for w = -log(1 - x ** 2) below 5, and in sqrt(w) - 3 (M. Giles, 2010)."""


class Erfinv(FloatElementwise):
    """The number whose error function is x; infinite at -1 and 1, nan beyond."""

    widened_at = ("auto",)
    session_from = 1 << 13
    samples = (sample(f32(2, 3), low=-0.9, high=0.9), sample(f32(40), low=-0.9999, high=0.9999, gradient=False))

    def numpy(self, x: Array) -> Array:
        """Giles's approximation, then two steps of Newton's method in float64, near 1 by the residual of erfc."""
        size = np.abs(x.astype(np.float64))
        y = _approximate_erfinv(size)
        for _ in range(2):
            residual = np.where(size < 0.5, _array(_erf(y)) - size, 1 - size - _array(_erfc(y)))
            y = y - residual * (math.sqrt(math.pi) / 2 * np.exp(y * y))
        return np.asarray(np.copysign(np.where(size == 1, np.inf, y), x), x.dtype)

    def xla(self, jax: Any, x: Array) -> Any:
        return jax.lax.erf_inv(x)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.mul(e.exp(e.square(y)), math.sqrt(math.pi) / 2))

    def onnx(self, e: Emitter, x: str) -> str:
        one = e.scalar(1.0)
        w = e.Neg(e.Log(e.Mul(e.Sub(one, x), e.Add(one, x))))
        centre = polynomial(e, e.Sub(w, e.scalar(2.5)), _CENTRE)
        tail = polynomial(e, e.Sub(e.Sqrt(e.Max(w, e.scalar(1.0))), e.scalar(3.0)), _TAIL)
        y = e.Mul(x, e.Where(e.Less(w, e.scalar(5.0)), centre, tail))
        if e.in_types[0].dtype is float64:
            return inverse_error_function(e, x, y)
        return e.Where(e.Equal(e.Abs(x), one), e.Mul(x, e.scalar(np.inf)), y)


def _array(values: Any) -> Array:
    return np.asarray(values, np.float64)


def _approximate_erfinv(x: Array) -> Array:
    w = -np.log((1 - x) * (1 + x))
    centre, tail = np.polyval(_CENTRE, w - 2.5), np.polyval(_TAIL, np.sqrt(np.maximum(w, 1)) - 3)
    return np.asarray(x * np.where(w < 5, centre, tail))
