"""The log-gamma and polygamma functions and the Hurwitz zeta function, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.checks import at_least
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float64
from graphls.ops import operands
from graphls.ops.arrays.creation import full_like
from graphls.ops.gradients import with_gradient
from graphls.ops.math.elementwise import (
    abs,
    addn,
    cast,
    clip_by_value,
    cos,
    floor,
    isinf,
    log,
    mul,
    reciprocal,
    round,
    sin,
    square,
    where,
)
from graphls.ops.operands import floats, in_double
from graphls.ops.record import operation, operator_class

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""Bernoulli's numbers of the orders 2, 4, 6, ..."""

STIRLING = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, start=1)]
"""The coefficients of Stirling's series, of 1 / x, 1 / x ** 3, ..."""

_SHIFT = 12
"""The shift of arguments for the asymptotic series, which are Abramowitz and Stegun's 6.1.40 and 6.4.11."""


@operation(classes="Lgamma", cells="LGamma")
def lgamma(x: TensorLike) -> Tensor:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and at negative integers."""
    return in_double(lambda x: with_gradient(_log_gamma, _slope(0), x), x)


@operation(classes="Digamma", cells="DiGamma")
def digamma(x: Any) -> Tensor:
    """The derivative of `lgamma`."""
    return polygamma(0, x)


@operation(also="mint", checks={"n": at_least(0)})
def polygamma(n: int, x: TensorLike) -> Tensor:
    """The n-th derivative of `digamma`; raises GraphTypeError unless n is an integer, GraphValueError below 0."""
    return in_double(lambda x: with_gradient(lambda x: _polygamma(n, x), _slope(n + 1), x), x)


def _slope(n: int) -> Callable[..., tuple[Tensor]]:
    """The gradient of a function whose derivative is the polygamma function of order n, also at its poles."""
    return lambda x, result, sensitivity: (mul(sensitivity, _polygamma(n, x)),)


@operation(classes="Mvlgamma", settings="p", checks={"p": at_least(1)})
def mvlgamma(x: TensorLike, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of p dimensions; raises GraphValueError for p below 1."""

    def computed(x: Tensor) -> Tensor:
        return _total([lgamma(x - i / 2) for i in range(p)]) + p * (p - 1) / 4 * math.log(math.pi)

    return in_double(computed, x)


def _total(terms: list[Tensor]) -> Tensor:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def _log_gamma(x: Tensor) -> Tensor:
    # Below 1/2 by Euler's reflection formula. Stirling's series needs a large argument: it is evaluated at x + _SHIFT,
    # and the logarithms of the factors between are subtracted.
    is_low = x < 0.5
    at = where(is_low, 1.0 - x, x)
    far = at + float(_SHIFT)
    series = (far - 0.5) * (log(far) - 1.0) + (math.log(2 * math.pi) - 1) / 2
    corrections = inverse_powers(far, 1, STIRLING)
    high = series + corrections - _total([log(at + float(k)) for k in range(_SHIFT)])
    sine = abs(sin(_angle(where(is_low, x, 0.5))))
    result = where(is_low, math.log(math.pi) - (log(sine) + high), high)
    return where(isinf(x), math.inf, result)


def _angle(x: Tensor) -> Tensor:
    """pi x modulo pi, exact where x is large; -0.0 for -0.0."""
    return where(abs(x) >= 0.5, x - round(x), x) * math.pi


def inverse_powers(x: Tensor, first: int, coefficients: list[float]) -> Tensor:
    """The sum of coefficients / x ** (first + 2 i)."""
    inverse = reciprocal(x)
    square, result = inverse * inverse, inverse * 0.0
    for coefficient in reversed(coefficients):
        result = result * square + coefficient
    for _ in range(first):
        result = result * inverse
    return result


def _polygamma(n: int, x: Tensor) -> Tensor:
    # As in `_log_gamma`: reflected below 1/2, and evaluated at x + _SHIFT with the recurrence of the derivatives.
    is_low = x < 0.5
    at = where(is_low, 1.0 - x, x)
    sign, factorial = (-1) ** (n + 1), math.factorial(n)
    near = _total([inverse_powers(at + float(k), n + 1, [factorial]) for k in range(_SHIFT)])
    high = (_asymptotic(n, at + float(_SHIFT)) + near) * float(sign)
    angle = _angle(where(x >= 0.5, 0.25, x))
    reflected = _derivative_of_cotangent(n, cos(angle) / sin(angle)) * math.pi ** (n + 1)
    low = high * float(-sign) - reflected
    if n % 2 == 0:  # the pole of an odd order at a negative integer is infinite with either sign
        low = where((x < 0.0) & (x == round(x)), math.nan, low)
    return where(is_low, low, high)


def _asymptotic(n: int, x: Tensor) -> Tensor:
    """(-1) ** (n + 1) times the polygamma function for large x."""
    leading = log(x) * -1.0 if n == 0 else inverse_powers(x, n, [math.factorial(n - 1)])
    corrections = [b * math.factorial(2 * k + n - 1) / math.factorial(2 * k) for k, b in enumerate(BERNOULLI, start=1)]
    return leading + inverse_powers(x, n + 1, [math.factorial(n) / 2]) + inverse_powers(x, n + 2, corrections)


def _derivative_of_cotangent(n: int, cotangent: Tensor) -> Tensor:
    """The n-th derivative of the cotangent, a polynomial in the cotangent, whose derivative is -(1 + cot ** 2)."""
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    first, second, *others = polynomial.coef[::-1]
    result = cotangent * float(first) + float(second)
    for coefficient in others:
        result = result * cotangent + float(coefficient)
    return result


@operator_class("Polygamma", like=polygamma)
def _polygamma_operator(a: TensorLike, x: TensorLike) -> Any:
    return polygamma(int(operands.tensor_of(a).item()), x)


_TERMS = 12
"""The number of terms that are summed before the Euler-Maclaurin formula for the remainder."""
_STEEP = 1000.0
"""The exponent beyond which corrections are 0."""


@operation(classes="Zeta")
def zeta(input: TensorLike, other: TensorLike) -> Tensor:
    """The sum of (other + k) ** -input over k = 0, 1, ..., broadcasting: Hurwitz's zeta function.

    It is infinite where `input` is 1, and where it is more and `other` is 0 or a negative integer; nan where `input` is
    less than 1, and where it is not an integer and `other` another negative number.
    """
    x, q = floats(input, other)
    return cast(_zeta(cast(x, float64), cast(q, float64)), x.dtype)


def _zeta(x: Tensor, q: Tensor) -> Tensor:
    # Terms of negative numbers are, up to their sign, those between 1 - share and 1 - q; the others start at share.
    low, share = q < 0.0, q - floor(q)
    is_pole = (x == 1.0) | ((x > 1.0) & ((share == 0.0) & (q <= 0.0)))
    is_inside = (x > 1.0) & ((q > 0.0) | (x == floor(x)))
    is_inside = is_inside & ~is_pole
    x = where(is_inside, x, 2.0)
    result = _euler_maclaurin(x, where(is_inside, where(low, share, q), 1.0))
    first, last = (where(is_inside & low, 1.0 - at, 1.0) for at in (share, q))
    sign = where(x % 2.0 == 0.0, 1.0, -1.0)
    result = result + where(low, sign * (_euler_maclaurin(x, first) - _euler_maclaurin(x, last)), 0.0)
    return where(is_inside, result, where(is_pole, math.inf, math.nan))


def _euler_maclaurin(x: Tensor, q: Tensor) -> Tensor:
    """Apostol's "Introduction to Analytic Number Theory", theorem 12.21, with further corrections."""
    first = addn([(q + float(k)) ** -x for k in range(_TERMS)])
    start = q + float(_TERMS)
    integral = start ** (1.0 - x) / (x - 1.0)
    return first + integral + start**-x * _corrections(clip_by_value(x, None, _STEEP), start)


def _corrections(x: Tensor, start: Tensor) -> Tensor:
    """1 / 2 and the sum of B_2k / (2k)! * x (x + 1) ... (x + 2k - 2) / start ** (2k - 1)."""
    total, factor = full_like(x, 0.5), x / start
    for k, number in enumerate(BERNOULLI, start=1):
        total = total + factor * (number / math.factorial(2 * k))
        steps = (x + (2.0 * k - 1)) * (x + 2.0 * k)
        factor = factor * (steps / square(start))
    return total
