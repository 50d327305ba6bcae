"""Basic functions of neural networks: matrix products, activations, softmax, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.checks import number, positive, probability
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.random import generator
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.types import DTypeLike, bool_, uint8
from graphls.ops.arrays.creation import one_hot, ones
from graphls.ops.arrays.shapes import broadcast_to, cut, reshape, swapaxes
from graphls.ops.gradients import with_gradient
from graphls.ops.math.elementwise import (
    abs,
    cast,
    erf,
    expm1,
    less_equal,
    log,
    maximum,
    mul,
    sign,
    sub,
    tanh,
    where,
)
from graphls.ops.math.reductions import argmax
from graphls.ops.operands import (
    ShapeLike,
    accepts_scalars,
    apply,
    axis_of,
    float_of,
    in_single,
    numbers,
    single_session,
    tensor_of,
    weight_of,
)
from graphls.ops.randomness.random import draw, joined_seed, masked_dropout, rand, random_shape, standard_uniform
from graphls.ops.record import cell, operation, operator_class
from graphls.ops.state import stop_gradient


@operation(symbol="matmul", also="numpy mint")
def matmul(x: Any, other: object) -> Tensor:
    """The matrix product over the last two axes, broadcasting those before them.

    A vector counts as a row on the left and as a column on the right, and its axis of size 1 is removed from the
    result. Raises GraphValueError for numbers and for sizes that do not fit.
    """
    x, other = dispatch.promoted(weight_of(x), weight_of(other))
    if not x.ndim or not other.ndim:
        raise GraphValueError(f"matmul takes vectors and matrices, not {x.type} and {other.type}.")
    a = reshape(x, (1, -1)) if x.ndim == 1 else x
    b = reshape(other, (-1, 1)) if other.ndim == 1 else other
    y = apply("matmul", a, b)
    if x.ndim > 1 and other.ndim > 1:
        return y
    rows = () if x.ndim == 1 else y.shape[-2:-1]
    return reshape(y, (*y.shape[:-2], *rows, *(() if other.ndim == 1 else y.shape[-1:])))


@operation(classes="ReLU", cells="ReLU", in_place="relu_", also="mint mint.nn.functional")
def relu(x: TensorLike) -> Tensor:
    """The larger of x and 0."""
    return apply("relu", float_of(x))


@operation(classes="Sigmoid", cells="Sigmoid", in_place="sigmoid_", also="mint mint.nn.functional")
def sigmoid(x: TensorLike) -> Tensor:
    """The logistic function 1 / (1 + exp(-x))."""
    return apply("sigmoid", float_of(x))


@operation(classes="GeLU Gelu")
@single_session
def gelu(x: TensorLike, approximate: str = "none") -> Tensor:
    """x times the normal distribution function at x; "tanh" approximates it (Hendrycks and Gimpel, 2016).

    Raises GraphValueError for another `approximate`.
    """
    if approximate not in ("none", "tanh"):
        raise GraphValueError(f"'approximate' is 'none' or 'tanh', not {approximate!r}.")
    return in_single(_gelu if approximate == "none" else _approximate_gelu, float_of(x))


def _gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)


_STEEPNESS = math.sqrt(8 / math.pi)
"""The steepness at 0 of the logistic function that approximates the normal distribution function."""


def _approximate_gelu(x: Tensor) -> Tensor:
    """As (1 + tanh(u)) / 2 is the logistic function of 2 * u, which is exact far below 0."""
    return with_gradient(lambda x: mul(x, _parts(x)[1]), _approximate_gelu_gradient, x)


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """The square of x, and the approximate normal distribution function at x.

    That is 0 or 1 beyond 12, so the square is bounded there, as that of a large x would give a nan gradient.
    """
    square = apply("minimum", *numbers(x * x, 144.0), ties="first")
    return square, sigmoid(x * (square * (0.044715 * _STEEPNESS) + _STEEPNESS))


def _approximate_gelu_gradient(x: Tensor, result: Tensor, sensitivity: Tensor) -> tuple[Tensor]:
    """The gradient in 8 operations instead of the 13 of automatic differentiation; 0 for the bounded square."""
    square, share = _parts(x)
    inner = square * (3 * 0.044715 * _STEEPNESS) + _STEEPNESS
    slope = share + x * (share * (1.0 - share)) * inner
    return (sensitivity * slope,)


@operation(names="swish", cells="SiLU", also="mint.nn.functional")
@single_session
def silu(x: TensorLike) -> Tensor:
    """x * sigmoid(x)."""
    return in_single(lambda x: mul(x, sigmoid(x)), float_of(x))


@operation(classes="Softmax", cells="Softmax", settings="axis", also="mint mint.nn.functional")
@accepts_scalars
def softmax(x: TensorLike, axis: int = -1, *, dtype: DTypeLike | None = None) -> Tensor:
    """exp(x) divided by its sum along an axis; with a `dtype`, x is cast to that first."""
    x = float_of(x if dtype is None else cast(tensor_of(x), dtype))
    return apply("softmax", x, axis=axis_of(axis, x.ndim))


@operation(classes="LogSoftmax", cells="LogSoftmax", settings="axis", also="mint mint.nn.functional mint.special")
@accepts_scalars
def log_softmax(logits: TensorLike, axis: int = -1, *, dtype: DTypeLike | None = None) -> Tensor:
    """The logarithm of the softmax along an axis; with a `dtype`, `logits` are cast to that first."""
    x = float_of(logits if dtype is None else cast(tensor_of(logits), dtype))
    return apply("log_softmax", x, axis=axis_of(axis, x.ndim))


@operation(checks={"p": probability})
def dropout(x: TensorLike, p: float = 0.5, training: bool = True, seed: int | None = None) -> Tensor:
    """x with elements set to 0 with probability `p`, and the others divided by 1 - p; x itself unless `training`.

    In a compiled step the mask depends on `set_seed`, the step and the call site, and `seed` is ignored. Raises
    GraphTypeError for a `p` that is not a number, GraphValueError outside of [0, 1].
    """
    tensor = float_of(x)
    if not training or p == 0:
        return tensor
    return masked_dropout(tensor, p, tensor.shape, seed)


@operator_class("MatMul BatchMatMul", "transpose_a transpose_b")
def _matmul(x: TensorLike, other: TensorLike, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """The matrix product over the last two axes, of operands that may be transposed first."""
    x = swapaxes(x, -1, -2) if transpose_a else x
    return matmul(x, swapaxes(other, -1, -2) if transpose_b else other)


def _keep_probability(name: str, keep_prob: TensorLike) -> float:
    return number(name, "keep_prob", keep_prob, 0, 1)


@operator_class("Dropout", "keep_prob Seed0 Seed1")
def _dropout(x: TensorLike, keep_prob: float = 0.5, Seed0: int = 0, Seed1: int = 0) -> tuple[Tensor, Tensor]:
    """Dropout: x divided by `keep_prob` with that probability, else 0; and a mask of the retained elements.

    Raises GraphTypeError and GraphValueError for anything but a probability.
    """
    x, probability = float_of(x), _keep_probability("Dropout", keep_prob)
    if probability == 1:
        return x, ones(x.shape, x.dtype)
    mask = draw("random_bernoulli", joined_seed(Seed0, Seed1), shape=x.shape, probability=probability)
    return where(mask, x * (1 / probability if probability else 0.0), 0.0), cast(mask, x.dtype)


@operator_class("DropoutGenMask", "Seed0 Seed1")
def _dropout_mask(shape: ShapeLike, keep_prob: TensorLike, Seed0: int = 0, Seed1: int = 0) -> Tensor:
    """The mask for `DropoutDoMask`: ones with the probability `keep_prob`, else zeros, uint8 of a shape.

    MindSpore packs eight into one byte. Raises GraphTypeError and GraphValueError for anything but a probability.
    """
    probability, seed = tensor_of(keep_prob), joined_seed(Seed0, Seed1)
    if isinstance(probability, Symbol):
        return cast(standard_uniform(shape, seed) < probability, uint8)
    share = _keep_probability("DropoutGenMask", probability.item())
    return cast(draw("random_bernoulli", seed, shape=random_shape(shape), probability=share), uint8)


@operator_class("DropoutDoMask")
def _masked_dropout(input_x: TensorLike, mask: TensorLike, keep_prob: TensorLike) -> Tensor:
    """x divided by `keep_prob` where a mask of its shape is not 0, and 0 elsewhere.

    Raises GraphValueError for a mask of another shape.
    """
    x, mask, probability = float_of(input_x), tensor_of(mask), tensor_of(keep_prob)
    if mask.shape != x.shape:
        message = f"DropoutDoMask takes a mask in the shape of x, {x.shape}, as of DropoutGenMask, not {mask.type}."
        raise GraphValueError(message)
    return where(mask != 0, x / cast(probability, x.dtype), 0.0)


def _channel_dropout(name: str, axes: int) -> Callable[..., Any]:
    def dropped(x: TensorLike, keep_prob: float = 0.5) -> tuple[Tensor, Tensor]:
        x, share = float_of(x), _keep_probability(name, keep_prob)
        if x.ndim != axes + 2:
            raise GraphValueError(f"{name} takes a tensor of {axes + 2} axes, not {x.type}.")
        if share == 1:
            return x, ones(x.shape, bool_)
        mask = draw("random_bernoulli", shape=(*x.shape[:2], *(1 for _ in range(axes))), probability=share)
        return where(mask, x * (1 / share if share else 0.0), 0.0), broadcast_to(mask, x.shape)

    dropped.__doc__ = "Dropout of channels: x divided by `keep_prob` with that probability, else 0; and the mask."
    return dropped


operator_class("Dropout2D", "keep_prob")(_channel_dropout("Dropout2D", 2))
operator_class("Dropout3D", "keep_prob")(_channel_dropout("Dropout3D", 3))


@operation(classes="ReLU6", cells="ReLU6", also="mint.nn.functional")
def relu6(x: TensorLike) -> Tensor:
    """x clipped to [0, 6]; the gradient is 0 at both."""
    x = relu(x)
    return apply("minimum", *numbers(6.0, x), ties="first")


@operation(cells="LeakyReLU", settings="alpha", also="mint.nn.functional")
def leaky_relu(input: TensorLike, alpha: TensorLike = 0.2) -> Tensor:
    """x where it is positive and alpha * x elsewhere."""
    x = float_of(input)
    return where(x > 0.0, x, mul(x, alpha))


@operation(classes="PReLU", also="mint.nn.functional")
def prelu(x: TensorLike, weight: TensorLike) -> Tensor:
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
def rrelu(input: TensorLike, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = True) -> Tensor:
    """x where it is positive, else x times a random number between `lower` and `upper` for each element.

    Outside of training the number is (lower + upper) / 2 (Xu et al., 2015). Raises GraphTypeError and GraphValueError
    for invalid bounds.
    """
    check_slopes("rrelu", lower, upper)
    x = float_of(input)
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    slopes = _uniform(x.shape) * (upper - lower) + float(lower)
    return leaky_relu(x, dispatch.cast(slopes, x.dtype))


def check_slopes(name: str, lower: TensorLike, upper: TensorLike) -> None:
    """Raise GraphTypeError for anything but numbers, GraphValueError unless 0 <= lower <= upper <= 1."""
    if not 0 <= number(name, "lower", lower) <= number(name, "upper", upper) <= 1:
        raise GraphValueError(f"For {name!r}, 0 <= lower <= upper <= 1, but got {lower} and {upper}.")


def _uniform(shape: tuple[int, ...]) -> Tensor:
    tracer = current_tracer()
    if tracer is not None:
        uniform: Tensor = tracer.random("random_uniform", {"shape": shape})
        return uniform
    return Tensor(generator().random(shape, dtype="float32"))


@operation(classes="Elu", cells="ELU", settings="alpha", also="mint.nn.functional")
@single_session
def elu(input_x: TensorLike, alpha: TensorLike = 1.0) -> Tensor:
    """x where it is positive and alpha * (exp(x) - 1) elsewhere."""
    x = float_of(input_x)
    return where(x > 0.0, x, mul(expm1(_not_positive(x)), alpha))


@operation(classes="SeLU", cells="SeLU", also="mint.nn.functional")
@single_session
def selu(input_x: TensorLike) -> Tensor:
    """scale * elu(x, alpha) with the constants that keep mean 0 and variance 1 (Klambauer et al., 2017)."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    x = float_of(input_x)
    return where(x > 0.0, x * scale, expm1(_not_positive(x)) * (scale * alpha))


def _not_positive(x: Tensor) -> Tensor:
    """x clipped at 0 from above, as exponentials could overflow; nan and the gradient at 0 stay."""
    return where(x > 0.0, 0.0, x)


@operation(classes="CeLU", cells="CELU", settings="alpha", checks={"alpha": number})
@single_session
def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x where it is positive and alpha * (exp(x / alpha) - 1) elsewhere; raises GraphValueError for an alpha of 0."""
    if alpha == 0:
        raise GraphValueError("For 'celu', the 'alpha' must not be 0.")
    x = float_of(x)
    return where(x > 0.0, x, expm1(_not_positive(x) / alpha) * alpha)


@operation(classes="Mish", cells="Mish", also="mint.nn.functional")
@single_session
def mish(x: TensorLike) -> Tensor:
    """x * tanh(log(1 + exp(x))) (Misra, 2019)."""
    return in_single(lambda x: mul(x, tanh(apply("softplus", x))), float_of(x))


@operation(classes="FastGeLU FastGelu", cells="FastGelu")
@single_session
def fast_gelu(x: TensorLike) -> Tensor:
    """x * sigmoid(1.702 * x), an approximation of gelu."""
    return in_single(lambda x: mul(x, sigmoid(mul(x, 1.702))), float_of(x))


@operation(names="hsigmoid", classes="HSigmoid", cells="HSigmoid", also="mint.nn.functional")
@single_session
def hardsigmoid(input: TensorLike) -> Tensor:
    """(x + 3) / 6, clipped to [0, 1]."""
    return relu6(float_of(input) + 3.0) * (1 / 6)


@operation(names="hswish", classes="HSwish", cells="HSwish", also="mint.nn.functional")
@single_session
def hardswish(x: TensorLike) -> Tensor:
    """x * hardsigmoid(x), which is 0 below -3, also at -inf."""
    x = float_of(x)
    return maximum(x, -3.0) * hardsigmoid(x)


@operation(
    cells="Hardtanh", settings="min_val max_val", also="mint.nn.functional",
    checks={"min_val": number, "max_val": number},
)  # fmt: skip
def hardtanh(input: TensorLike, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x clipped to [`min_val`, `max_val`], with gradient 0 at both.

    Raises GraphValueError unless `min_val` is below `max_val`.
    """
    if not min_val < max_val:
        raise GraphValueError(f"For 'hardtanh', 'min_val' must be below 'max_val', but got {min_val} and {max_val}.")
    x = float_of(input)
    return where(x <= min_val, min_val, where(x >= max_val, max_val, x))


@operation(classes="HShrink", cells="HShrink", settings="lambd", also="mint.nn.functional")
def hardshrink(x: Any, lambd: TensorLike = 0.5) -> Tensor:
    """x where its absolute value is above `lambd` and 0 elsewhere."""
    x = float_of(x)
    return where(less_equal(abs(x), lambd), 0.0, x)


@operation(names="soft_shrink", classes="SoftShrink", cells="SoftShrink", settings="lambd", also="mint.nn.functional")
def softshrink(input: TensorLike, lambd: TensorLike = 0.5) -> Tensor:
    """x moved towards 0 by `lambd`, at most to 0."""
    x = float_of(input)
    return where(less_equal(abs(x), lambd), 0.0, x - mul(sign(x), lambd))


@operation(cells="Tanhshrink")
def tanhshrink(input: TensorLike) -> Tensor:
    """x - tanh(x)."""
    return in_single(lambda x: sub(x, tanh(x)), float_of(input))


@operation(also="mint.nn.functional")
def threshold(input: TensorLike, thr: TensorLike, value: TensorLike) -> Tensor:
    """x where it is above `thr` and `value` elsewhere."""
    x = float_of(input)
    return where(less_equal(x, thr), value, x)


@cell("Softplus", "beta threshold")
@operation(classes="Softplus", also="mint.nn.functional", checks={"beta": number, "threshold": number})
def softplus(input: TensorLike, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold.

    Raises GraphValueError for a beta of 0.
    """
    if beta == 0:
        raise GraphValueError("For 'softplus', the 'beta' must not be 0.")
    x = float_of(input)
    scaled = x if beta == 1 else x * beta
    soft = apply("softplus", scaled)
    return where(scaled > threshold, x, soft if beta == 1 else soft / beta)


@operation(classes="Softsign", cells="Softsign")
def softsign(x: TensorLike) -> Tensor:
    """x / (1 + abs(x))."""
    x = float_of(x)
    return x / (abs(x) + 1.0)


@operation(cells="LogSigmoid", also="mint.nn.functional")
def logsigmoid(x: TensorLike) -> Tensor:
    """The logarithm of the logistic function, exact where that is tiny."""
    return -apply("softplus", -float_of(x))


@operation(cells="Softmin", settings="axis")
def softmin(x: TensorLike, axis: int = -1, *, dtype: DTypeLike | None = None) -> Tensor:
    """exp(-x) divided by its sum along an axis; with a `dtype`, x is cast to that first."""
    return softmax(-float_of(x), axis, dtype=dtype)


@operation(cells="Softmax2d")
def softmax2d(x: TensorLike) -> Tensor:
    """The softmax over the channels of images (N, C, H, W) or (C, H, W); raises GraphValueError for another rank."""
    x = tensor_of(x)
    if x.ndim not in (3, 4):
        raise GraphValueError(f"softmax2d takes (N, C, H, W) or (C, H, W), not {x.type}.")
    return softmax(x, -3)


@operation(classes="GLU", cells="GLU", settings="axis", also="mint.nn.functional")
def glu(x: TensorLike, axis: int = -1) -> Tensor:
    """a * sigmoid(b) for the two halves a and b of x along an axis; raises GraphValueError for an odd size."""
    x = float_of(x)
    at = axis_of(axis, x.ndim)
    size = x.shape[at]
    if size % 2:
        raise GraphValueError(f"glu takes an axis of an even size, not axis {axis} of {x.type}.")
    halves = cut(x, at, 0, size // 2), cut(x, at, size // 2, size)
    return in_single(lambda a, b: mul(a, sigmoid(b)), *halves)


_LEAST = float(np.finfo(np.float32).tiny)


@operation(checks={"tau": positive})
def gumbel_softmax(logits: TensorLike, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """The softmax along an axis of (logits + noise) / tau, where the noise has Gumbel's distribution.

    With `hard` the result is 1 at the largest and 0 elsewhere, with the gradient of the softmax (Jang et al.,
    "Categorical Reparameterization with Gumbel-Softmax", 2017). Random numbers are those of `rand`. Raises
    GraphValueError unless `tau` is above 0.
    """
    x = float_of(logits)
    at = axis_of(dim, x.ndim)

    def computed(x: Tensor) -> Tensor:
        soft = softmax((x + _noise(x)) / tau, at)
        if not hard:
            return soft
        chosen = cast(one_hot(argmax(soft, at), x.shape[at], axis=at), x.dtype)
        return chosen + sub(soft, stop_gradient(soft))

    return in_single(computed, x)


def _noise(x: Tensor) -> Tensor:
    uniform = maximum(rand(x.shape), _LEAST)
    return cast(-log(-log(uniform)), x.dtype)
