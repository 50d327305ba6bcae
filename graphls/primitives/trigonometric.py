"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import float16, float64
from graphls.primitives import elementary
from graphls.primitives.elementary import is_negative, with_sign_of
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, FloatElementwise, f32, of, sample

_ANY = (sample(f32(2, 3)), sample(f32()), sample(f32(0, 2)), sample(of(float64, 5)))
_INSIDE = (sample(f32(2, 3), low=-0.9, high=0.9), sample(f32(), low=-0.9, high=0.9), sample(f32(0, 2)))


class Composed(FloatElementwise, abstract=True):
    """A function whose ONNX operator, named as the class, takes float32 only, with its form in float64."""

    in_double: ClassVar[Callable[[Any, str], str]]

    def onnx(self, e: Emitter, x: str) -> str:
        if e.in_types[0].dtype is not float64:
            return e.operator(type(self).__name__, [x])
        return type(self).in_double(e, x)


class Sin(FloatElementwise):
    """The sine of an angle in radians."""

    samples = _ANY
    onnx = "Sin"
    numpy = np.sin

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.cos(x))


class Cos(Composed):
    """The cosine of an angle in radians."""

    samples = _ANY
    in_double = elementary.cosine
    numpy = np.cos

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.neg(e.mul(g, e.sin(x)))


class Tan(Composed):
    """The tangent of an angle in radians."""

    widened_at = ("auto",)
    samples = _ANY
    in_double = elementary.tangent
    numpy = np.tan

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.add(e.square(y), 1.0))


class Asin(Composed):
    """The angle from -pi / 2 to pi / 2 whose sine is x; nan outside of [-1, 1]."""

    widened_at = ("auto",)
    samples = _INSIDE
    in_double = elementary.arcsine
    numpy = np.arcsin

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.rsqrt(_one_minus_square(e, x)))


class Acos(Composed):
    """The angle from 0 to pi whose cosine is x; nan outside of [-1, 1]."""

    widened_at = ("auto",)
    samples = _INSIDE
    in_double = elementary.arccosine
    numpy = np.arccos

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.neg(e.mul(g, e.rsqrt(_one_minus_square(e, x))))


def _one_minus_square(e: Builder, x: Value) -> Any:
    """1 - x ** 2, exact near 1 and -1."""
    return e.mul(e.sub(1.0, x), e.add(x, 1.0))


class Atan(Composed):
    """The angle from -pi / 2 to pi / 2 whose tangent is x."""

    samples = _ANY
    in_double = elementary.arctangent
    numpy = np.arctan

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.div(g, e.add(e.square(x), 1.0))


class Atan2(FloatElementwise):
    """The angle from -pi to pi between the positive x axis and the point (x, y), broadcasting; y comes first."""

    samples = (
        sample(f32(2, 3), f32(2, 3)),
        sample(f32(4, 1), f32(1, 3), low=0.2),
        sample(f32(9), f32(), low=-1.0, high=-0.2),
        sample(f32(0, 3), f32(3)),
    )
    numpy = np.arctan2

    def vjp(self, e: Builder, g: Value, y: Value, x: Value, out: Value) -> Any:
        """x and -y over x ** 2 + y ** 2, scaled so that nothing above 1 is squared; 0 at (0, 0)."""
        size = e.maximum(e.abs(x), e.abs(y))
        is_zero = e.cast(e.equal(size, e.constant(0.0, size.type.dtype)), dtype=size.type.dtype)
        scale = _scale(e, e.add(size, is_zero))
        wide, high = e.div(x, scale), e.div(y, scale)
        share = e.div(g, e.add(e.add(e.square(wide), e.square(high)), is_zero))
        return e.div(e.mul(share, wide), scale), e.neg(e.div(e.mul(share, high), scale))

    def onnx(self, e: Emitter, y: str, x: str) -> str:
        """atan(|y| / |x|) in the right quadrant; the ratio of two infinities is 1, that of two zeros 0."""
        zero, high, wide = e.scalar(0.0), e.Abs(y), e.Abs(x)
        infinite = e.And(e.Equal(high, e.scalar(np.inf)), e.Equal(wide, e.scalar(np.inf)))
        ratio = e.Where(infinite, e.scalar(1.0), e.Div(high, wide))
        ratio = e.Where(e.And(e.Equal(high, zero), e.Equal(wide, zero)), zero, ratio)
        angle = elementary.arctangent(e, ratio) if e.in_types[0].dtype is float64 else e.Atan(ratio)
        angle = e.Where(is_negative(e, x), e.Sub(e.scalar(np.pi), angle), angle)
        return with_sign_of(e, y, angle)


def _scale(e: Builder, size: Value) -> Any:
    """A size as a finite number, constant in second derivatives."""
    dtype = size.type.dtype
    return e.stop_gradient(e.minimum(size, e.constant(6e4 if dtype is float16 else 1e30, dtype)))


class Sinh(Composed):
    """The hyperbolic sine."""

    widened_at = ("auto",)
    samples = _ANY
    in_double = elementary.hyperbolic_sine
    numpy = np.sinh

    def xla(self, jax: Any, x: Array) -> Any:
        size = abs(x)
        root = jax.numpy.exp(size * 0.5)
        large = jax.numpy.copysign(root * (root * 0.5) - 0.5 / root / root, x)
        return jax.numpy.where(size < 1, jax.numpy.sinh(x), large)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.cosh(x))


class Cosh(Composed):
    """The hyperbolic cosine."""

    widened_at = ("auto",)
    samples = _ANY
    in_double = elementary.hyperbolic_cosine
    numpy = np.cosh

    def xla(self, jax: Any, x: Array) -> Any:
        """By a root of the exponential, which does not overflow before the result: XLA loses 9 bits of a large one."""
        root = jax.numpy.exp(abs(x) * 0.5)
        return root * (root * 0.5) + 0.5 / root / root

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.sinh(x))


class Asinh(Composed):
    """The number whose hyperbolic sine is x."""

    samples = _ANY
    in_double = elementary.area_hyperbolic_sine
    numpy = np.arcsinh

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        """1 / sqrt(x ** 2 + 1), scaled so that nothing above 1 is squared."""
        scale = _scale(e, e.maximum(e.abs(x), e.constant(1.0, x.type.dtype)))
        length = e.sqrt(e.add(e.square(e.div(x, scale)), e.square(e.reciprocal(scale))))
        return e.div(e.div(g, scale), length)


class Acosh(Composed):
    """The non-negative number whose hyperbolic cosine is x; nan below 1."""

    samples = (sample(f32(2, 3), low=1.2, high=3.0), sample(f32(), low=1.2, high=3.0), sample(f32(0, 2)))
    in_double = elementary.area_hyperbolic_cosine
    numpy = np.arccosh

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.mul(e.rsqrt(e.sub(x, 1.0)), e.rsqrt(e.add(x, 1.0))))


class Atanh(Composed):
    """The number whose hyperbolic tangent is x; an infinity at -1 and 1, nan beyond."""

    samples = _INSIDE
    in_double = elementary.area_hyperbolic_tangent
    numpy = np.arctanh

    def xla(self, jax: Any, x: Array) -> Any:
        """By a logarithm of numbers above 1, of which XLA loses none of the bits."""
        size = abs(x)
        return jax.numpy.copysign(0.5 * jax.numpy.log1p(2 * size / (1 - size)), x)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.div(g, _one_minus_square(e, x))
