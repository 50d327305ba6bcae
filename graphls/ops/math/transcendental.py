"""Trigonometric and hyperbolic functions, exponentials, logarithms, powers and roots, elementwise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.math.elementwise import (
    abs,
    cast,
    clip_by_value,
    isfinite,
    log,
    maximum,
    mul,
    pow,
    sin,
    sqrt,
    square,
    sub,
    where,
)
from graphls.ops.operands import apply, float_of, floats, in_single
from graphls.ops.record import operation, operator_class
from graphls.ops.state import stop_gradient


@operation(also="numpy mint mint.special")
def exp2(x: TensorLike) -> Tensor:
    """The power 2 ** x."""
    return 2.0 ** float_of(x)


@operation(also="numpy mint")
def log2(x: TensorLike) -> Tensor:
    """The logarithm to the base 2; -inf at 0, nan below."""
    return in_single(lambda x: log(x) * (1 / math.log(2)), x)


@operation(also="numpy mint")
def log10(x: TensorLike) -> Tensor:
    """The logarithm to the base 10; -inf at 0, nan below."""
    return in_single(lambda x: log(x) * (1 / math.log(10)), x)


@operation(classes="LogAddExp", also="numpy mint")
def logaddexp(x: TensorLike, other: TensorLike) -> Tensor:
    """log(exp(x) + exp(other)), broadcasting, without overflow."""
    return apply("logaddexp", *floats(x, other))


@operation(classes="LogAddExp2", also="numpy")
def logaddexp2(x: TensorLike, other: TensorLike) -> Tensor:
    """The logarithm to the base 2 of 2 ** x + 2 ** other, broadcasting, without overflow."""
    log_2 = math.log(2)
    return in_single(lambda x, y: logaddexp(mul(x, log_2), mul(y, log_2)) / log_2, *floats(x, other))


@operation
def logit(x: TensorLike, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); with an `eps`, of x clipped to [eps, 1 - eps].

    Raises GraphTypeError for an `eps` that is not a number.
    """
    if eps is not None and not isinstance(eps, (int, float)):
        raise GraphTypeError(f"The 'eps' of logit is a number, not {eps!r}.")

    def computed(x: Tensor) -> Tensor:
        inside = x if eps is None else clip_by_value(x, eps, 1 - eps)
        return log(inside) - log(sub(1.0, inside))

    return in_single(computed, float_of(x))


@operation(classes="Xlogy", also="mint")
def xlogy(x: TensorLike, other: TensorLike) -> Tensor:
    """x * log(other), broadcasting; 0 where x is 0, unless the other one is nan."""
    return in_single(_xlogy, *floats(x, other))


def _xlogy(x: Tensor, y: Tensor) -> Tensor:
    has_no_logarithm = (y <= 0.0) | (y == math.inf)
    return x * log(where((x == 0.0) & has_no_logarithm, 1.0, y))


@operation(classes="Xdivy")
def xdivy(x: TensorLike, y: TensorLike) -> Tensor:
    """x / y, broadcasting; 0 where x is 0, unless y is nan."""
    x, y = floats(x, y)
    return x / where((x == 0.0) & (y == 0.0), 1.0, y)


@operation(also="mint")
def float_power(x: TensorLike, exponent: TensorLike) -> Tensor:
    """The power x ** exponent in float64, broadcasting."""
    return cast(x, "float64") ** cast(exponent, "float64")


@operation
def ldexp(x: TensorLike, other: TensorLike) -> Tensor:
    """x * 2 ** other, broadcasting."""
    return in_single(lambda a, b: mul(a, pow(2.0, b)), *floats(x, other))


@operation(classes="Erfc", also="mint mint.special")
def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x), exact where it is tiny."""
    return apply("erfc", float_of(x))


@operation(classes="Erfinv", also="mint", in_place="erfinv_")
def erfinv(x: TensorLike) -> Tensor:
    """The number whose error function is x; infinite at -1 and 1, nan beyond."""
    return apply("erfinv", float_of(x))


@operator_class("Logit", "eps", like=logit)
def _logit(input: TensorLike, eps: float = -1.0) -> Any:
    return logit(input, None if eps < 0 else eps)


def root(x: Tensor, order: float = 2) -> Tensor:
    """x ** (1 / order), with gradient 0 at 0, where the derivative is infinite.

    Its second derivatives there are 0, too, because no infinity is multiplied by 0 anywhere.
    """
    is_zero = x == 0.0
    safe = where(is_zero, 1.0, x)
    result = sqrt(safe) if order == 2 else safe ** (1 / order)
    return where(is_zero, 0.0 if order > 0 else math.inf, result)


@operation(classes="Tan", also="numpy mint")
def tan(x: TensorLike) -> Tensor:
    """The tangent of an angle in radians."""
    return apply("tan", float_of(x))


@operation(names="arcsin", classes="Asin", also="numpy.arcsin mint")
def asin(x: TensorLike) -> Tensor:
    """The angle from -pi / 2 to pi / 2 whose sine is x; nan outside of [-1, 1]."""
    return apply("asin", float_of(x))


@operation(names="arccos", classes="ACos", also="numpy.arccos mint")
def acos(x: TensorLike) -> Tensor:
    """The angle from 0 to pi whose cosine is x; nan outside of [-1, 1]."""
    return apply("acos", float_of(x))


@operation(names="arctan", classes="Atan", also="numpy.arctan mint")
def atan(x: TensorLike) -> Tensor:
    """The angle from -pi / 2 to pi / 2 whose tangent is x."""
    return apply("atan", float_of(x))


@operation(names="arctan2", classes="Atan2", also="numpy.arctan2 mint")
def atan2(x: TensorLike, other: TensorLike) -> Tensor:
    """The angle from -pi to pi between the positive x axis and the point (other, x), broadcasting."""
    return in_single(lambda *sides: apply("atan2", *sides), *floats(x, other))


@operation(classes="Sinh", also="numpy mint")
def sinh(x: TensorLike) -> Tensor:
    """The hyperbolic sine."""
    return apply("sinh", float_of(x))


@operation(classes="Cosh", also="numpy mint")
def cosh(x: TensorLike) -> Tensor:
    """The hyperbolic cosine."""
    return apply("cosh", float_of(x))


@operation(names="arcsinh", classes="Asinh", also="numpy.arcsinh mint")
def asinh(x: TensorLike) -> Tensor:
    """The number whose hyperbolic sine is x."""
    return apply("asinh", float_of(x))


@operation(names="arccosh", classes="Acosh", also="numpy.arccosh mint")
def acosh(x: TensorLike) -> Tensor:
    """The non-negative number whose hyperbolic cosine is x; nan below 1."""
    return apply("acosh", float_of(x))


@operation(names="arctanh", classes="Atanh", also="numpy.arctanh mint")
def atanh(x: TensorLike) -> Tensor:
    """The number whose hyperbolic tangent is x; an infinity at -1 and 1, nan beyond."""
    return apply("atanh", float_of(x))


@operation(also="numpy")
def deg2rad(x: TensorLike) -> Tensor:
    """Converts degrees to radians."""
    return float_of(x) * (math.pi / 180)


@operation(also="numpy")
def rad2deg(x: TensorLike) -> Tensor:
    """Converts radians to degrees."""
    return float_of(x) * (180 / math.pi)


@operation(classes="Sinc", also="mint mint.special")
def sinc(x: TensorLike) -> Tensor:
    """sin(pi x) / (pi x), which is 1 at 0."""
    return in_single(_sinc, float_of(x))


def _sinc(x: Tensor) -> Tensor:
    """By Taylor's series for angles below 1, where the derivative of the quotient would cancel."""
    angle = x * math.pi
    is_near = abs(angle) < 1.0
    far, squared = where(is_near, 1.0, angle), square(where(is_near, angle, 0.0))
    series = squared * 0.0
    for order in range(19, 0, -2):
        series = series * -squared + 1 / math.factorial(order)
    return where(is_near, series, sin(far) / far)


@operation(classes="Hypot", also="numpy mint")
def hypot(x: TensorLike, other: TensorLike) -> Tensor:
    """The square root of x ** 2 + other ** 2, broadcasting, without overflow in between; gradient 0 at (0, 0)."""
    return in_single(_hypot, *floats(x, other))


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    largest, limits = stop_gradient(maximum(abs(x), abs(y))), np.finfo(x.dtype.numpy)
    scale = where(isfinite(largest), maximum(largest, float(limits.tiny / limits.eps)), 1.0)
    return root(square(x / scale) + square(y / scale)) * scale
