"""What the incomplete gamma and beta functions share: series until they end, slopes by differences, Stirling's rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphls.ir.types import float64
from graphls.ops.control_flow import while_loop
from graphls.ops.creation import zeros_like
from graphls.ops.custom_gradients import with_gradient
from graphls.ops.elementwise import abs, add, cast, div, log, log1p, mul, sqrt, sub
from graphls.ops.gamma_functions import STIRLING, inverse_powers, lgamma
from graphls.ops.logic import greater, less, logical_and, where
from graphls.ops.operands import floats
from graphls.tensors.tensor import Tensor

CLOSE = 1e-14
"""The relative change below which a further term changes nothing."""

_ROUNDS = 20_000
LARGE = 1e6
"""Parameters above which integrals are those of a normal number (Wilson and Hilferty's), right to 1e-8."""

_FAR = 12.0
HALF_LOG_TURN = math.log(2 * math.pi) / 2
TINY = 1e-300
_STEP = 1e-4

Function = Callable[..., Tensor]
Carry = tuple[Tensor, ...]


def wide_in_double(function: Function, *operands: Any) -> Tensor:
    """A function of operands in float64 and in the shape of all, in their dtype."""
    tensors = floats(*operands)
    wide = zeros_like(_sum(tensors))
    return cast(function(*(add(cast(t, float64), cast(wide, float64)) for t in tensors)), tensors[0].dtype)


def _sum(tensors: tuple[Tensor, ...]) -> Tensor:
    result = tensors[0]
    for tensor in tensors[1:]:
        result = add(result, tensor)
    return result


def with_slopes(function: Function, density: Function, *operands: Tensor) -> Tensor:
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


def log_excess(x: Tensor, a: Tensor) -> Tensor:
    """log(x / a) - (x - a) / a."""
    distance = div(sub(x, a), a)
    is_far = less(distance, -0.5)
    return sub(where(is_far, log(div(x, a)), log1p(where(is_far, 0.0, distance))), distance)


def stirling(a: Tensor) -> Tensor:
    """What lgamma(a) is more than (a - 1 / 2) log(a) - a + log(2 pi) / 2."""
    is_far = greater(a, _FAR)
    near, far = where(is_far, 1.0, a), where(is_far, a, _FAR)
    direct = sub(lgamma(near), sub(sub(mul(sub(near, 0.5), log(near)), near), -HALF_LOG_TURN))
    return where(is_far, inverse_powers(far, 1, STIRLING), direct)


def is_changing(state: Carry) -> Tensor:
    """Whether the last of a state, a factor, is not yet 1 everywhere."""
    return any_of(greater(abs(sub(state[-1], 1.0)), CLOSE))


def any_of(truths: Tensor) -> Tensor:
    """Whether any element is true."""
    found: Tensor = truths.any()
    return found


def not_zero(x: Tensor) -> Tensor:
    """x without the zeros that Lentz's method would divide by."""
    return where(less(abs(x), TINY), TINY, x)


def repeated(is_going: Callable[[Carry], Tensor], further: Callable[[Carry], Carry], start: Carry) -> Carry:
    """The state after as many rounds as are needed, or _ROUNDS."""
    count = zeros_like(start[0]).sum()  # a number in the graph, also where there are no elements

    def is_needed(state: tuple[Tensor, Carry]) -> Tensor:
        return logical_and(less(state[0], float(_ROUNDS)), is_going(state[1]))

    def step(state: tuple[Tensor, Carry]) -> tuple[Tensor, Carry]:
        return add(state[0], 1.0), further(state[1])

    found: Carry = while_loop(is_needed, step, (count, start))[1]
    return found
