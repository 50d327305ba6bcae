"""Trigonometric and hyperbolic functions of every element alone."""

from __future__ import annotations

import math

from graphls.ops.elementwise import abs, div, maximum, mul, sin, square
from graphls.ops.exponentials import root
from graphls.ops.logic import equal, isfinite, logical_and, where
from graphls.ops.operands import apply, float_of, floats, in_single
from graphls.ops.record import operation
from graphls.ops.state import stop_gradient
from graphls.tensors.tensor import Tensor, TensorLike


@operation(classes="Tan")
def tan(x: TensorLike) -> Tensor:
    """The tangent of an angle in radians."""
    return apply("tan", float_of(x))


@operation(names="arcsin", classes="Asin")
def asin(x: TensorLike) -> Tensor:
    """The angle from -pi / 2 to pi / 2 whose sine is x; nan outside of [-1, 1]."""
    return apply("asin", float_of(x))


@operation(names="arccos", classes="ACos")
def acos(x: TensorLike) -> Tensor:
    """The angle from 0 to pi whose cosine is x; nan outside of [-1, 1]."""
    return apply("acos", float_of(x))


@operation(names="arctan", classes="Atan")
def atan(x: TensorLike) -> Tensor:
    """The angle from -pi / 2 to pi / 2 whose tangent is x."""
    return apply("atan", float_of(x))


@operation(names="arctan2", classes="Atan2")
def atan2(x: TensorLike, other: TensorLike) -> Tensor:
    """The angle from -pi to pi of the point whose height is x and whose width is `other`, broadcasting."""
    return apply("atan2", *floats(x, other))


@operation(classes="Sinh")
def sinh(x: TensorLike) -> Tensor:
    """The hyperbolic sine."""
    return apply("sinh", float_of(x))


@operation(classes="Cosh")
def cosh(x: TensorLike) -> Tensor:
    """The hyperbolic cosine."""
    return apply("cosh", float_of(x))


@operation(names="arcsinh", classes="Asinh")
def asinh(x: TensorLike) -> Tensor:
    """The number whose hyperbolic sine is x."""
    return apply("asinh", float_of(x))


@operation(names="arccosh", classes="Acosh")
def acosh(x: TensorLike) -> Tensor:
    """The number of 0 or more whose hyperbolic cosine is x; nan below 1."""
    return apply("acosh", float_of(x))


@operation(names="arctanh", classes="Atanh")
def atanh(x: TensorLike) -> Tensor:
    """The number whose hyperbolic tangent is x; an infinity at -1 and 1, nan beyond."""
    return apply("atanh", float_of(x))


@operation
def deg2rad(x: TensorLike) -> Tensor:
    """An angle in degrees as one in radians."""
    return mul(float_of(x), math.pi / 180)


@operation
def rad2deg(x: TensorLike) -> Tensor:
    """An angle in radians as one in degrees."""
    return mul(float_of(x), 180 / math.pi)


@operation(classes="Sinc")
def sinc(x: TensorLike) -> Tensor:
    """sin(pi x) / (pi x), which is 1 at 0."""
    return in_single(_sinc, float_of(x))


def _sinc(x: Tensor) -> Tensor:
    is_zero = equal(x, 0.0)
    angle = mul(where(is_zero, 1.0, x), math.pi)
    return where(is_zero, 1.0, div(sin(angle), angle))


@operation(classes="Hypot")
def hypot(x: TensorLike, other: TensorLike) -> Tensor:
    """The square root of x ** 2 + other ** 2, broadcasting, without overflow in between; gradient 0 at (0, 0)."""
    return in_single(_hypot, *floats(x, other))


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    largest = stop_gradient(maximum(abs(x), abs(y)))
    scale = where(logical_and(isfinite(largest), largest > 0.0), largest, 1.0)
    return mul(root(square(div(x, scale)) + square(div(y, scale))), scale)
