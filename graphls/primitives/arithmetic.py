"""Elementwise arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float16, float64, int16, int32, int64, uint8
from graphls.primitives.elementary import floor, square_root, with_sign_of
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Elementwise, FloatElementwise, f32, no_gradient, of, sample

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

    is_commutative = True
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

    is_commutative = True
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
    """The power x ** y of floats, broadcasting; nan for a negative x where y is not an integer.

    The slope by y is nan below x = 0, where no neighbouring y has a power.
    """

    widened_at = ("auto",)
    neutral = ((1, 1.0),)
    samples = (*_POSITIVE, sample(f32(7), f32(7), low=-2.0, high=2.0, gradient=False))
    onnx = "Pow"
    numpy = np.power

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        """The slope of x ** 0 is 0 at x = 0 too, and that of 0 ** y by y is 0 for every y >= 0.

        Arithmetic replaces 0 by other numbers: an exponent that stays a scalar has a faster kernel, and a selection
        would take longer than both. The difference keeps the sign of -0.0.
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
        """Restores nan, of which a GPU's kernel makes 0."""
        if not e.in_types[0].dtype.is_float or e.is_right("Sign"):
            return e.Sign(x)
        return e.Where(e.IsNaN(x), x, e.Sign(x))


class Square(Elementwise):
    """The square x * x."""

    integer_gradient = "whole"
    samples = (sample(f32(2, 3)), sample(Type(int32, (5,))))
    numpy = np.square

    def vjp(self, e: Builder, g: Value, x: Value, out: Value) -> Any:
        """2 g x: no array of 2 x is stored, but in float16 2 g overflows where a scaled loss leaves room for g only."""
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


_QUOTIENTS = (
    sample(f32(2, 3), f32(3), low=0.6, high=1.9, gradient=False),
    sample(of(int32, 9), of(int32, 9), integers=(1, 9)),
    sample(of(int32, 5, 9), of(int32, 9), integers=(-4, 5)),
    sample(of(int64, 40), of(int64, 40), integers=(-2, 3)),
)


class FloorDiv(Elementwise):
    """The quotient x / y rounded down, broadcasting; any numbers, an integer by 0 is 0; gradient zero."""

    samples = _QUOTIENTS
    vjp = no_gradient

    def numpy(self, x: Array, y: Array) -> Array:
        return np.floor(x / y) if x.dtype.kind == "f" else x // y

    def xla(self, jax: Any, x: Array, y: Array) -> Any:
        if x.dtype.kind == "f":
            return jax.numpy.floor(x / as_wide(jax, x, y))
        return _unless_by_zero(jax, x // y, y)

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        if e.in_types[0].dtype.is_float:
            return floor(e, e.Div(x, y))
        zero, divisor = e.scalar(0), _safe(e, y)
        quotient = e.Div(x, divisor)
        remainder = e.Sub(x, e.Mul(quotient, divisor))
        differs = e.Xor(e.Less(remainder, zero), e.Less(divisor, zero))
        is_above = e.And(differs, e.Not(e.Equal(remainder, zero)))
        return _of_integers(e, x, y, e.Sub(quotient, e.cast(is_above, e.in_types[0].dtype)))


class TruncateDiv(Elementwise):
    """The quotient x / y rounded towards 0, broadcasting; any numbers, an integer by 0 is 0; gradient zero."""

    samples = _QUOTIENTS
    vjp = no_gradient

    def numpy(self, x: Array, y: Array) -> Any:
        if x.dtype.kind == "f":
            return np.asarray(np.trunc(x / y))
        quotient = np.floor_divide(x, y)
        has_remainder = (np.fmod(x, y) != 0) & (y != 0)
        return np.asarray(quotient + ((x < 0) != (y < 0)) * has_remainder.astype(x.dtype), x.dtype)

    def xla(self, jax: Any, x: Array, y: Array) -> Any:
        if x.dtype.kind == "f":
            return jax.numpy.trunc(x / as_wide(jax, x, y))
        return _unless_by_zero(jax, jax.lax.div(*jax.numpy.broadcast_arrays(x, y)), y)

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        if not e.in_types[0].dtype.is_float:
            return _of_integers(e, x, y, e.Div(x, _safe(e, y)))
        quotient = e.Div(x, y)
        return with_sign_of(e, quotient, e.Floor(e.Abs(quotient)))


class Mod(Elementwise):
    """The remainder with the sign of the divisor (Python's %), broadcasting; any numbers, 0 of an integer by 0."""

    is_remainder = True
    integer_gradient = "whole"
    samples = _QUOTIENTS
    numpy = np.mod

    def xla(self, jax: Any, x: Array, y: Array) -> Any:
        return _unless_by_zero(jax, jax.numpy.mod(x, y), y)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        """The quotient of a number by an infinity of the opposite sign is -1; float division would give -0.0."""
        quotient = e.floor_div(x, y)
        if x.type.dtype.is_float:
            is_infinite = e.equal(e.abs(out), e.constant(np.inf, x.type.dtype))
            quotient = e.where(is_infinite, e.constant(-1.0, x.type.dtype), quotient)
        return g, e.neg(e.mul(g, quotient))

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        if not e.in_types[0].dtype.is_float:
            divisor = _safe(e, y)
            return e.Where(e.Equal(divisor, y), e.Mod(x, divisor), e.scalar(0))
        remainder, zero = e.Mod(x, y, fmod=1), e.scalar(0.0)
        opposite = e.Less(e.Mul(e.Sign(remainder), e.Sign(y)), zero)
        return e.Where(opposite, e.Add(remainder, y), remainder)


class Fmod(Elementwise):
    """The remainder of x / y with the quotient rounded towards 0, so with the sign of x, broadcasting; any numbers."""

    is_remainder = True
    samples = (
        sample(f32(2, 3), f32(3), low=0.6, high=1.9, gradient=False),
        sample(f32(40), f32(40), low=-3.0, high=3.0, gradient=False),
        sample(f32(0, 3), f32(3)),
        sample(of(int32, 40), of(int32, 40), integers=(-4, 5)),
    )
    numpy = np.fmod

    def xla(self, jax: Any, x: Array, y: Array) -> Any:
        return _unless_by_zero(jax, jax.numpy.fmod(x, y), y)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        ratio = e.div(x, y)
        quotient = e.mul(e.sign(ratio), e.floor(e.abs(ratio)))
        return g, e.neg(e.mul(g, quotient))

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        if e.in_types[0].dtype.is_float:
            return e.Mod(x, y, fmod=1)
        divisor = _safe(e, y)
        remainder = e.Sub(x, e.Mul(e.Div(x, divisor), divisor))  # the kernel of Mod divides as doubles
        return e.Where(e.Equal(divisor, y), remainder, e.scalar(0))


def as_wide(jax: Any, x: Array, y: Array) -> Any:
    """A divisor in the shape of the quotient: by a broadcast one, XLA multiplies by its reciprocal, rounded twice."""
    return jax.lax.optimization_barrier(jax.numpy.broadcast_to(y, np.broadcast_shapes(x.shape, y.shape)))


def _unless_by_zero(jax: Any, result: Array, y: Array) -> Any:
    """A quotient or remainder by y, of integers 0 where y is, for which XLA has -1 or the dividend."""
    return result if y.dtype.kind == "f" else jax.numpy.where(y == 0, np.zeros((), y.dtype), result)


def _of_integers(e: Emitter, x: str, y: str, quotient: str) -> str:
    """An integer quotient from that by the safe divisor: -x by -1, and 0 by 0."""
    zero, minus_one = e.scalar(0), e.scalar(-1)
    return e.Where(e.Equal(y, zero), zero, e.Where(e.Equal(y, minus_one), e.Neg(x), quotient))


def _safe(e: Emitter, y: str) -> str:
    """An integer divisor, with 1 in place of 0 and -1: processors trap on x / 0 and on the least integer by -1."""
    one = e.scalar(1)
    return e.Where(e.Or(e.Equal(y, e.scalar(0)), e.Equal(y, e.scalar(-1))), one, y)
