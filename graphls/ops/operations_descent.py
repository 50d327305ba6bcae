"""Operator classes of steps along gradients, with and without momentum (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ops.elementwise import add, div, exp, minimum, mul, sign, sqrt, sub
from graphls.ops.logic import greater, logical_and, where
from graphls.ops.operands import float_of
from graphls.ops.parameter_updates import averaged, moved, proximal_step, value_of, written
from graphls.tensors.tensor import Tensor


def _gradient_descent(var: Any, alpha: Any, delta: Any) -> Tensor:
    """var -= alpha * delta."""
    return moved(var, mul(float_of(delta), alpha))


def _momentum(
    variable: Any, accumulation: Any, learning_rate: Any, gradient: Any, momentum: Any, use_nesterov: bool = False,
    use_locking: bool = False, gradient_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """accum = momentum * accum + g; var -= lr * accum, or lr * (g + momentum * accum) with `use_nesterov`.

    g is the gradient times `gradient_scale`.
    """
    g = mul(float_of(gradient), gradient_scale) if gradient_scale != 1 else float_of(gradient)
    velocity = written(accumulation, add(mul(value_of(accumulation), momentum), g))
    return moved(variable, mul(add(g, mul(velocity, momentum)) if use_nesterov else velocity, learning_rate))


def _scaled_momentum(
    weight_decay: Any, loss_scale: Any, variable: Any, accumulation: Any, learning_rate: Any, gradient: Any,
    momentum: Any,
) -> Tensor:  # fmt: skip
    """`ApplyMomentum` of the gradient times `loss_scale` plus `weight_decay` times the parameter."""
    g = add(mul(float_of(gradient), loss_scale), mul(value_of(variable), weight_decay))
    return _momentum(variable, accumulation, learning_rate, g, momentum)


def _keras_momentum(
    var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, use_locking: bool = False, use_nesterov: bool = False
) -> tuple[Tensor, Tensor]:
    """accum = momentum * accum - lr * g; var += accum, or momentum * accum - lr * g with `use_nesterov`. Gives both."""
    step = mul(float_of(grad), lr)
    velocity = written(accum, sub(mul(value_of(accum), momentum), step))
    return written(var, add(value_of(var), sub(mul(velocity, momentum), step) if use_nesterov else velocity)), velocity


def _sgd(
    parameters: Any, gradient: Any, learning_rate: Any, accum: Any, momentum: Any, stat: Any, dampening: float = 0.0,
    weight_decay: float = 0.0, nesterov: bool = False,
) -> Tensor:  # fmt: skip
    """accum = momentum * accum + (1 - dampening) * g, or g where `stat` is above 0, which becomes 0; then a step of it.

    The step is lr * accum, or lr * (g + momentum * accum) with `nesterov`, and lr * g where the momentum is 0. g is the
    gradient plus `weight_decay` times the parameter.
    """
    g, first = float_of(gradient), greater(value_of(stat), 0.0)
    g = add(g, mul(value_of(parameters), weight_decay)) if weight_decay else g
    old = value_of(accum)
    velocity = where(first, g, add(mul(old, momentum), mul(g, 1.0 - dampening) if dampening else g))
    ahead = add(g, mul(velocity, momentum)) if nesterov else velocity
    moves = greater(float_of(momentum), 0.0)
    written(accum, where(moves, velocity, old))
    written(stat, where(moves, 0.0, value_of(stat)))
    return moved(parameters, mul(where(moves, ahead, g), learning_rate))


def _add_sign(var: Any, m: Any, lr: Any, alpha: Any, sign_decay: Any, beta: Any, grad: Any) -> tuple[Tensor, Tensor]:
    """m averages g; var -= lr * (alpha + sign_decay * sign(g) * sign(m)) * g (Bello et al., 2017). Gives both."""
    g = float_of(grad)
    first = averaged(m, beta, g)
    factor = add(mul(mul(sign(g), sign(first)), sign_decay), alpha)
    return moved(var, mul(mul(g, factor), lr)), first


def _power_sign(
    var: Any, m: Any, lr: Any, logbase: Any, sign_decay: Any, beta: Any, grad: Any
) -> tuple[Tensor, Tensor]:
    """m averages g; var -= lr * exp(logbase * sign_decay * sign(g) * sign(m)) * g (Bello et al., 2017). Gives both."""
    g = float_of(grad)
    first = averaged(m, beta, g)
    factor = exp(mul(mul(mul(sign(g), sign(first)), sign_decay), logbase))
    return moved(var, mul(mul(g, factor), lr)), first


def _proximal_descent(var: Any, alpha: Any, l1: Any, l2: Any, delta: Any) -> Tensor:
    """var -= alpha * delta, then moved towards 0 by alpha * l1 and divided by 1 + alpha * l2."""
    return proximal_step(var, float_of(alpha), l1, l2, float_of(delta))


def _layerwise_rate(
    weight: Any, gradient: Any, norm_weight: Any, norm_gradient: Any, weight_decay: Any, learning_rate: Any,
    epsilon: float = 1e-5, hyperpara: float = 0.001, use_clip: bool = False,
) -> Tensor:  # fmt: skip
    """The gradient, with `weight_decay` times the weight, times the rate of its layer (You et al., 2017).

    The rate is hyperpara * w / (g + weight_decay * w + epsilon) for the roots w and g of `norm_weight` and
    `norm_gradient`, the sums of squares, and 1 where one of them is 0; with `use_clip` it is that over the learning
    rate, at most 1.
    """
    w, g = sqrt(float_of(norm_weight)), sqrt(float_of(norm_gradient))
    rate = div(mul(w, hyperpara), add(add(g, mul(w, weight_decay)), epsilon))
    rate = where(logical_and(greater(w, 0.0), greater(g, 0.0)), rate, 1.0)
    rate = minimum(div(rate, learning_rate), 1.0) if use_clip else rate
    return mul(add(float_of(gradient), mul(value_of(weight), weight_decay)), rate)


PLAIN: dict[str, Callable[..., Any]] = {
    "ApplyAddSign": _add_sign,
    "ApplyGradientDescent": _gradient_descent,
    "ApplyPowerSign": _power_sign,
    "ApplyProximalGradientDescent": _proximal_descent,
    "FusedWeightScaleApplyMomentum": _scaled_momentum,
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ApplyKerasMomentum": (_keras_momentum, {"use_locking": False, "use_nesterov": False}),
    "ApplyMomentum": (_momentum, {"use_nesterov": False, "use_locking": False, "gradient_scale": 1.0}),
    "LARSUpdate": (_layerwise_rate, {"epsilon": 1e-05, "hyperpara": 0.001, "use_clip": False}),
    "SGD": (_sgd, {"dampening": 0.0, "weight_decay": 0.0, "nesterov": False}),
}
