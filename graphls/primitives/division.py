"""Division with a whole quotient, and what it leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import int32, int64
from graphls.primitives.elementary import floor, with_sign_of
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Elementwise, f32, no_gradient, of, sample

_SAMPLES = (
    sample(f32(2, 3), f32(3), low=0.6, high=1.9, gradient=False),
    sample(of(int32, 9), of(int32, 9), integers=(1, 9)),
    sample(of(int32, 5, 9), of(int32, 9), integers=(-4, 5)),
    sample(of(int64, 40), of(int64, 40), integers=(-2, 3)),
)


class FloorDiv(Elementwise):
    """The quotient x / y rounded down, broadcasting; any numbers, an integer by 0 is 0; gradient zero."""

    samples = _SAMPLES
    vjp = no_gradient

    def numpy(self, x: Array, y: Array) -> Array:
        return np.floor(np.divide(x, y)) if x.dtype.kind == "f" else np.floor_divide(x, y)

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        if e.in_types[0].dtype.is_float:
            return floor(e, e.Div(x, y))
        zero, divisor = e.scalar(0), _safe(e, y)
        whole = e.Div(x, divisor)
        remainder = e.Sub(x, e.Mul(whole, divisor))
        differs = e.Xor(e.Less(remainder, zero), e.Less(divisor, zero))
        is_above = e.And(differs, e.Not(e.Equal(remainder, zero)))
        return _of_integers(e, x, y, e.Sub(whole, e.cast(is_above, e.in_types[0].dtype)))


class TruncateDiv(Elementwise):
    """The quotient x / y rounded towards 0, broadcasting; any numbers, an integer by 0 is 0; gradient zero."""

    samples = _SAMPLES
    vjp = no_gradient

    def numpy(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return np.asarray(np.trunc(np.divide(x, y)))
        quotient = np.floor_divide(x, y)
        has_rest = (np.fmod(x, y) != 0) & (y != 0)
        return np.asarray(quotient + ((x < 0) != (y < 0)) * has_rest.astype(x.dtype), x.dtype)

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        if not e.in_types[0].dtype.is_float:
            return _of_integers(e, x, y, e.Div(x, _safe(e, y)))
        quotient = e.Div(x, y)
        return with_sign_of(e, quotient, e.Floor(e.Abs(quotient)))


class Mod(Elementwise):
    """The remainder with the sign of the divisor (Python's %), broadcasting; any numbers, 0 of an integer by 0."""

    is_remainder = True
    integer_gradient = "whole"
    samples = _SAMPLES
    numpy = np.mod

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        """The quotient of a number by an infinity of the other sign is -1; the quotient of floats would be -0.0."""
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
    """What is left of x / y with the quotient rounded towards 0, so with the sign of x, broadcasting; any numbers."""

    is_remainder = True
    samples = (
        sample(f32(2, 3), f32(3), low=0.6, high=1.9, gradient=False),
        sample(f32(40), f32(40), low=-3.0, high=3.0, gradient=False),
        sample(f32(0, 3), f32(3)),
        sample(of(int32, 40), of(int32, 40), integers=(-4, 5)),
    )
    numpy = np.fmod

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        quotient = e.div(x, y)
        whole = e.mul(e.sign(quotient), e.floor(e.abs(quotient)))
        return g, e.neg(e.mul(g, whole))

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        if e.in_types[0].dtype.is_float:
            return e.Mod(x, y, fmod=1)
        divisor = _safe(e, y)
        rest = e.Sub(x, e.Mul(e.Div(x, divisor), divisor))  # the kernel of Mod divides as doubles
        return e.Where(e.Equal(divisor, y), rest, e.scalar(0))


def _of_integers(e: Emitter, x: str, y: str, quotient: str) -> str:
    """A quotient by the safe divisor, and what it is by -1 and by 0."""
    zero, minus_one = e.scalar(0), e.scalar(-1)
    return e.Where(e.Equal(y, zero), zero, e.Where(e.Equal(y, minus_one), e.Neg(x), quotient))


def _safe(e: Emitter, y: str) -> str:
    """An integer divisor, and 1 for 0 and -1: a processor stops the program at x / 0 and at the least integer by -1."""
    one = e.scalar(1)
    return e.Where(e.Or(e.Equal(y, e.scalar(0)), e.Equal(y, e.scalar(-1))), one, y)
