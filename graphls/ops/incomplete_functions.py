"""The incomplete gamma and beta functions, divided by the complete ones, computed in float64.

Series and continued fractions are those of Press et al., "Numerical Recipes", 6.2 and 6.4: as many terms as the element
that needs most, about the square root of the largest parameter. Gradients by a parameter are differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphls.ir.types import float64
from graphls.ops.control_flow import while_loop
from graphls.ops.creation import ones_like, zeros_like
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.elementwise import abs, add, cast, div, exp, log, log1p, mul, neg, pow, reciprocal, sqrt, sub
from graphls.ops.exponentials import erfc, xlogy
from graphls.ops.gamma_functions import lgamma
from graphls.ops.logic import equal, greater, isfinite, less, logical_and, logical_not, logical_or, where
from graphls.ops.operands import floats
from graphls.tensor import Tensor

__all__ = ["igamma", "igammac"]

_CLOSE = 1e-14
"""The relative change below which a further term changes nothing."""

_ROUNDS = 20_000
_LARGE = 1e6
"""A parameter above which the gamma function's integral is taken for that of Wilson and Hilferty's normal number."""

_TINY = 1e-300
_STEP = 1e-4

Function = Callable[..., Tensor]
Carry = tuple[Tensor, ...]


def igamma(input: Any, other: Any) -> Tensor:
    """The integral of t ** (input - 1) * exp(-t) from 0 to `other`, over that to infinity; broadcasting.

    It is nan where either is negative, and where both are 0, or infinite.
    """
    return _in_double(lambda a, x: _with_slopes(_lower, _density_of_gamma, a, x), input, other)


def igammac(input: Any, other: Any) -> Tensor:
    """1 - `igamma`, exact where that is close to 1."""

    def slope(a: Tensor, x: Tensor) -> Tensor:
        return neg(_density_of_gamma(a, x))

    return _in_double(lambda a, x: _with_slopes(_upper, slope, a, x), input, other)


def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """The integral of t ** (a - 1) * (1 - t) ** (b - 1) from 0 to x, over that to 1; broadcasting.

    It is nan unless a and b are above 0 and x is between 0 and 1.
    """
    return _in_double(lambda a, b, x: _with_slopes(_beta, _density_of_beta, a, b, x), a, b, x)


def _in_double(function: Function, *operands: Any) -> Tensor:
    tensors = floats(*operands)
    wide = zeros_like(_sum(tensors))
    return cast(function(*(add(cast(t, float64), cast(wide, float64)) for t in tensors)), tensors[0].dtype)


def _sum(tensors: tuple[Tensor, ...]) -> Tensor:
    result = tensors[0]
    for tensor in tensors[1:]:
        result = add(result, tensor)
    return result


def _with_slopes(function: Function, density: Function, *operands: Tensor) -> Tensor:
    """A function whose slope by the last operand is a density, and by the others what differences give."""

    def gradient(*given: Tensor) -> tuple[Tensor, ...]:
        *at, _, sensitivity = given
        slopes = [_difference(function, at, i) for i in range(len(at) - 1)]
        return tuple(mul(sensitivity, slope) for slope in (*slopes, density(*at)))

    found: Tensor = with_gradient(function, gradient, *operands)
    return found


def _difference(function: Function, at: list[Tensor], number: int) -> Tensor:
    """The slope by a parameter from four places, at distances in which the function changes little."""
    step = mul(div(at[number], add(sqrt(at[number]), 1.0)), _STEP)

    def moved(steps: float) -> Tensor:
        return function(*at[:number], add(at[number], mul(step, steps)), *at[number + 1 :])

    near, far = sub(moved(1.0), moved(-1.0)), sub(moved(2.0), moved(-2.0))
    return div(sub(mul(near, 8.0), far), mul(step, 12.0))


def _density_of_gamma(a: Tensor, x: Tensor) -> Tensor:
    return exp(sub(sub(xlogy(sub(a, 1.0), x), x), lgamma(a)))


def _density_of_beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return exp(sub(add(xlogy(sub(a, 1.0), x), xlogy(sub(b, 1.0), sub(1.0, x))), _log_beta(a, b)))


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))


def _lower(a: Tensor, x: Tensor) -> Tensor:
    return _gamma(a, x)[0]


def _upper(a: Tensor, x: Tensor) -> Tensor:
    return _gamma(a, x)[1]


def _gamma(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The integral below x and that above it, each exact where it is small."""
    is_inside = logical_and(logical_and(greater(a, 0.0), greater(x, 0.0)), logical_and(isfinite(a), isfinite(x)))
    is_large = logical_and(is_inside, greater(a, _LARGE))
    normal = _deviation(where(is_large, a, 1.0), where(is_large, x, 1.0))
    is_usual = logical_and(is_inside, logical_not(is_large))
    low, high = _usual_gamma(where(is_usual, a, 1.0), where(is_usual, x, 1.0))
    low = where(is_large, mul(erfc(neg(normal)), 0.5), low)
    high = where(is_large, mul(erfc(normal), 0.5), high)
    return _bounded(low, a, x, is_inside, 0.0), _bounded(high, a, x, is_inside, 1.0)


def _usual_gamma(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    is_low = less(x, add(a, 1.0))
    factor = exp(sub(sub(mul(a, log(x)), x), lgamma(a)))
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
        return _any(greater(abs(state[1]), mul(abs(state[2]), _CLOSE)))

    first = reciprocal(a)
    return _repeated(is_going, further, (a, first, first))[2]


def _fraction(a: Tensor, x: Tensor) -> Tensor:
    """Lentz's method, which keeps the quotients of numerators (c) and of denominators (d)."""

    def further(state: Carry) -> Carry:
        number, b, c, d, found, _ = state
        numerator, b = mul(number, sub(a, number)), add(b, 2.0)
        d = reciprocal(_not_zero(add(mul(numerator, d), b)))
        c = _not_zero(add(b, div(numerator, c)))
        change = mul(c, d)
        return add(number, 1.0), b, c, d, mul(found, change), change

    b = add(sub(x, a), 1.0)
    first = reciprocal(_not_zero(b))
    state = ones_like(a), b, div(1.0 / _TINY, ones_like(a)), first, first, zeros_like(a)
    return _repeated(_is_changing, further, state)[4]


def _beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    is_valid = logical_and(greater(a, 0.0), greater(b, 0.0))
    is_inside = logical_and(logical_and(greater(x, 0.0), less(x, 1.0)), logical_and(isfinite(a), isfinite(b)))
    is_usual = logical_and(is_valid, is_inside)
    p, q, y = (where(is_usual, value, 0.5) for value in (a, b, x))
    is_low = less(y, div(add(p, 1.0), add(add(p, q), 2.0)))
    first, second = where(is_low, p, q), where(is_low, q, p)
    place = where(is_low, y, sub(1.0, y))
    factor = exp(sub(add(mul(p, log(y)), mul(q, log1p(neg(y)))), _log_beta(p, q)))
    part = div(mul(factor, _beta_fraction(first, second, place)), first)
    limits = where(
        logical_and(is_valid, equal(x, 0.0)), 0.0, where(logical_and(is_valid, equal(x, 1.0)), 1.0, math.nan)
    )
    return where(is_usual, where(is_low, part, sub(1.0, part)), limits)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    both, after, before = add(a, b), add(a, 1.0), sub(a, 1.0)

    def applied(numerator: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        d = reciprocal(_not_zero(add(mul(numerator, d), 1.0)))
        return _not_zero(add(div(numerator, c), 1.0)), d

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

    first = reciprocal(_not_zero(sub(1.0, div(mul(both, x), after))))
    state = ones_like(a), ones_like(a), first, first, zeros_like(a)
    return _repeated(_is_changing, further, state)[3]


def _is_changing(state: Carry) -> Tensor:
    return _any(greater(abs(sub(state[-1], 1.0)), _CLOSE))


def _any(truths: Tensor) -> Tensor:
    found: Tensor = truths.any()
    return found


def _not_zero(x: Tensor) -> Tensor:
    return where(less(abs(x), _TINY), _TINY, x)


def _repeated(is_going: Callable[[Carry], Tensor], further: Callable[[Carry], Carry], start: Carry) -> Carry:
    """The state after as many rounds as are needed, or _ROUNDS."""
    count = zeros_like(start[0]).sum()  # a number in the graph, also where there are no elements

    def is_needed(state: tuple[Tensor, Carry]) -> Tensor:
        return logical_and(less(state[0], float(_ROUNDS)), is_going(state[1]))

    def step(state: tuple[Tensor, Carry]) -> tuple[Tensor, Carry]:
        return add(state[0], 1.0), further(state[1])

    found: Carry = while_loop(is_needed, step, (count, start))[1]
    return found
