"""Operator classes that update parameters, by the rules of `update_rules.py`."""

from __future__ import annotations

from typing import Any

from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.math.elementwise import (
    add,
    cast,
    div,
    exp,
    minimum,
    mul,
    reciprocal,
    sign,
    sqrt,
    square,
    where,
)
from graphls.ops.operands import Operand, float_of
from graphls.ops.record import operator_class
from graphls.ops.update_rules import (
    ada_max_step,
    adadelta_step,
    adagrad_sums,
    adam_correction,
    adam_direction,
    adam_moments,
    adam_step,
    ahead,
    averaged,
    damped,
    ftrl_weight,
    momentum_step,
    moved,
    proximal,
    rms_step,
    shrunk,
    summed,
    value_of,
    written,
)

# -- along the gradient ---------------------------------------------------------------------------------------


@operator_class("ApplyGradientDescent")
def _gradient_descent(var: TensorLike, alpha: TensorLike, delta: TensorLike) -> Tensor:
    """var -= alpha * delta."""
    return moved(var, mul(float_of(delta), alpha))


@operator_class("ApplyMomentum", "use_nesterov use_locking gradient_scale")
def _momentum(
    variable: TensorLike, accumulation: TensorLike, learning_rate: TensorLike, gradient: TensorLike,
    momentum: TensorLike, use_nesterov: bool = False,
    use_locking: bool = False, gradient_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """accum = momentum * accum + g; var -= lr * accum, or lr * (g + momentum * accum) with `use_nesterov`.

    g is the gradient times `gradient_scale`.
    """
    g = float_of(gradient) * gradient_scale if gradient_scale != 1 else float_of(gradient)
    return moved(variable, mul(momentum_step(accumulation, g, momentum, use_nesterov), learning_rate))


@operator_class("FusedWeightScaleApplyMomentum")
def _scaled_momentum(
    weight_decay: TensorLike, loss_scale: TensorLike, variable: Tensor, accumulation: TensorLike,
    learning_rate: TensorLike, gradient: TensorLike,
    momentum: TensorLike,
) -> Tensor:  # fmt: skip
    """`ApplyMomentum` of the gradient times `loss_scale` plus `weight_decay` times the parameter."""
    g = mul(float_of(gradient), loss_scale) + mul(value_of(variable), weight_decay)
    return _momentum(variable, accumulation, learning_rate, g, momentum)


@operator_class("ApplyKerasMomentum", "use_locking use_nesterov")
def _keras_momentum(
    var: TensorLike,
    accum: TensorLike,
    lr: TensorLike,
    grad: TensorLike,
    momentum: Tensor,
    use_locking: bool = False,
    use_nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """accum = momentum * accum - lr * g; var += accum, or momentum * accum - lr * g with `use_nesterov`; both."""
    step = mul(float_of(grad), lr)
    velocity = written(accum, value_of(accum) * momentum - step)
    return summed(var, velocity * momentum - step if use_nesterov else velocity), velocity


@operator_class("SGD", "dampening weight_decay nesterov")
def _sgd(
    parameters: Any, gradient: TensorLike, learning_rate: TensorLike, accum: TensorLike, momentum: TensorLike,
    stat: TensorLike, dampening: float = 0.0,
    weight_decay: float = 0.0, nesterov: bool = False,
) -> Tensor:  # fmt: skip
    """accum = momentum * accum + (1 - dampening) * g, or g where `stat` is above 0, which becomes 0; then a step of it.

    The step is lr * accum, or lr * (g + momentum * accum) with `nesterov`, and lr * g where the momentum is 0. g is the
    gradient plus `weight_decay` times the parameter.
    """
    g, first = float_of(gradient), value_of(stat) > 0.0
    g = g + value_of(parameters) * weight_decay if weight_decay else g
    old = value_of(accum)
    velocity = where(first, g, damped(old, g, momentum, dampening))
    step = ahead(g, velocity, momentum) if nesterov else velocity
    moves = float_of(momentum) > 0.0
    written(accum, where(moves, velocity, old))
    written(stat, where(moves, 0.0, value_of(stat)))
    return moved(parameters, mul(where(moves, step, g), learning_rate))


@operator_class("ApplyAddSign")
def _add_sign(
    var: TensorLike,
    m: TensorLike,
    lr: TensorLike,
    alpha: TensorLike,
    sign_decay: TensorLike,
    beta: TensorLike,
    grad: TensorLike,
) -> tuple[Tensor, Tensor]:
    """m averages g; var -= lr * (alpha + sign_decay * sign(g) * sign(m)) * g (Bello et al., 2017). Gives both."""
    g = float_of(grad)
    first = averaged(m, beta, g)
    factor = add(_agreement(g, first, sign_decay), alpha)
    return moved(var, mul(g * factor, lr)), first


@operator_class("ApplyPowerSign")
def _power_sign(
    var: TensorLike,
    m: TensorLike,
    lr: TensorLike,
    logbase: TensorLike,
    sign_decay: TensorLike,
    beta: TensorLike,
    grad: TensorLike,
) -> tuple[Tensor, Tensor]:
    """m averages g; var -= lr * exp(logbase * sign_decay * sign(g) * sign(m)) * g (Bello et al., 2017). Gives both."""
    g = float_of(grad)
    first = averaged(m, beta, g)
    factor = exp(mul(_agreement(g, first, sign_decay), logbase))
    return moved(var, mul(g * factor, lr)), first


def _agreement(g: Tensor, average: Tensor, sign_decay: TensorLike) -> Tensor:
    """`sign_decay` where a gradient has the sign of its average, -`sign_decay` where it has the opposite one."""
    return mul(sign(g) * sign(average), sign_decay)


@operator_class("ApplyProximalGradientDescent")
def _proximal_descent(var: TensorLike, alpha: TensorLike, l1: TensorLike, l2: TensorLike, delta: TensorLike) -> Tensor:
    """var -= alpha * delta, then moved towards 0 by alpha * l1 and divided by 1 + alpha * l2."""
    rate = float_of(alpha)
    return written(var, proximal(value_of(var) - float_of(delta) * rate, rate, l1, l2))


@operator_class("LARSUpdate", "epsilon hyperpara use_clip")
def _layerwise_rate(
    weight: TensorLike, gradient: TensorLike, norm_weight: TensorLike, norm_gradient: TensorLike,
    weight_decay: TensorLike, learning_rate: TensorLike,
    epsilon: float = 1e-5, hyperpara: float = 0.001, use_clip: bool = False,
) -> Tensor:  # fmt: skip
    """The gradient, with `weight_decay` times the weight, times the rate of its layer (You et al., 2017).

    The rate is hyperpara * w / (g + weight_decay * w + epsilon) for the roots w and g of `norm_weight` and
    `norm_gradient`, the sums of squares, and 1 where one of them is 0; with `use_clip` it is that over the learning
    rate, at most 1.
    """
    w, g = sqrt(float_of(norm_weight)), sqrt(float_of(norm_gradient))
    rate = w * hyperpara / (g + mul(w, weight_decay) + epsilon)
    rate = where((w > 0.0) & (g > 0.0), rate, 1.0)
    rate = minimum(div(rate, learning_rate), 1.0) if use_clip else rate
    return (float_of(gradient) + mul(value_of(weight), weight_decay)) * rate


# -- Adam and its variants ------------------------------------------------------------------------------------


def _adam_rate(lr: TensorLike, beta1_power: TensorLike, beta2_power: TensorLike) -> Tensor:
    return mul(lr, adam_correction(float_of(beta1_power), float_of(beta2_power)))


@operator_class("Adam", "use_locking use_nesterov")
def _adam(
    var: TensorLike, m: TensorLike, v: TensorLike, beta1_power: TensorLike, beta2_power: TensorLike, lr: TensorLike,
    beta1: TensorLike, beta2: TensorLike, epsilon: TensorLike,
    gradient: TensorLike, use_locking: bool = False, use_nesterov: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """m and v average g and g ** 2; var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon).

    Returns all three. With `use_nesterov`, beta1 * m + (1 - beta1) * g replaces m.
    """
    rate, betas = _adam_rate(lr, beta1_power, beta2_power), (beta1, beta2)
    step, *moments = adam_step((m, v), float_of(gradient), betas, rate, epsilon, use_nesterov)
    return moved(var, step), *moments


@operator_class("AdamNoUpdateParam", "use_locking use_nesterov")
def _adam_without_update(
    m: TensorLike, v: TensorLike, beta1_power: TensorLike, beta2_power: TensorLike, lr: TensorLike, beta1: TensorLike,
    beta2: TensorLike, epsilon: TensorLike, gradient: TensorLike,
    use_locking: bool = False, use_nesterov: bool = False,
) -> Tensor:  # fmt: skip
    """The change that `Adam` would add to a parameter; only the moments are written."""
    rate, betas = _adam_rate(lr, beta1_power, beta2_power), (beta1, beta2)
    return adam_step((m, v), float_of(gradient), betas, rate, epsilon, use_nesterov)[0] * -1.0


@operator_class("AdamWeightDecay", "use_locking")
def _adam_weight_decay(
    var: TensorLike, m: TensorLike, v: TensorLike, lr: TensorLike, beta1: TensorLike, beta2: TensorLike,
    epsilon: TensorLike, decay: TensorLike, gradient: TensorLike,
    use_locking: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """m and v average g and g ** 2; var -= lr * (m / (sqrt(v) + epsilon) + decay * var). Gives all three."""
    first, second = adam_moments(m, v, float_of(gradient), (beta1, beta2))
    step = adam_direction(first, second, value_of(var), epsilon, decay)
    return moved(var, mul(step, lr)), first, second


@operator_class("ApplyAdaMax")
def _ada_max(
    var: TensorLike,
    m: TensorLike,
    v: TensorLike,
    beta1_power: TensorLike,
    lr: TensorLike,
    beta1: TensorLike,
    beta2: TensorLike,
    epsilon: TensorLike,
    grad: TensorLike,
) -> tuple[Tensor, Tensor, Tensor]:
    """m averages g, v = max(beta2 * v, |g|); var -= lr / (1 - beta1_power) * m / (v + epsilon). Gives all three."""
    rate = div(lr, 1.0 - float_of(beta1_power))
    step, first, largest = ada_max_step(m, v, float_of(grad), (beta1, beta2), rate, epsilon)
    return moved(var, step), first, largest


@operator_class("ApplyAdamWithAmsgradV2", "use_locking")
def _amsgrad_with(
    var: TensorLike, m: TensorLike, v: TensorLike, vhat: TensorLike, beta1_power: TensorLike, beta2_power: TensorLike,
    lr: TensorLike, beta1: TensorLike, beta2: TensorLike,
    epsilon: TensorLike, grad: TensorLike, use_locking: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """`Adam` with the largest v so far, vhat, in place of v (Reddi et al., 2018); gives all four."""
    rate = _adam_rate(lr, beta1_power, beta2_power)
    step, *states = adam_step((m, v, vhat), float_of(grad), (beta1, beta2), rate, epsilon)
    return moved(var, step), *states


@operator_class("ApplyAdamWithAmsgrad", "beta1 beta2 epsilon use_locking", like=_amsgrad_with)
def _amsgrad(
    var: TensorLike, m: TensorLike, v: TensorLike, vhat: TensorLike, beta1_power: TensorLike, beta2_power: TensorLike,
    lr: TensorLike, grad: TensorLike, beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-8, use_locking: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    return _amsgrad_with(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)


# -- over the size of past gradients --------------------------------------------------------------------------


@operator_class("ApplyAdadelta")
def _adadelta(
    var: TensorLike,
    accum: TensorLike,
    accum_update: TensorLike,
    lr: TensorLike,
    rho: TensorLike,
    epsilon: TensorLike,
    grad: TensorLike,
) -> tuple[Tensor, Tensor, Tensor]:
    """Steps of the root mean square of the last steps over that of the gradients (Zeiler, 2012); returns all three."""
    step, squares, steps = adadelta_step(accum, accum_update, float_of(grad), rho, epsilon)
    return moved(var, mul(step, lr)), squares, steps


@operator_class("ApplyAdagrad", "update_slots")
def _adagrad(
    var: TensorLike, accum: TensorLike, lr: TensorLike, grad: TensorLike, update_slots: bool = True
) -> tuple[Tensor, Tensor]:
    """accum += g ** 2 where `update_slots`; var -= lr * g / sqrt(accum). Gives both."""
    g = float_of(grad)
    squares = adagrad_sums(accum, g, update_slots)
    return moved(var, mul(g, lr) / sqrt(squares)), squares


@operator_class("ApplyAdagradV2", "epsilon update_slots")
def _adagrad_with_epsilon(
    var: TensorLike, accum: TensorLike, lr: TensorLike, grad: TensorLike, epsilon: float, update_slots: bool = True
) -> tuple[Tensor, Tensor]:
    """accum += g ** 2 where `update_slots`; var -= lr * g / (sqrt(accum) + epsilon). Gives both."""
    g = float_of(grad)
    squares = adagrad_sums(accum, g, update_slots)
    return moved(var, mul(g, lr) / (sqrt(squares) + epsilon)), squares


@operator_class("ApplyAdagradDA", "use_locking")
def _adagrad_dual_averaging(
    var: TensorLike, gradient_accumulator: TensorLike, gradient_squared_accumulator: TensorLike, grad: TensorLike,
    lr: TensorLike, l1: TensorLike, l2: TensorLike,
    global_step: TensorLike, use_locking: bool = False,
) -> Tensor:  # fmt: skip
    """var from the sums of all gradients and of their squares, shrunk by l1 (Duchi et al., 2011)."""
    g, steps = float_of(grad), cast(float_of(global_step), float_of(grad).dtype)
    total, squares = summed(gradient_accumulator, g), summed(gradient_squared_accumulator, square(g))
    step = mul(shrunk(total, mul(steps, l1)), lr)
    return written(var, step * -1.0 / (mul(mul(steps, l2), lr) + sqrt(squares)))


@operator_class("ApplyRMSProp", "use_locking")
def _rms_prop(
    var: TensorLike, mean_square: TensorLike, moment: TensorLike, learning_rate: TensorLike, grad: TensorLike,
    decay: TensorLike, momentum: TensorLike, epsilon: TensorLike,
    use_locking: bool = False,
) -> Tensor:  # fmt: skip
    """mean_square averages g ** 2; moment = momentum * moment + lr * g / sqrt(mean_square + epsilon); var -= moment."""
    return moved(var, rms_step(mean_square, moment, float_of(grad), learning_rate, decay, momentum, epsilon))


@operator_class("ApplyCenteredRMSProp", "use_locking")
def _centered_rms_prop(
    var: TensorLike, mean_gradient: TensorLike, mean_square: TensorLike, moment: TensorLike, grad: TensorLike,
    learning_rate: TensorLike, decay: TensorLike,
    momentum: TensorLike, epsilon: TensorLike, use_locking: bool = False,
) -> Tensor:  # fmt: skip
    """As `ApplyRMSProp`, with mean_square - mean_gradient ** 2 in place of mean_square."""
    g = float_of(grad)
    return moved(var, rms_step(mean_square, moment, g, learning_rate, decay, momentum, epsilon, mean_gradient))


@operator_class("ApplyFtrl", "use_locking")
def _ftrl(
    var: Operand,
    accum: Operand,
    linear: Operand,
    grad: Operand,
    lr: TensorLike,
    l1: Operand,
    l2: Operand,
    lr_power: Operand,
    use_locking: bool = False,
) -> Tensor:
    """Follow the regularized leader, with l1 and l2 (McMahan et al., 2013); `accum` and `linear` are written, too."""
    inverse = reciprocal(float_of(lr))
    return written(var, ftrl_weight(accum, linear, value_of(var), float_of(grad), inverse, lr_power, l1, l2))


@operator_class("ApplyProximalAdagrad", "use_locking")
def _proximal_adagrad(
    var: TensorLike,
    accum: TensorLike,
    lr: TensorLike,
    l1: TensorLike,
    l2: TensorLike,
    grad: TensorLike,
    use_locking: bool = False,
) -> tuple[Tensor, Tensor]:
    """accum += g ** 2; a step by lr / sqrt(accum), then shrunk by l1 and divided by l2. Gives both."""
    g = float_of(grad)
    squares = adagrad_sums(accum, g)
    rate = div(lr, sqrt(squares))
    return written(var, proximal(value_of(var) - g * rate, rate, l1, l2)), squares
