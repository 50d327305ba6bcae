"""Exponentials, logarithms, powers, roots and special functions of every element alone."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.errors import GraphTypeError
from graphls.ops.elementwise import cast, clip_by_value, div, log, mul, pow, sqrt, sub
from graphls.ops.logic import equal, less_equal, logical_and, logical_or, where
from graphls.ops.operands import apply, float_of, floats, in_single
from graphls.ops.record import operation, operator_class
from graphls.tensors.tensor import Tensor, TensorLike


@operation
def exp2(x: TensorLike) -> Tensor:
    """The power 2 ** x."""
    return pow(2.0, float_of(x))


@operation
def log2(x: TensorLike) -> Tensor:
    """The logarithm to the base 2; -inf at 0, nan below."""
    return in_single(lambda x: mul(log(x), 1 / math.log(2)), x)


@operation
def log10(x: TensorLike) -> Tensor:
    """The logarithm to the base 10; -inf at 0, nan below."""
    return in_single(lambda x: mul(log(x), 1 / math.log(10)), x)


@operation(classes="LogAddExp")
def logaddexp(x: TensorLike, other: TensorLike) -> Tensor:
    """log(exp(x) + exp(other)), broadcasting, which does not overflow."""
    return apply("logaddexp", *floats(x, other))


@operation(classes="LogAddExp2")
def logaddexp2(x: TensorLike, other: TensorLike) -> Tensor:
    """The logarithm to the base 2 of 2 ** x + 2 ** other, broadcasting, which does not overflow."""
    log_2 = math.log(2)
    return in_single(lambda x, y: div(logaddexp(mul(x, log_2), mul(y, log_2)), log_2), *floats(x, other))


@operation
def logit(x: TensorLike, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); where `eps` is given, of x moved into [eps, 1 - eps].

    Raises GraphTypeError for an `eps` that is no number.
    """
    if eps is not None and not isinstance(eps, (int, float)):
        raise GraphTypeError(f"The 'eps' of logit is a number, not {eps!r}.")

    def computed(x: Tensor) -> Tensor:
        inside = x if eps is None else clip_by_value(x, eps, 1 - eps)
        return sub(log(inside), log(sub(1.0, inside)))

    return in_single(computed, float_of(x))


@operation(classes="Xlogy")
def xlogy(x: TensorLike, other: TensorLike) -> Tensor:
    """x * log(other), broadcasting; 0 where x is 0, unless the other one is nan."""
    return in_single(_xlogy, *floats(x, other))


def _xlogy(x: Tensor, y: Tensor) -> Tensor:
    has_no_logarithm = logical_or(less_equal(y, 0.0), equal(y, math.inf))
    return mul(x, log(where(logical_and(equal(x, 0.0), has_no_logarithm), 1.0, y)))


@operation(classes="Xdivy")
def xdivy(x: TensorLike, y: TensorLike) -> Tensor:
    """x / y, broadcasting; 0 where x is 0, unless y is nan."""
    x, y = floats(x, y)
    return div(x, where(logical_and(equal(x, 0.0), equal(y, 0.0)), 1.0, y))


@operation
def float_power(x: TensorLike, exponent: TensorLike) -> Tensor:
    """The power x ** exponent in float64, broadcasting."""
    return pow(cast(x, "float64"), cast(exponent, "float64"))


@operation
def ldexp(x: TensorLike, other: TensorLike) -> Tensor:
    """x * 2 ** other, broadcasting."""
    return in_single(lambda a, b: mul(a, pow(2.0, b)), *floats(x, other))


@operation(classes="Erfc")
def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x), exact where it is tiny."""
    return apply("erfc", float_of(x))


@operation(classes="Erfinv")
def erfinv(x: TensorLike) -> Tensor:
    """The number whose error function is x; infinite at -1 and 1, nan beyond."""
    return apply("erfinv", float_of(x))


@operator_class("Logit", "eps", like=logit)
def _logit(input: TensorLike, eps: float = -1.0) -> Any:
    return logit(input, None if eps < 0 else eps)


def root(x: Tensor, order: float = 2) -> Tensor:
    """x ** (1 / order), whose gradient at 0 is 0 where the slope would be infinite.

    Its second derivatives there are 0, too, because no infinity is multiplied by 0 anywhere.
    """
    is_zero = equal(x, 0.0)
    safe = where(is_zero, 1.0, x)
    found = sqrt(safe) if order == 2 else pow(safe, 1 / order)
    return where(is_zero, 0.0 if order > 0 else math.inf, found)
