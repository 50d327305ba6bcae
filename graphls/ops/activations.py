"""Activation functions of every element alone, and those along an axis that are made of others."""

from __future__ import annotations

from typing import Any

from graphls.ir.checks import number
from graphls.ir.errors import GraphValueError
from graphls.ops.elementwise import abs, add, div, expm1, maximum, mul, neg, sign, sub, tanh
from graphls.ops.logic import greater, greater_equal, less_equal, where
from graphls.ops.network import relu, sigmoid, softmax
from graphls.ops.operands import apply, axis_of, float_of, in_single, numbers, tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import cut, reshape
from graphls.tensors import dispatch
from graphls.tensors.random import generator
from graphls.tensors.tensor import Tensor
from graphls.trace.current import current_tracer


@operation(classes="ReLU6")
def relu6(x: Any) -> Tensor:
    """x, at least 0 and at most 6; the slope is 0 at both."""
    x = relu(x)
    return apply("minimum", *numbers(6.0, x), ties="first")


@operation
def leaky_relu(input: Any, alpha: Any = 0.2) -> Tensor:
    """x where it is positive and alpha * x elsewhere."""
    x = float_of(input)
    return where(greater(x, 0.0), x, mul(x, alpha))


@operation(classes="PReLU")
def prelu(x: Any, weight: Any) -> Tensor:
    """x where it is positive and weight * x elsewhere, with one weight for all or one for each channel (axis 1).

    Raises GraphValueError for weights of another shape.
    """
    x, weight = float_of(x), float_of(weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.shape not in ((1,), (channels,)):
        raise GraphValueError(f"prelu of {x.type} takes a weight of shape (1,) or ({channels},), not {weight.shape}.")
    sizes = (1, -1, *(1,) * (x.ndim - 2)) if x.ndim > 1 else (1,) * x.ndim
    return leaky_relu(x, dispatch.cast(reshape(weight, sizes), x.dtype))


@operation
def rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = True) -> Tensor:
    """x where it is positive, and elsewhere x times a number drawn between `lower` and `upper` for each element.

    Not in training the number is (lower + upper) / 2 (Xu et al., 2015). Raises GraphTypeError and GraphValueError for
    bounds that are none.
    """
    check_slopes("rrelu", lower, upper)
    x = float_of(input)
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    slopes = add(mul(_uniform(x.shape), upper - lower), float(lower))
    return leaky_relu(x, dispatch.cast(slopes, x.dtype))


def check_slopes(name: str, lower: Any, upper: Any) -> None:
    """Raise GraphTypeError for what are no numbers, GraphValueError unless 0 <= lower <= upper <= 1."""
    if not 0 <= number(name, "lower", lower) <= number(name, "upper", upper) <= 1:
        raise GraphValueError(f"For {name!r}, 0 <= lower <= upper <= 1, but got {lower} and {upper}.")


def _uniform(shape: tuple[int, ...]) -> Tensor:
    tracer = current_tracer()
    if tracer is not None:
        drawn: Tensor = tracer.random("random_uniform", {"shape": shape})
        return drawn
    return Tensor(generator().random(shape, dtype="float32"))


@operation(classes="Elu", settings="alpha")
def elu(input_x: Any, alpha: Any = 1.0) -> Tensor:
    """x where it is positive and alpha * (exp(x) - 1) elsewhere."""
    x = float_of(input_x)
    return where(greater(x, 0.0), x, mul(expm1(_not_positive(x)), alpha))


@operation(classes="SeLU")
def selu(input_x: Any) -> Tensor:
    """scale * elu(x, alpha) with the constants that keep mean 0 and variance 1 (Klambauer et al., 2017)."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    x = float_of(input_x)
    return where(greater(x, 0.0), mul(x, scale), mul(expm1(_not_positive(x)), scale * alpha))


def _not_positive(x: Tensor) -> Tensor:
    """x without what is above 0, whose exponential could overflow; nan and the slope at 0 stay."""
    return where(greater(x, 0.0), 0.0, x)


@operation(classes="CeLU", settings="alpha")
def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where it is positive and alpha * (exp(x / alpha) - 1) elsewhere; raises GraphValueError for an alpha of 0."""
    if number("celu", "alpha", alpha) == 0:
        raise GraphValueError("For 'celu', the 'alpha' must not be 0.")
    x = float_of(x)
    return where(greater(x, 0.0), x, mul(expm1(div(_not_positive(x), alpha)), alpha))


@operation(classes="Mish")
def mish(x: Any) -> Tensor:
    """x * tanh(log(1 + exp(x))) (Misra, 2019)."""
    return in_single(lambda x: mul(x, tanh(apply("softplus", x))), float_of(x))


@operation(classes="FastGeLU FastGelu")
def fast_gelu(x: Any) -> Tensor:
    """x * sigmoid(1.702 * x), which is near the gelu."""
    return in_single(lambda x: mul(x, sigmoid(mul(x, 1.702))), float_of(x))


@operation(names="hsigmoid", classes="HSigmoid")
def hardsigmoid(input: Any) -> Tensor:
    """(x + 3) / 6, at least 0 and at most 1."""
    return mul(relu6(add(float_of(input), 3.0)), 1 / 6)


@operation(names="hswish", classes="HSwish")
def hardswish(x: Any) -> Tensor:
    """x * hardsigmoid(x), which is 0 below -3, also at -inf."""
    x = float_of(x)
    return mul(maximum(x, -3.0), hardsigmoid(x))


@operation
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x, at least `min_val` and at most `max_val`, with a slope of 0 at both.

    Raises GraphValueError unless the one is the smaller.
    """
    if not number("hardtanh", "min_val", min_val) < number("hardtanh", "max_val", max_val):
        raise GraphValueError(f"For 'hardtanh', 'min_val' must be below 'max_val', but got {min_val} and {max_val}.")
    x = float_of(input)
    return where(less_equal(x, min_val), min_val, where(greater_equal(x, max_val), max_val, x))


@operation(classes="HShrink", settings="lambd")
def hardshrink(x: Any, lambd: Any = 0.5) -> Tensor:
    """x where its absolute value is above `lambd` and 0 elsewhere."""
    x = float_of(x)
    return where(less_equal(abs(x), lambd), 0.0, x)


@operation(names="soft_shrink", classes="SoftShrink", settings="lambd")
def softshrink(input: Any, lambd: Any = 0.5) -> Tensor:
    """x moved towards 0 by `lambd`, and 0 where it would pass it."""
    x = float_of(input)
    return where(less_equal(abs(x), lambd), 0.0, sub(x, mul(sign(x), lambd)))


@operation
def tanhshrink(input: Any) -> Tensor:
    """x - tanh(x)."""
    return in_single(lambda x: sub(x, tanh(x)), float_of(input))


@operation
def threshold(input: Any, thr: Any, value: Any) -> Tensor:
    """x where it is above `thr` and `value` elsewhere."""
    x = float_of(input)
    return where(less_equal(x, thr), value, x)


@operation(classes="Softplus")
def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold.

    Raises GraphValueError for a beta of 0.
    """
    if number("softplus", "beta", beta) == 0:
        raise GraphValueError("For 'softplus', the 'beta' must not be 0.")
    x = float_of(input)
    scaled = x if beta == 1 else mul(x, beta)
    soft = apply("softplus", scaled)
    return where(greater(scaled, number("softplus", "threshold", threshold)), x, soft if beta == 1 else div(soft, beta))


@operation(classes="Softsign")
def softsign(x: Any) -> Tensor:
    """x / (1 + abs(x))."""
    x = float_of(x)
    return div(x, add(abs(x), 1.0))


@operation
def logsigmoid(x: Any) -> Tensor:
    """The logarithm of the logistic function, exact where that is tiny."""
    return neg(apply("softplus", neg(float_of(x))))


@operation
def softmin(x: Any, axis: int = -1) -> Tensor:
    """exp(-x) divided by its sum along an axis."""
    return softmax(neg(float_of(x)), axis)


@operation
def softmax2d(x: Any) -> Tensor:
    """The softmax over the channels of images (N, C, H, W) or (C, H, W); raises GraphValueError for another rank."""
    x = tensor_of(x)
    if x.ndim not in (3, 4):
        raise GraphValueError(f"softmax2d takes (N, C, H, W) or (C, H, W), not {x.type}.")
    return softmax(x, -3)


@operation(classes="GLU", settings="axis")
def glu(x: Any, axis: int = -1) -> Tensor:
    """a * sigmoid(b) for the two halves a and b of x along an axis; raises GraphValueError for an odd size."""
    x = float_of(x)
    at = axis_of(axis, x.ndim)
    size = x.shape[at]
    if size % 2:
        raise GraphValueError(f"glu takes an axis of an even size, not axis {axis} of {x.type}.")
    halves = cut(x, at, 0, size // 2), cut(x, at, size // 2, size)
    return in_single(lambda a, b: mul(a, sigmoid(b)), *halves)
