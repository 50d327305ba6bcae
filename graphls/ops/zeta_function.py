"""Hurwitz's zeta function, computed in float64."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.types import float64
from graphls.ops.creation import full_like
from graphls.ops.elementwise import add, addn, cast, clip_by_value, div, floor, mul, neg, pow, square, sub
from graphls.ops.gamma_functions import BERNOULLI
from graphls.ops.logic import equal, greater, logical_and, logical_or, where
from graphls.ops.operands import floats
from graphls.ops.record import operation
from graphls.tensors.tensor import Tensor

_TERMS = 12
"""How many terms are added up before the formula of Euler and Maclaurin takes the rest."""

_STEEP = 1000.0
"""An exponent beyond which no correction is left."""


@operation(classes="Zeta")
def zeta(input: Any, other: Any) -> Tensor:
    """The sum of (other + k) ** -input over k = 0, 1, ..., broadcasting: Hurwitz's zeta function.

    It is infinite where `input` is 1, and where it is more and `other` is 0 or a negative whole number; nan where
    `input` is less than 1 or `other` another negative number.
    """
    x, q = floats(input, other)
    return cast(_zeta(cast(x, float64), cast(q, float64)), x.dtype)


def _zeta(x: Tensor, q: Tensor) -> Tensor:
    is_inside = logical_and(greater(x, 1.0), greater(q, 0.0))
    is_pole = logical_or(equal(x, 1.0), logical_and(greater(x, 1.0), equal(q, floor(q))))
    found = _euler_maclaurin(where(is_inside, x, 2.0), where(is_inside, q, 1.0))
    return where(is_inside, found, where(is_pole, math.inf, math.nan))


def _euler_maclaurin(x: Tensor, q: Tensor) -> Tensor:
    """Apostol's "Introduction to Analytic Number Theory", theorem 12.21, with further corrections."""
    first = addn([pow(add(q, float(k)), neg(x)) for k in range(_TERMS)])
    start = add(q, float(_TERMS))
    integral = div(pow(start, sub(1.0, x)), sub(x, 1.0))
    return add(add(first, integral), mul(pow(start, neg(x)), _corrections(clip_by_value(x, None, _STEEP), start)))


def _corrections(x: Tensor, start: Tensor) -> Tensor:
    """1 / 2 and the sum of B_2k / (2k)! * x (x + 1) ... (x + 2k - 2) / start ** (2k - 1)."""
    total, factor = full_like(x, 0.5), div(x, start)
    for k, number in enumerate(BERNOULLI, start=1):
        total = add(total, mul(factor, number / math.factorial(2 * k)))
        steps = mul(add(x, 2.0 * k - 1), add(x, 2.0 * k))
        factor = mul(factor, div(steps, square(start)))
    return total
