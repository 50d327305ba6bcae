"""The incomplete beta function, divided by the complete one, computed in float64.

The continued fraction is that of Press et al., "Numerical Recipes", 6.4.
"""

from __future__ import annotations

import math
from typing import Any

from graphls.ops.creation import ones_like, zeros_like
from graphls.ops.elementwise import add, div, exp, log, log1p, minimum, mul, neg, pow, reciprocal, sqrt, sub
from graphls.ops.exponentials import erfc
from graphls.ops.incomplete_parts import (
    HALF_LOG_TURN,
    LARGE,
    Carry,
    is_changing,
    log_excess,
    not_zero,
    repeated,
    stirling,
    wide_in_double,
    with_slopes,
)
from graphls.ops.logic import equal, greater, isfinite, less, logical_and, logical_not, logical_or, where
from graphls.ops.record import operator_class
from graphls.tensors.tensor import Tensor


@operator_class("Betainc")
def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """The integral of t ** (a - 1) * (1 - t) ** (b - 1) from 0 to x, over that to 1; broadcasting.

    It is nan unless a and b are above 0 and x is between 0 and 1.
    """
    return wide_in_double(lambda a, b, x: with_slopes(_beta, _density_of_beta, a, b, x), a, b, x)


def _density_of_beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """x ** (a - 1) * (1 - x) ** (b - 1) over the beta function, which at 0 and 1 has limits."""
    is_end = logical_or(equal(x, 0.0), equal(x, 1.0))
    y = where(is_end, 0.5, x)
    inside = exp(sub(_beta_term(a, b, y), add(log(y), log1p(neg(y)))))
    near, far = where(equal(x, 0.0), a, b), where(equal(x, 0.0), b, a)
    at_end = where(less(near, 1.0), math.inf, where(equal(near, 1.0), far, 0.0))
    return where(is_end, at_end, inside)


def _beta_term(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """a log(x) + b log(1 - x) - log B(a, b), again without large numbers."""
    both = add(a, b)
    parts = add(mul(a, log_excess(mul(x, both), a)), mul(b, log_excess(mul(sub(1.0, x), both), b)))
    corrections = sub(stirling(both), add(stirling(a), stirling(b)))
    return add(add(parts, mul(sub(add(log(a), log(b)), log(both)), 0.5)), sub(corrections, HALF_LOG_TURN))


def _beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    is_valid = logical_and(greater(a, 0.0), greater(b, 0.0))
    is_inside = logical_and(logical_and(greater(x, 0.0), less(x, 1.0)), logical_and(isfinite(a), isfinite(b)))
    is_inside = logical_and(is_valid, is_inside)
    is_large = logical_and(is_inside, greater(minimum(a, b), LARGE))
    normal = _beta_deviation(*(where(is_large, value, 0.5) for value in (a, b, x)))
    is_usual = logical_and(is_inside, logical_not(is_large))
    inside = where(is_large, mul(erfc(neg(normal)), 0.5), _usual_beta(*(where(is_usual, v, 0.5) for v in (a, b, x))))
    is_limit = logical_and(is_valid, logical_or(equal(x, 0.0), equal(x, 1.0)))
    return where(is_inside, inside, where(is_limit, x, math.nan))


def _beta_deviation(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Abramowitz and Stegun's 26.5.22: how far x is out, in standard deviations times the square root of 2."""
    first, second = pow(mul(b, x), 1.0 / 3.0), pow(mul(a, sub(1.0, x)), 1.0 / 3.0)
    distance = sub(mul(first, sub(1.0, div(1.0 / 9.0, b))), mul(second, sub(1.0, div(1.0 / 9.0, a))))
    spread = add(div(mul(first, first), b), div(mul(second, second), a))
    return div(mul(distance, 3.0), sqrt(mul(spread, 2.0)))


def _usual_beta(p: Tensor, q: Tensor, y: Tensor) -> Tensor:
    is_low = less(y, div(add(p, 1.0), add(add(p, q), 2.0)))
    first, second = where(is_low, p, q), where(is_low, q, p)
    place = where(is_low, y, sub(1.0, y))
    part = div(mul(exp(_beta_term(p, q, y)), _beta_fraction(first, second, place)), first)
    return where(is_low, part, sub(1.0, part))


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    both, after, before = add(a, b), add(a, 1.0), sub(a, 1.0)

    def applied(numerator: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        d = reciprocal(not_zero(add(mul(numerator, d), 1.0)))
        return not_zero(add(div(numerator, c), 1.0)), d

    def further(state: Carry) -> Carry:
        number, c, d, found, _ = state
        twice = mul(number, 2.0)
        even = div(mul(mul(number, sub(b, number)), x), mul(add(before, twice), add(a, twice)))
        c, d = applied(even, c, d)
        found = mul(found, mul(c, d))
        odd = neg(div(mul(mul(add(a, number), add(both, number)), x), mul(add(a, twice), add(after, twice))))
        c, d = applied(odd, c, d)
        change = mul(c, d)
        return add(number, 1.0), c, d, mul(found, change), change

    first = reciprocal(not_zero(sub(1.0, div(mul(both, x), after))))
    state = ones_like(a), ones_like(a), first, first, zeros_like(a)
    return repeated(is_changing, further, state)[3]
