"""Division with a whole quotient, and what it leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import int32, int64
from graphls.primitives.elementary import floor
from graphls.primitives.primitive import Array, Elementwise, FloatElementwise, f32, of, sample

_SAMPLES = (
    sample(f32(2, 3), f32(3), low=0.6, high=1.9, gradient=False),
    sample(of(int32, 9), of(int32, 9), integers=(1, 9)),
    sample(of(int32, 5, 9), of(int32, 9), integers=(-4, 5)),
    sample(of(int64, 40), of(int64, 40), integers=(-2, 3)),
)


class FloorDiv(Elementwise):
    """The quotient x / y rounded down, broadcasting; any numbers, an integer by 0 is 0; gradient zero."""

    samples = _SAMPLES

    def numpy(self, x: Array, y: Array) -> Array:
        return np.floor(np.divide(x, y)) if x.dtype.kind == "f" else np.floor_divide(x, y)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        return None, None

    def onnx(self, e: Any, x: str, y: str) -> Any:
        if e.in_types[0].dtype.is_float:
            return floor(e, e.Div(x, y))
        zero, minus_one = e.scalar(0), e.scalar(-1)
        divisor = _safe(e, y)
        quotient = e.Div(e.Sub(x, e.Mod(x, divisor)), divisor)
        return e.Where(e.Equal(y, zero), zero, e.Where(e.Equal(y, minus_one), e.Neg(x), quotient))


class Mod(Elementwise):
    """The remainder with the sign of the divisor (Python's %), broadcasting; any numbers, 0 of an integer by 0."""

    samples = _SAMPLES

    def numpy(self, x: Array, y: Array) -> Array:
        return np.mod(x, y)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        """The quotient of a number by an infinity of the other sign is -1; the quotient of floats would be -0.0."""
        quotient = e.floor_div(x, y)
        if x.type.dtype.is_float:
            is_infinite = e.equal(e.abs(out), e.constant(np.inf, x.type.dtype))
            quotient = e.where(is_infinite, e.constant(-1.0, x.type.dtype), quotient)
        return g, e.neg(e.mul(g, quotient))

    def onnx(self, e: Any, x: str, y: str) -> Any:
        if not e.in_types[0].dtype.is_float:
            divisor = _safe(e, y)
            return e.Where(e.Equal(divisor, y), e.Mod(x, divisor), e.scalar(0))
        remainder, zero = e.Mod(x, y, fmod=1), e.scalar(0.0)
        opposite = e.Less(e.Mul(e.Sign(remainder), e.Sign(y)), zero)
        return e.Where(opposite, e.Add(remainder, y), remainder)


class Fmod(FloatElementwise):
    """What is left of x / y with the quotient rounded towards 0, so with the sign of x; floats, broadcasting."""

    samples = (
        sample(f32(2, 3), f32(3), low=0.6, high=1.9, gradient=False),
        sample(f32(40), f32(40), low=-3.0, high=3.0, gradient=False),
        sample(f32(0, 3), f32(3)),
    )

    def numpy(self, x: Array, y: Array) -> Array:
        return np.fmod(x, y)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value) -> Any:
        quotient = e.div(x, y)
        whole = e.mul(e.sign(quotient), e.floor(e.abs(quotient)))
        return g, e.neg(e.mul(g, whole))

    def onnx(self, e: Any, x: str, y: str) -> Any:
        return e.Mod(x, y, fmod=1)


def _safe(e: Any, y: str) -> str:
    """An integer divisor, and 1 for 0 and -1: a processor stops the program at x / 0 and at the least integer by -1."""
    one = e.scalar(1)
    return str(e.Where(e.Or(e.Equal(y, e.scalar(0)), e.Equal(y, e.scalar(-1))), one, y))
