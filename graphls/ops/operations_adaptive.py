"""Operator classes of steps over the size of past gradients (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ops.elementwise import add, cast, div, mul, pow, sqrt, square, sub
from graphls.ops.operands import float_of
from graphls.ops.operator import REQUIRED
from graphls.ops.parameter_updates import averaged, moved, proximal_step, shrunk, value_of, written
from graphls.tensors.tensor import Tensor


def _adadelta(
    var: Any, accum: Any, accum_update: Any, lr: Any, rho: Any, epsilon: Any, grad: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Steps of the root mean square of the last steps over that of the gradients (Zeiler, 2012); gives all three."""
    g = float_of(grad)
    squares = averaged(accum, rho, square(g))
    step = mul(div(sqrt(add(value_of(accum_update), epsilon)), sqrt(add(squares, epsilon))), g)
    steps = averaged(accum_update, rho, square(step))
    return moved(var, mul(step, lr)), squares, steps


def _adagrad(var: Any, accum: Any, lr: Any, grad: Any, update_slots: bool = True) -> tuple[Tensor, Tensor]:
    """accum += g ** 2 where `update_slots`; var -= lr * g / sqrt(accum). Gives both."""
    g = float_of(grad)
    squares = written(accum, add(value_of(accum), square(g))) if update_slots else value_of(accum)
    return moved(var, div(mul(g, lr), sqrt(squares))), squares


def _adagrad_with_epsilon(
    var: Any, accum: Any, lr: Any, grad: Any, epsilon: float, update_slots: bool = True
) -> tuple[Tensor, Tensor]:
    """accum += g ** 2 where `update_slots`; var -= lr * g / (sqrt(accum) + epsilon). Gives both."""
    g = float_of(grad)
    squares = written(accum, add(value_of(accum), square(g))) if update_slots else value_of(accum)
    return moved(var, div(mul(g, lr), add(sqrt(squares), epsilon))), squares


def _adagrad_dual_averaging(
    var: Any, gradient_accumulator: Any, gradient_squared_accumulator: Any, grad: Any, lr: Any, l1: Any, l2: Any,
    global_step: Any, use_locking: bool = False,
) -> Tensor:  # fmt: skip
    """var from the sums of all gradients and of their squares, shrunk by l1 (Duchi et al., 2011)."""
    g, steps = float_of(grad), cast(float_of(global_step), float_of(grad).dtype)
    total = written(gradient_accumulator, add(value_of(gradient_accumulator), g))
    squares = written(gradient_squared_accumulator, add(value_of(gradient_squared_accumulator), square(g)))
    step = mul(shrunk(total, mul(steps, l1)), lr)
    return written(var, div(mul(step, -1.0), add(mul(mul(steps, l2), lr), sqrt(squares))))


def _rms_prop(
    var: Any, mean_square: Any, moment: Any, learning_rate: Any, grad: Any, decay: Any, momentum: Any, epsilon: Any,
    use_locking: bool = False,
) -> Tensor:  # fmt: skip
    """mean_square averages g ** 2; moment = momentum * moment + lr * g / sqrt(mean_square + epsilon); var -= moment."""
    g = float_of(grad)
    squares = averaged(mean_square, decay, square(g))
    return moved(var, _moment(moment, momentum, learning_rate, g, add(squares, epsilon)))


def _moment(moment: Any, momentum: Any, rate: Any, g: Tensor, variance: Tensor) -> Tensor:
    return written(moment, add(mul(value_of(moment), momentum), div(mul(g, rate), sqrt(variance))))


def _centered_rms_prop(
    var: Any, mean_gradient: Any, mean_square: Any, moment: Any, grad: Any, learning_rate: Any, decay: Any,
    momentum: Any, epsilon: Any, use_locking: bool = False,
) -> Tensor:  # fmt: skip
    """As `ApplyRMSProp`, with mean_square - mean_gradient ** 2 in place of mean_square."""
    g = float_of(grad)
    squares, average = averaged(mean_square, decay, square(g)), averaged(mean_gradient, decay, g)
    variance = add(sub(squares, square(average)), epsilon)
    return moved(var, _moment(moment, momentum, learning_rate, g, variance))


def _ftrl(
    var: Any, accum: Any, linear: Any, grad: Any, lr: Any, l1: Any, l2: Any, lr_power: Any, use_locking: bool = False
) -> Tensor:
    """Follow the regularized leader, with l1 and l2 (McMahan et al., 2013); `accum` and `linear` are written, too."""
    g, old, exponent = float_of(grad), value_of(accum), mul(lr_power, -1.0)
    squares = written(accum, add(old, square(g)))
    before, after = pow(old, exponent), pow(squares, exponent)
    total = written(linear, sub(add(value_of(linear), g), mul(div(sub(after, before), lr), value_of(var))))
    return written(var, div(mul(shrunk(total, l1), -1.0), add(div(after, lr), mul(l2, 2.0))))


def _proximal_adagrad(
    var: Any, accum: Any, lr: Any, l1: Any, l2: Any, grad: Any, use_locking: bool = False
) -> tuple[Tensor, Tensor]:
    """accum += g ** 2; a step by lr / sqrt(accum), then shrunk by l1 and divided by l2. Gives both."""
    g = float_of(grad)
    squares = written(accum, add(value_of(accum), square(g)))
    return proximal_step(var, div(lr, sqrt(squares)), l1, l2, g), squares


PLAIN: dict[str, Callable[..., Any]] = {
    "ApplyAdadelta": _adadelta,
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ApplyAdagrad": (_adagrad, {"update_slots": True}),
    "ApplyAdagradDA": (_adagrad_dual_averaging, {"use_locking": False}),
    "ApplyAdagradV2": (_adagrad_with_epsilon, {"epsilon": REQUIRED, "update_slots": True}),
    "ApplyCenteredRMSProp": (_centered_rms_prop, {"use_locking": False}),
    "ApplyFtrl": (_ftrl, {"use_locking": False}),
    "ApplyProximalAdagrad": (_proximal_adagrad, {"use_locking": False}),
    "ApplyRMSProp": (_rms_prop, {"use_locking": False}),
}
