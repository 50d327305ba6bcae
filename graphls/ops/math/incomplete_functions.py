"""The regularized incomplete gamma and beta functions, computed in float64.

The series and the continued fraction are those of Press et al., "Numerical Recipes", 6.2, with as many terms as the
slowest element takes, about the square root of the largest parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float64
from graphls.ops.arrays.creation import ones_like, zeros_like
from graphls.ops.control_flow import while_loop
from graphls.ops.gradients import with_gradient
from graphls.ops.math.elementwise import (
    abs,
    cast,
    exp,
    isfinite,
    log,
    log1p,
    minimum,
    reciprocal,
    sqrt,
    where,
)
from graphls.ops.math.gamma_functions import STIRLING, inverse_powers, lgamma
from graphls.ops.math.transcendental import erfc
from graphls.ops.operands import floats
from graphls.ops.record import cell, operation, operator_class


@cell("IGamma", inputs="a x")
@operation(classes="Igamma")
def igamma(input: TensorLike, other: TensorLike) -> Tensor:
    """The integral of t ** (input - 1) * exp(-t) from 0 to `other`, over that to infinity; broadcasting.

    It is nan where either is negative, and where both are 0, or infinite.
    """
    return wide_in_double(lambda a, x: with_derivatives(_lower, _density_of_gamma, a, x), input, other)


@operation(classes="Igammac")
def igammac(input: TensorLike, other: TensorLike) -> Tensor:
    """1 - `igamma`, exact where that is close to 1."""

    def slope(a: Tensor, x: Tensor) -> Tensor:
        return -_density_of_gamma(a, x)

    return wide_in_double(lambda a, x: with_derivatives(_upper, slope, a, x), input, other)


def _density_of_gamma(a: Tensor, x: Tensor) -> Tensor:
    """x ** (a - 1) * exp(-x) over the gamma function, with its limits at 0."""
    at_zero = where(a < 1.0, math.inf, where(a == 1.0, 1.0, 0.0))
    is_zero = x == 0.0
    return where(is_zero, at_zero, exp(_gamma_term(a, where(is_zero, 1.0, x))))


def _gamma_term(a: Tensor, x: Tensor) -> Tensor:
    """(a - 1) log(x) - x - lgamma(a), without cancellation of large numbers."""
    return a * log_excess(x, a) + log(a) * 0.5 - log(x) - (stirling(a) + HALF_LOG_TWO_PI)


def _lower(a: Tensor, x: Tensor) -> Tensor:
    return _gamma(a, x)[0]


def _upper(a: Tensor, x: Tensor) -> Tensor:
    return _gamma(a, x)[1]


def _gamma(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The integral below x and that above it, each exact where it is small."""
    is_inside = (a > 0.0) & (x > 0.0) & (isfinite(a) & isfinite(x))
    is_large = is_inside & (a > LARGE)
    # All branches are computed for all elements: those that are not chosen get 1, which needs few iterations and
    # gives no infinity or nan that would reach the gradient as 0 * inf.
    normal = _deviation(where(is_large, a, 1.0), where(is_large, x, 1.0))
    is_usual = is_inside & ~is_large
    low, high = _usual_gamma(where(is_usual, a, 1.0), where(is_usual, x, 1.0))
    low = where(is_large, erfc(-normal) * 0.5, low)
    high = where(is_large, erfc(normal) * 0.5, high)
    return _bounded(low, a, x, is_inside, 0.0), _bounded(high, a, x, is_inside, 1.0)


def _usual_gamma(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    is_low = x < a + 1.0  # there the series needs few terms, beyond it the continued fraction does
    factor = exp(_gamma_term(a, x) + log(x))
    series = factor * _series(a, where(is_low, x, 0.0))
    fraction = factor * _fraction(where(is_low, 1.0, a), where(is_low, 3.0, x))
    return where(is_low, series, 1.0 - fraction), where(is_low, 1.0 - series, fraction)


def _bounded(inside: Tensor, a: Tensor, x: Tensor, is_inside: Tensor, at_zero: float) -> Tensor:
    """The function with its limits at 0 and infinity."""
    is_zero = ((x == 0.0) & (a > 0.0)) | ((a == math.inf) & isfinite(x))
    is_one = ((a == 0.0) & (x > 0.0)) | ((x == math.inf) & isfinite(a))
    is_valid = ((a > 0.0) | (a == 0.0)) & ((x > 0.0) | (x == 0.0))
    limits = where(is_zero, at_zero, where(is_one, 1.0 - at_zero, math.nan))
    return where(is_inside, inside, where(is_valid, limits, math.nan))


def _deviation(a: Tensor, x: Tensor) -> Tensor:
    """The normal deviate of x (Wilson and Hilferty), divided by the square root of 2."""
    ninth = 1.0 / 9.0 / a
    return ((x / a) ** (1.0 / 3.0) - (1.0 - ninth)) / sqrt(ninth * 2.0)


def _series(a: Tensor, x: Tensor) -> Tensor:
    def next_state(state: Carry) -> Carry:
        divisor, term, total = state
        divisor = divisor + 1.0
        term = term * (x / divisor)
        return divisor, term, total + term

    def condition(state: Carry) -> Tensor:
        return any_of(abs(state[1]) > abs(state[2]) * CLOSE)

    first = reciprocal(a)
    return iterated(condition, next_state, (a, first, first))[2]


def _fraction(a: Tensor, x: Tensor) -> Tensor:
    """Lentz's method, with the ratios of numerators (c) and of denominators (d)."""

    def next_state(state: Carry) -> Carry:
        number, b, c, d, fraction, _ = state
        numerator, b = number * (a - number), b + 2.0
        d = reciprocal(not_zero(numerator * d + b))
        c = not_zero(b + numerator / c)
        change = c * d
        return number + 1.0, b, c, d, fraction * change, change

    b = x - a + 1.0
    first = reciprocal(not_zero(b))
    state = ones_like(a), b, 1.0 / TINY / ones_like(a), first, first, zeros_like(a)
    return iterated(is_changing, next_state, state)[4]


CLOSE = 1e-14
"""The relative change below which a further term changes nothing."""
_MOST_ITERATIONS = 20_000
LARGE = 1e6
"""Parameters above which Wilson and Hilferty's normal approximation is used, correct to 1e-8."""
_FAR = 12.0
HALF_LOG_TWO_PI = math.log(2 * math.pi) / 2
TINY = 1e-300
_STEP = 1e-4
Function = Callable[..., Tensor]
Carry = tuple[Tensor, ...]


def wide_in_double(function: Function, *operands: object) -> Tensor:
    """A function of operands in float64, broadcast to one shape; the result is in their dtype."""
    tensors = floats(*operands)
    wide = zeros_like(_sum(tensors))
    return cast(function(*(cast(t, float64) + cast(wide, float64) for t in tensors)), tensors[0].dtype)


def _sum(tensors: tuple[Tensor, ...]) -> Tensor:
    result = tensors[0]
    for tensor in tensors[1:]:
        result = result + tensor
    return result


def with_derivatives(function: Function, density: Function, *operands: Tensor) -> Tensor:
    """A function whose derivative by the last operand is a density, and by the others a finite difference."""

    def gradient(*arguments: Tensor) -> tuple[Tensor, ...]:
        *at, _, sensitivity = arguments
        slopes = [_difference(function, at, i) for i in range(len(at) - 1)]
        return tuple(sensitivity * slope for slope in (*slopes, density(*at)))

    return with_gradient(function, gradient, *operands)


def _difference(function: Function, at: list[Tensor], index: int) -> Tensor:
    """The derivative by a parameter, by a central difference of fourth order with a small step."""
    step = at[index] / (sqrt(at[index]) + 1.0) * _STEP

    def moved(steps: float) -> Tensor:
        return function(*at[:index], at[index] + step * steps, *at[index + 1 :])

    # The error is of the fourth power of the step, so rounding limits it, not the step.
    near, far = moved(1.0) - moved(-1.0), moved(2.0) - moved(-2.0)
    return (near * 8.0 - far) / (step * 12.0)


def log_excess(x: Tensor, a: Tensor) -> Tensor:
    """log(x / a) - (x - a) / a."""
    # Near a, log(x / a) nearly cancels with the distance; log1p keeps its digits.
    distance = (x - a) / a
    is_far = distance < -0.5
    return where(is_far, log(x / a), log1p(where(is_far, 0.0, distance))) - distance


def stirling(a: Tensor) -> Tensor:
    """The remainder of Stirling's formula: lgamma(a) - ((a - 1 / 2) log(a) - a + log(2 pi) / 2)."""
    is_far = a > _FAR
    near, far = where(is_far, 1.0, a), where(is_far, a, _FAR)
    direct = lgamma(near) - ((near - 0.5) * log(near) - near - -HALF_LOG_TWO_PI)
    return where(is_far, inverse_powers(far, 1, STIRLING), direct)


def is_changing(state: Carry) -> Tensor:
    """True while the last item of a state, a factor, is not 1 everywhere."""
    return any_of(abs(state[-1] - 1.0) > CLOSE)


def any_of(truths: Tensor) -> Tensor:
    """True if any element is true."""
    result: Tensor = truths.any()
    return result


def not_zero(x: Tensor) -> Tensor:
    """x with zeros, by which Lentz's method would divide, replaced by tiny numbers."""
    return where(abs(x) < TINY, TINY, x)


def iterated(condition: Callable[[Carry], Tensor], next_state: Callable[[Carry], Carry], start: Carry) -> Carry:
    """The state once `condition` is false, or after _MOST_ITERATIONS iterations."""
    count = zeros_like(start[0]).sum()  # a number in the graph, also where there are no elements

    def continues(state: tuple[Tensor, Carry]) -> Tensor:
        return (state[0] < float(_MOST_ITERATIONS)) & condition(state[1])

    def step(state: tuple[Tensor, Carry]) -> tuple[Tensor, Carry]:
        return state[0] + 1.0, next_state(state[1])

    result: Carry = while_loop(continues, step, (count, start))[1]
    return result


@operator_class("Betainc")
def betainc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """The integral of t ** (a - 1) * (1 - t) ** (b - 1) from 0 to x, over that to 1; broadcasting.

    It is nan unless a and b are above 0 and x is between 0 and 1.
    """
    return wide_in_double(lambda a, b, x: with_derivatives(_beta, _density_of_beta, a, b, x), a, b, x)


def _density_of_beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """x ** (a - 1) * (1 - x) ** (b - 1) over the beta function, with its limits at 0 and 1."""
    is_end = (x == 0.0) | (x == 1.0)
    y = where(is_end, 0.5, x)
    inside = exp(_beta_term(a, b, y) - (log(y) + log1p(-y)))
    near, far = where(x == 0.0, a, b), where(x == 0.0, b, a)
    at_end = where(near < 1.0, math.inf, where(near == 1.0, far, 0.0))
    return where(is_end, at_end, inside)


def _beta_term(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """a log(x) + b log(1 - x) - log B(a, b), without cancellation of large numbers."""
    both = a + b
    parts = a * log_excess(x * both, a) + b * log_excess((1.0 - x) * both, b)
    corrections = stirling(both) - (stirling(a) + stirling(b))
    return parts + (log(a) + log(b) - log(both)) * 0.5 + (corrections - HALF_LOG_TWO_PI)


def _beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    is_valid = (a > 0.0) & (b > 0.0)
    is_inside = (x > 0.0) & (x < 1.0) & (isfinite(a) & isfinite(b))
    is_inside = is_valid & is_inside
    is_large = is_inside & (minimum(a, b) > LARGE)
    normal = _beta_deviation(*(where(is_large, value, 0.5) for value in (a, b, x)))
    is_usual = is_inside & ~is_large
    inside = where(is_large, erfc(-normal) * 0.5, _usual_beta(*(where(is_usual, v, 0.5) for v in (a, b, x))))
    is_limit = is_valid & ((x == 0.0) | (x == 1.0))
    return where(is_inside, inside, where(is_limit, x, math.nan))


def _beta_deviation(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The normal deviate of x (Abramowitz and Stegun, 26.5.22), divided by the square root of 2."""
    first, second = (b * x) ** (1.0 / 3.0), (a * (1.0 - x)) ** (1.0 / 3.0)
    distance = first * (1.0 - 1.0 / 9.0 / b) - second * (1.0 - 1.0 / 9.0 / a)
    spread = first * first / b + second * second / a
    return distance * 3.0 / sqrt(spread * 2.0)


def _usual_beta(p: Tensor, q: Tensor, y: Tensor) -> Tensor:
    is_low = y < (p + 1.0) / (p + q + 2.0)
    first, second = where(is_low, p, q), where(is_low, q, p)
    argument = where(is_low, y, 1.0 - y)
    part = exp(_beta_term(p, q, y)) * _beta_fraction(first, second, argument) / first
    return where(is_low, part, 1.0 - part)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    both, after, before = a + b, a + 1.0, a - 1.0

    def applied(numerator: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        d = reciprocal(not_zero(numerator * d + 1.0))
        return not_zero(numerator / c + 1.0), d

    def next_state(state: Carry) -> Carry:
        number, c, d, fraction, _ = state
        twice = number * 2.0
        even = number * (b - number) * x / ((before + twice) * (a + twice))
        c, d = applied(even, c, d)
        fraction = fraction * (c * d)
        odd = -((a + number) * (both + number) * x / ((a + twice) * (after + twice)))
        c, d = applied(odd, c, d)
        change = c * d
        return number + 1.0, c, d, fraction * change, change

    first = reciprocal(not_zero(1.0 - both * x / after))
    state = ones_like(a), ones_like(a), first, first, zeros_like(a)
    return iterated(is_changing, next_state, state)[3]
