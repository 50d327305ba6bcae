"""Operator classes of Adam and its variants, which update parameters (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ops.elementwise import abs, add, cast, div, maximum, mul, sqrt, square, sub
from graphls.ops.operands import float_of
from graphls.ops.operator import described_as
from graphls.ops.parameter_updates import averaged, moved, value_of, written
from graphls.tensors.tensor import Tensor


def _adam_rate(lr: Any, beta1_power: Any, beta2_power: Any) -> Tensor:
    return div(mul(lr, sqrt(sub(1.0, float_of(beta2_power)))), sub(1.0, float_of(beta1_power)))


def _moments(m: Any, v: Any, beta1: Any, beta2: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    return averaged(m, beta1, g), averaged(v, beta2, square(g))


def _adam_step(
    m: Any, v: Any, powers: tuple[Any, Any], lr: Any, betas: tuple[Any, Any], epsilon: Any, g: Tensor, nesterov: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """What a parameter loses in Adam, and both moments."""
    first, second = _moments(m, v, *betas, g)
    beta1 = cast(betas[0], g.dtype)
    ahead = add(mul(first, beta1), mul(g, sub(1.0, beta1))) if nesterov else first
    step = div(mul(ahead, _adam_rate(lr, *powers)), add(sqrt(second), epsilon))
    return step, first, second


def _adam(
    var: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any,
    gradient: Any, use_locking: bool = False, use_nesterov: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """m and v average g and g ** 2; var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon).

    Gives all three. With `use_nesterov`, beta1 * m + (1 - beta1) * g stands in place of m.
    """
    powers, betas = (beta1_power, beta2_power), (beta1, beta2)
    step, *moments = _adam_step(m, v, powers, lr, betas, epsilon, float_of(gradient), use_nesterov)
    return moved(var, step), moments[0], moments[1]


def _adam_without_update(
    m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, gradient: Any,
    use_locking: bool = False, use_nesterov: bool = False,
) -> Tensor:  # fmt: skip
    """What `Adam` would add to a parameter; only the moments are written."""
    powers, betas = (beta1_power, beta2_power), (beta1, beta2)
    step, *_ = _adam_step(m, v, powers, lr, betas, epsilon, float_of(gradient), use_nesterov)
    return mul(step, -1.0)


def _adam_weight_decay(
    var: Any, m: Any, v: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, decay: Any, gradient: Any,
    use_locking: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """m and v average g and g ** 2; var -= lr * (m / (sqrt(v) + epsilon) + decay * var). Gives all three."""
    first, second = _moments(m, v, beta1, beta2, float_of(gradient))
    step = add(div(first, add(sqrt(second), epsilon)), mul(value_of(var), decay))
    return moved(var, mul(step, lr)), first, second


def _ada_max(
    var: Any, m: Any, v: Any, beta1_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, grad: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """m averages g, v = max(beta2 * v, |g|); var -= lr / (1 - beta1_power) * m / (v + epsilon). Gives all three."""
    g = float_of(grad)
    first = averaged(m, beta1, g)
    largest = written(v, maximum(mul(value_of(v), beta2), abs(g)))
    rate = div(lr, sub(1.0, float_of(beta1_power)))
    return moved(var, div(mul(first, rate), add(largest, epsilon))), first, largest


def _amsgrad_with(
    var: Any, m: Any, v: Any, vhat: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any,
    epsilon: Any, grad: Any, use_locking: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`Adam` with the largest v so far, vhat, in place of v (Reddi et al., 2018); gives all four."""
    first, second = _moments(m, v, beta1, beta2, float_of(grad))
    largest = written(vhat, maximum(value_of(vhat), second))
    step = div(mul(first, _adam_rate(lr, beta1_power, beta2_power)), add(sqrt(largest), epsilon))
    return moved(var, step), first, second, largest


@described_as(_amsgrad_with)
def _amsgrad(
    var: Any, m: Any, v: Any, vhat: Any, beta1_power: Any, beta2_power: Any, lr: Any, grad: Any, beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-8, use_locking: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return _amsgrad_with(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)


PLAIN: dict[str, Callable[..., Any]] = {
    "ApplyAdaMax": _ada_max,
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Adam": (_adam, {"use_locking": False, "use_nesterov": False}),
    "AdamNoUpdateParam": (_adam_without_update, {"use_locking": False, "use_nesterov": False}),
    "AdamWeightDecay": (_adam_weight_decay, {"use_locking": False}),
    "ApplyAdamWithAmsgrad": (_amsgrad, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "use_locking": False}),
    "ApplyAdamWithAmsgradV2": (_amsgrad_with, {"use_locking": False}),
}
