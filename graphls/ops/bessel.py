"""Bessel functions of the orders 0 and 1, computed in float64.

Intervals and forms are those of S. Moshier's Cephes library: near 0 a Chebyshev series, far out another one of 1 / x or
1 / x ** 2 times what the function tends to (Abramowitz and Stegun, 9.2 and 9.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphls.ir.types import float64
from graphls.ops import bessel_tables as tables
from graphls.ops.elementwise import (
    abs,
    add,
    cast,
    clip_by_value,
    cos,
    div,
    exp,
    log,
    maximum,
    minimum,
    mul,
    neg,
    rsqrt,
    sign,
    sin,
    square,
    sub,
)
from graphls.ops.logic import equal, greater, isinf, where
from graphls.ops.operands import float_of
from graphls.ops.record import operation
from graphls.tensors.tensor import Tensor

_FARTHEST = 1e150
"""What takes the place of larger numbers: its square is finite."""


@operation(names="i0", classes="BesselI0")
def bessel_i0(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return _in_double(lambda x: mul(_i0e(abs(x)), exp(abs(x))), x)


@operation(classes="BesselI0e")
def bessel_i0e(x: Any) -> Tensor:
    """bessel_i0(x) * exp(-|x|), which does not overflow."""
    return _vanishing(lambda x: _i0e(abs(x)), x)


@operation(classes="BesselI1")
def bessel_i1(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return _in_double(lambda x: mul(_i1e(x), exp(abs(x))), x)


@operation(classes="BesselI1e")
def bessel_i1e(x: Any) -> Tensor:
    """bessel_i1(x) * exp(-|x|), which does not overflow."""
    return _vanishing(_i1e, x)


@operation(classes="BesselK0")
def bessel_k0(x: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 0; infinite at 0 and nan below."""
    return _in_double(lambda x: mul(_k0e(x), exp(neg(x))), x)


@operation(classes="BesselK0e")
def bessel_k0e(x: Any) -> Tensor:
    """bessel_k0(x) * exp(x), which does not become 0."""
    return _vanishing(_k0e, x)


@operation(classes="BesselK1")
def bessel_k1(x: Any) -> Tensor:
    """The modified Bessel function of the second kind of order 1; infinite at 0 and nan below."""
    return _in_double(lambda x: mul(_k1e(x), exp(neg(x))), x)


@operation(classes="BesselK1e")
def bessel_k1e(x: Any) -> Tensor:
    """bessel_k1(x) * exp(x), which does not become 0."""
    return _vanishing(_k1e, x)


@operation(classes="BesselJ0")
def bessel_j0(x: Any) -> Tensor:
    """The Bessel function of the first kind of order 0."""
    return _vanishing(lambda x: _j0(abs(x)), x)


@operation(classes="BesselJ1")
def bessel_j1(x: Any) -> Tensor:
    """The Bessel function of the first kind of order 1."""
    return _vanishing(_j1, x)


@operation(classes="BesselY0")
def bessel_y0(x: Any) -> Tensor:
    """The Bessel function of the second kind of order 0; -inf at 0 and nan below."""
    return _vanishing(_y0, x)


@operation(classes="BesselY1")
def bessel_y1(x: Any) -> Tensor:
    """The Bessel function of the second kind of order 1; -inf at 0 and nan below."""
    return _vanishing(_y1, x)


def _in_double(function: Callable[[Tensor], Tensor], x: Any) -> Tensor:
    x = float_of(x)
    return cast(function(cast(x, float64)), x.dtype)


def _vanishing(function: Callable[[Tensor], Tensor], x: Any) -> Tensor:
    """A function that is 0 at infinities, unless it is nan there."""
    return _in_double(lambda x: mul(function(x), where(isinf(x), 0.0, 1.0)), x)


def _series(coefficients: tuple[float, ...], t: Tensor) -> Tensor:
    """The sum of coefficients * T_k(t) by Clenshaw's recurrence."""
    double = mul(t, 2.0)
    last, before = mul(t, 0.0), mul(t, 0.0)
    for coefficient in coefficients[:0:-1]:
        last, before = add(sub(mul(double, last), before), coefficient), last
    return add(sub(mul(t, last), before), coefficients[0])


def _split(x: Tensor, bound: float, near: Callable[[Tensor], Tensor], far: Callable[[Tensor], Tensor]) -> Tensor:
    """One function up to a bound and another one from there on, each of numbers in its own part, the far one finite."""
    return where(greater(x, bound), far(minimum(maximum(x, bound), _FARTHEST)), near(clip_by_value(x, None, bound)))


def _odd(x: Tensor, bound: float, near: Callable[[Tensor], Tensor], far: Callable[[Tensor], Tensor]) -> Tensor:
    """x * near(|x|) up to a bound, so that there is a gradient at 0, and far(|x|) with the sign of x from there on."""
    size = abs(x)
    return mul(where(greater(size, bound), sign(x), x), _split(size, bound, near, far))


def _i0e(x: Tensor) -> Tensor:
    def near(x: Tensor) -> Tensor:
        return _series(tables.I0_NEAR, sub(div(x, 4.0), 1.0))

    def far(x: Tensor) -> Tensor:
        return mul(rsqrt(x), _series(tables.I0_FAR, sub(div(16.0, x), 1.0)))

    return _split(x, 8.0, near, far)


def _i1e(x: Tensor) -> Tensor:
    def near(x: Tensor) -> Tensor:
        return _series(tables.I1_NEAR, sub(div(x, 4.0), 1.0))

    def far(x: Tensor) -> Tensor:
        return mul(rsqrt(x), _series(tables.I1_FAR, sub(div(16.0, x), 1.0)))

    return _odd(x, 8.0, near, far)


def _k0e(x: Tensor) -> Tensor:
    def near(x: Tensor) -> Tensor:
        first = mul(log(div(x, 2.0)), mul(_i0e(x), exp(x)))
        return mul(sub(_series(tables.K0_NEAR, sub(div(square(x), 2.0), 1.0)), first), exp(x))

    def far(x: Tensor) -> Tensor:
        return mul(rsqrt(x), _series(tables.K0_FAR, sub(div(4.0, x), 1.0)))

    return _split(x, 2.0, near, far)


def _k1e(x: Tensor) -> Tensor:
    def near(x: Tensor) -> Tensor:
        first = mul(_log_above_zero(div(x, 2.0)), mul(_i1e(x), exp(x)))
        return mul(add(div(_series(tables.K1_NEAR, sub(div(square(x), 2.0), 1.0)), abs(x)), first), exp(x))

    def far(x: Tensor) -> Tensor:
        return mul(rsqrt(x), _series(tables.K1_FAR, sub(div(4.0, x), 1.0)))

    return _split(x, 2.0, near, far)


def _log_above_zero(x: Tensor) -> Tensor:
    """The logarithm, of which 0 times 0 is to become 0, too."""
    return log(where(equal(x, 0.0), 1.0, x))


def _j0(x: Tensor) -> Tensor:
    return _split(x, 8.0, lambda x: _near(tables.J0_NEAR, x), lambda x: _wave(x, 0, _cosine))


def _j1(x: Tensor) -> Tensor:
    return _odd(x, 8.0, lambda x: _near(tables.J1_NEAR, x), lambda x: _wave(x, 1, _cosine))


def _y0(x: Tensor) -> Tensor:
    def near(x: Tensor) -> Tensor:
        return add(_near(tables.Y0_NEAR, x), mul(mul(log(x), 2 / math.pi), _near(tables.J0_NEAR, x)))

    return _split(x, 8.0, near, lambda x: _wave(x, 0, _sine))


def _y1(x: Tensor) -> Tensor:
    def near(x: Tensor) -> Tensor:
        first = mul(mul(_log_above_zero(x), 2 / math.pi), mul(x, _near(tables.J1_NEAR, x)))
        return add(div(_near(tables.Y1_NEAR, x), abs(x)), first)

    return _split(x, 8.0, near, lambda x: _wave(x, 1, _sine))


def _near(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    return _series(coefficients, sub(div(square(x), 32.0), 1.0))


def _wave(x: Tensor, order: int, combine: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """sqrt(2 / (pi x)) times a wave of the angle x - (2 order + 1) pi / 4."""
    even, odd = ((tables.P0_FAR, tables.Q0_FAR), (tables.P1_FAR, tables.Q1_FAR))[order]
    t = sub(div(128.0, square(x)), 1.0)
    wave = combine(_series(even, t), div(_series(odd, t), x), sub(x, (2 * order + 1) * math.pi / 4))
    return mul(mul(rsqrt(x), math.sqrt(2 / math.pi)), wave)


def _cosine(p: Tensor, q: Tensor, angle: Tensor) -> Tensor:
    return sub(mul(p, cos(angle)), mul(q, sin(angle)))


def _sine(p: Tensor, q: Tensor, angle: Tensor) -> Tensor:
    return add(mul(p, sin(angle)), mul(q, cos(angle)))
