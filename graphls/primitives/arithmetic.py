"""Elementwise arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float16, float64, int16, int32, uint8
from graphls.primitives.elementary import square_root
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Elementwise, FloatElementwise, f32, no_gradient, sample

PAIRS = (
    sample(f32(2, 3), f32(2, 3)),
    sample(f32(2, 3), f32(3)),
    sample(f32(4, 1), f32(1, 3)),
    sample(f32(), f32(2, 0)),
)
INTEGERS = (
    sample(Type(int32, (5,)), Type(int32, (5,))),
    sample(Type(uint8, (9,)), Type(uint8, (9,)), integers=(0, 256)),
    sample(Type(int16, (9,)), Type(int16, (9,)), integers=(-(2**15), 2**15)),
)
_POSITIVE = (sample(f32(2, 3), f32(3), low=0.5, high=2.0), sample(f32(4, 1), f32(1, 3), low=0.5, high=2.0))


class Add(Elementwise):
    """The sum x + y, broadcasting; any numbers."""

    neutral = ((0, -0.0), (1, -0.0))
    integer_gradient = "whole"
    session_from = 1 << 19
    samples = PAIRS + INTEGERS
    onnx = "Add"
    numpy = np.add

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        return g, g


class Sub(Elementwise):
    """The difference x - y, broadcasting; any numbers."""

    neutral = ((1, 0.0),)
    integer_gradient = "whole"
    session_from = 1 << 19
    samples = PAIRS + INTEGERS
    onnx = "Sub"
    numpy = np.subtract

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        return g, e.neg(g)


class Mul(Elementwise):
    """The product x * y, broadcasting; any numbers."""

    neutral = ((0, 1.0), (1, 1.0))
    factors = (0, 1)
    integer_gradient = "whole"
    session_from = 1 << 19
    samples = PAIRS + INTEGERS
    onnx = "Mul"
    numpy = np.multiply

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        return e.mul(g, y), e.mul(g, x)


class Div(FloatElementwise):
    """The quotient x / y of floats, broadcasting; x / 0 is an infinity or nan."""

    neutral = ((1, 1.0),)
    factors = (0,)
    session_from = 1 << 19
    samples = _POSITIVE
    onnx = "Div"
    numpy = np.divide

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        gx = e.div(g, y)
        return gx, e.neg(e.mul(gx, out))


class Pow(FloatElementwise):
    """The power x ** y of floats, broadcasting; nan for a negative x with a broken y.

    The slope by y is nan below x = 0, where no neighbouring y has a power.
    """

    widened_at = ("auto",)
    neutral = ((1, 1.0),)
    samples = (*_POSITIVE, sample(f32(7), f32(7), low=-2.0, high=2.0, gradient=False))
    onnx = "Pow"
    numpy = np.power

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        """The slope of x ** 0 is 0 at x = 0, too, and that of 0 ** y by y is 0 for every y from 0 on.

        Other numbers in place of 0 come by arithmetic, as an exponent that stays one number has a quicker kernel, and a
        selection would take longer than both. The difference keeps the sign of -0.0.
        """
        dtype = x.type.dtype
        zero, smallest = e.constant(0.0, dtype), e.constant(6.2e-5 if dtype is float16 else 1.2e-38, dtype)
        has_pole = e.logical_and(e.less(e.abs(x), smallest), e.equal(y, zero))
        gx = e.mul(g, e.mul(y, e.pow(e.sub(x, e.cast(has_pole, dtype=dtype)), e.sub(y, 1.0))))
        safe = e.add(x, e.cast(e.logical_and(e.equal(x, zero), e.greater_equal(y, zero)), dtype=dtype))
        return gx, e.mul(g, e.mul(out, e.log(safe)))


class Neg(Elementwise):
    """The negative -x of signed numbers."""

    half = "exact"
    integer_gradient = "whole"
    samples = (sample(f32(2, 3)), sample(Type(int32, (5,))), sample(f32(0, 2)))
    onnx = "Neg"
    numpy = np.negative

    def vjp(self, e: Builder, g: Value, x: Value, out: Value) -> Any:
        return e.neg(g)


class Abs(Elementwise):
    """The absolute value; its gradient is sign(x), 0 at 0."""

    half = "exact"
    integer_gradient = "whole"
    samples = (sample(f32(2, 3), low=0.1), sample(f32(7), low=-2, high=-0.1), sample(Type(int32, (5,))))
    onnx = "Abs"
    numpy = np.abs

    def vjp(self, e: Builder, g: Value, x: Value, out: Value) -> Any:
        return e.mul(g, e.sign(x))


class Sign(Elementwise):
    """-1, 0 or 1 by the sign of x; gradient zero."""

    half = "exact"
    samples = (sample(f32(2, 3), gradient=False), sample(Type(int32, (5,))))
    numpy = np.sign
    vjp = no_gradient

    def onnx(self, e: Emitter, x: str) -> str:
        """A GPU's kernel makes 0 of a nan."""
        if not e.in_types[0].dtype.is_float or e.is_right("Sign"):
            return e.Sign(x)
        return e.Where(e.IsNaN(x), x, e.Sign(x))


class Square(Elementwise):
    """The square x * x."""

    integer_gradient = "whole"
    samples = (sample(f32(2, 3)), sample(Type(int32, (5,))))
    numpy = np.square

    def vjp(self, e: Builder, g: Value, x: Value, out: Value) -> Any:
        """2 g x: no array of 2 x is kept, but in float16 2 g overflows where a scaled loss leaves room for g alone."""
        return e.mul(g, e.mul(x, 2.0)) if x.type.dtype is float16 else e.mul(e.mul(g, 2.0), x)

    def onnx(self, e: Emitter, x: str) -> str:
        return e.Mul(x, x)


class Reciprocal(FloatElementwise):
    """One over x; an infinity at 0."""

    widened_at = ("auto",)
    session_from = 1 << 19
    samples = (sample(f32(2, 3), low=0.5, high=2.0),)
    onnx = "Reciprocal"
    numpy = np.reciprocal

    def vjp(self, e: Builder, g: Value, x: Value, out: Value) -> Any:
        return e.neg(e.mul(g, e.square(out)))


class Sqrt(FloatElementwise):
    """The square root; nan below 0."""

    samples = (sample(f32(2, 3), low=0.5, high=2.0), sample(Type(float64, (4,)), low=0.5, high=2.0))
    numpy = np.sqrt
    onnx = staticmethod(square_root)

    def vjp(self, e: Builder, g: Value, x: Value, out: Value) -> Any:
        return e.div(e.mul(g, 0.5), out)
