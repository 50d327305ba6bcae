"""The incomplete gamma function, divided by the complete one, computed in float64.

The series and the continued fraction are those of Press et al., "Numerical Recipes", 6.2: as many terms as the element
that needs most, about the square root of the largest parameter.
"""

from __future__ import annotations

import math
from typing import Any

from graphls.ops.creation import ones_like, zeros_like
from graphls.ops.elementwise import abs, add, div, exp, log, mul, neg, pow, reciprocal, sqrt, sub
from graphls.ops.exponentials import erfc
from graphls.ops.incomplete_parts import (
    CLOSE,
    HALF_LOG_TURN,
    LARGE,
    TINY,
    Carry,
    any_of,
    is_changing,
    log_excess,
    not_zero,
    repeated,
    stirling,
    wide_in_double,
    with_slopes,
)
from graphls.ops.logic import equal, greater, isfinite, less, logical_and, logical_not, logical_or, where
from graphls.ops.record import operation
from graphls.tensors.tensor import Tensor


@operation(classes="Igamma")
def igamma(input: Any, other: Any) -> Tensor:
    """The integral of t ** (input - 1) * exp(-t) from 0 to `other`, over that to infinity; broadcasting.

    It is nan where either is negative, and where both are 0, or infinite.
    """
    return wide_in_double(lambda a, x: with_slopes(_lower, _density_of_gamma, a, x), input, other)


@operation(classes="Igammac")
def igammac(input: Any, other: Any) -> Tensor:
    """1 - `igamma`, exact where that is close to 1."""

    def slope(a: Tensor, x: Tensor) -> Tensor:
        return neg(_density_of_gamma(a, x))

    return wide_in_double(lambda a, x: with_slopes(_upper, slope, a, x), input, other)


def _density_of_gamma(a: Tensor, x: Tensor) -> Tensor:
    """x ** (a - 1) * exp(-x) over the gamma function, which at 0 has one of three limits."""
    at_zero = where(less(a, 1.0), math.inf, where(equal(a, 1.0), 1.0, 0.0))
    is_zero = equal(x, 0.0)
    return where(is_zero, at_zero, exp(_gamma_term(a, where(is_zero, 1.0, x))))


def _gamma_term(a: Tensor, x: Tensor) -> Tensor:
    """(a - 1) log(x) - x - lgamma(a) without the large numbers whose difference it is."""
    return sub(sub(add(mul(a, log_excess(x, a)), mul(log(a), 0.5)), log(x)), add(stirling(a), HALF_LOG_TURN))


def _lower(a: Tensor, x: Tensor) -> Tensor:
    return _gamma(a, x)[0]


def _upper(a: Tensor, x: Tensor) -> Tensor:
    return _gamma(a, x)[1]


def _gamma(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The integral below x and that above it, each exact where it is small."""
    is_inside = logical_and(logical_and(greater(a, 0.0), greater(x, 0.0)), logical_and(isfinite(a), isfinite(x)))
    is_large = logical_and(is_inside, greater(a, LARGE))
    normal = _deviation(where(is_large, a, 1.0), where(is_large, x, 1.0))
    is_usual = logical_and(is_inside, logical_not(is_large))
    low, high = _usual_gamma(where(is_usual, a, 1.0), where(is_usual, x, 1.0))
    low = where(is_large, mul(erfc(neg(normal)), 0.5), low)
    high = where(is_large, mul(erfc(normal), 0.5), high)
    return _bounded(low, a, x, is_inside, 0.0), _bounded(high, a, x, is_inside, 1.0)


def _usual_gamma(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    is_low = less(x, add(a, 1.0))
    factor = exp(add(_gamma_term(a, x), log(x)))
    series = mul(factor, _series(a, where(is_low, x, 0.0)))
    fraction = mul(factor, _fraction(where(is_low, 1.0, a), where(is_low, 3.0, x)))
    return where(is_low, series, sub(1.0, fraction)), where(is_low, sub(1.0, series), fraction)


def _bounded(inside: Tensor, a: Tensor, x: Tensor, is_inside: Tensor, at_zero: float) -> Tensor:
    """The function with its limits at 0 and infinity."""
    is_zero = logical_or(logical_and(equal(x, 0.0), greater(a, 0.0)), logical_and(equal(a, math.inf), isfinite(x)))
    is_one = logical_or(logical_and(equal(a, 0.0), greater(x, 0.0)), logical_and(equal(x, math.inf), isfinite(a)))
    is_valid = logical_and(logical_or(greater(a, 0.0), equal(a, 0.0)), logical_or(greater(x, 0.0), equal(x, 0.0)))
    limits = where(is_zero, at_zero, where(is_one, 1.0 - at_zero, math.nan))
    return where(is_inside, inside, where(is_valid, limits, math.nan))


def _deviation(a: Tensor, x: Tensor) -> Tensor:
    """How far x is out, in standard deviations times the square root of 2."""
    ninth = div(1.0 / 9.0, a)
    return div(sub(pow(div(x, a), 1.0 / 3.0), sub(1.0, ninth)), sqrt(mul(ninth, 2.0)))


def _series(a: Tensor, x: Tensor) -> Tensor:
    def further(state: Carry) -> Carry:
        place, term, total = state
        place = add(place, 1.0)
        term = mul(term, div(x, place))
        return place, term, add(total, term)

    def is_going(state: Carry) -> Tensor:
        return any_of(greater(abs(state[1]), mul(abs(state[2]), CLOSE)))

    first = reciprocal(a)
    return repeated(is_going, further, (a, first, first))[2]


def _fraction(a: Tensor, x: Tensor) -> Tensor:
    """Lentz's method, which keeps the quotients of numerators (c) and of denominators (d)."""

    def further(state: Carry) -> Carry:
        number, b, c, d, found, _ = state
        numerator, b = mul(number, sub(a, number)), add(b, 2.0)
        d = reciprocal(not_zero(add(mul(numerator, d), b)))
        c = not_zero(add(b, div(numerator, c)))
        change = mul(c, d)
        return add(number, 1.0), b, c, d, mul(found, change), change

    b = add(sub(x, a), 1.0)
    first = reciprocal(not_zero(b))
    state = ones_like(a), b, div(1.0 / TINY, ones_like(a)), first, first, zeros_like(a)
    return repeated(is_changing, further, state)[4]
