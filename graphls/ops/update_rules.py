"""Update rules of parameters, shared by the optimizers of `nn` and the operator classes of `updates.py`.

A rule writes the states of a parameter and returns the step to subtract from the parameter, or its new value. States
are parameters, read in their own dtype and written in place; rates, betas and the like are numbers or tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.states import StateSymbol
from graphls.frontend.trace.tracer import current_tracer
from graphls.ops.eight_bit_states import EightBitState
from graphls.ops.math.elementwise import (
    abs,
    add,
    clip_by_value,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    sqrt,
    square,
    sub,
)
from graphls.ops.operands import Operand, float_of, state_of, tensor_of
from graphls.ops.state import assign

FLOAT32 = np.finfo(np.float32)
"""The limits of float32."""


# -- states ---------------------------------------------------------------------------------------------------


def _parameter(x: TensorLike) -> Parameter | None:
    """The parameter itself, also through `depend`."""
    state = x.parameter if isinstance(x, StateSymbol) else x
    return state if isinstance(state, Parameter) else None


def value_of(x: TensorLike) -> Tensor:
    """The value of a parameter, or a tensor; of a state in 8 bits in float32."""
    parameter = _parameter(x)
    if isinstance(parameter, EightBitState):
        return parameter.read()
    return tensor_of(x) if parameter is None else state_of(parameter)


def written(x: TensorLike, value: Tensor) -> Tensor:
    """Assign a new value to a parameter, or outside of a trace to a tensor; raises GraphTypeError for a slice."""
    parameter = _parameter(x)
    if isinstance(parameter, EightBitState):
        return parameter.write(value)
    if parameter is None and current_tracer() is not None:
        raise GraphTypeError(
            f"What an operator updates is a Parameter, not {tensor_of(x).type}, whose value nothing would keep; give "
            "a Parameter itself (inside vmap there are slices only)."
        )
    return assign(x, value)


def moved(x: TensorLike, step: Tensor) -> Tensor:
    """x without a step, written."""
    return written(x, value_of(x) - step)


def summed(x: TensorLike, new: Tensor) -> Tensor:
    """x + new, written."""
    return written(x, value_of(x) + new)


def averaged(x: TensorLike, share: Any, new: Tensor) -> Tensor:
    """share * x + (1 - share) * new, written."""
    return written(x, mul(value_of(x), share) + mul(new, rest_of(share)))


def rest_of(share: Any) -> Any:
    """1 - share for the float32 nearest to a number, so that both weights sum to 1 and match powers of the share."""
    if isinstance(share, (int, float)):
        return float(np.float32(1) - np.float32(share))
    return 1.0 - float_of(share)


def _is(value: TensorLike, number: float) -> bool:
    """True if a setting is that Python number; false for a tensor."""
    return isinstance(value, (int, float)) and value == number


# -- momentum -------------------------------------------------------------------------------------------------


def momentum_step(accum: TensorLike, g: Tensor, momentum: TensorLike, nesterov: bool) -> Tensor:
    """accum = momentum * accum + g; the step is accum, or g + momentum * accum with `nesterov`."""
    velocity = written(accum, mul(value_of(accum), momentum) + g)
    return ahead(g, velocity, momentum) if nesterov else velocity


def ahead(g: Tensor, velocity: Tensor, momentum: TensorLike) -> Tensor:
    """The step of Nesterov's momentum: g + momentum * velocity."""
    return g + mul(velocity, momentum)


def damped(old: Tensor, g: Tensor, momentum: TensorLike, dampening: float) -> Tensor:
    """The velocity of gradient descent: momentum * old + (1 - dampening) * g."""
    return mul(old, momentum) + (g * (1 - dampening) if dampening else g)


# -- Adam and its variants ------------------------------------------------------------------------------------


def adam_correction(power1: TensorLike, power2: TensorLike) -> Tensor:
    """The bias correction of Adam's rate, sqrt(1 - power2) / (1 - power1) for the powers of the betas."""
    return sqrt(sub(1.0, power2)) / sub(1.0, power1)


def adam_step(
    states: tuple[Any, ...],
    g: Tensor,
    betas: tuple[Any, Any],
    rate: TensorLike,
    epsilon: TensorLike,
    nesterov: bool = False,
) -> tuple[Tensor, ...]:
    """The step rate * m / (sqrt(v) + epsilon), and the new states: the averages m of g and v of g ** 2.

    A third state is the largest v so far, which replaces v (Reddi et al., 2018). With `nesterov`,
    beta1 * m + (1 - beta1) * g replaces m.
    """
    part = mul(g, rest_of(betas[0]))
    first = written(states[0], mul(value_of(states[0]), betas[0]) + part)
    second = averaged(states[1], betas[1], square(g))
    largest = tuple(written(state, maximum(value_of(state), second)) for state in states[2:])
    top = mul(first, betas[0]) + part if nesterov else first
    step = mul(top, rate) / add(sqrt(largest[0] if largest else second), epsilon)
    return step, first, second, *largest


def adam_moments(m: TensorLike, v: TensorLike, g: Tensor, betas: tuple[Any, Any]) -> tuple[Tensor, Tensor]:
    """The new averages of g and of g ** 2."""
    return averaged(m, betas[0], g), averaged(v, betas[1], square(g))


def adam_direction(m: Tensor, v: Tensor, w: Tensor, epsilon: TensorLike, decay: TensorLike | None) -> Tensor:
    """m / (sqrt(v) + epsilon) + decay * w, without bias correction; without decay if it is None."""
    step = m / add(sqrt(v), epsilon)
    return step if decay is None else step + mul(w, decay)


def ada_max_step(
    m: TensorLike, v: TensorLike, g: Tensor, betas: tuple[Any, Any], rate: TensorLike, epsilon: TensorLike
) -> tuple[Tensor, Tensor, Tensor]:
    """The step rate * m / (v + epsilon), and the new states: m averages g, and v = max(beta2 * v, |g|)."""
    first = averaged(m, betas[0], g)
    largest = written(v, maximum(mul(value_of(v), betas[1]), abs(g)))
    return mul(first, rate) / add(largest, epsilon), first, largest


# -- by the magnitude of past gradients -------------------------------------------------------------------------------


def rms_step(
    squares: TensorLike,
    moment: TensorLike,
    g: Tensor,
    rate: TensorLike,
    decay: TensorLike,
    momentum: TensorLike,
    epsilon: TensorLike,
    mean: TensorLike | None = None,
) -> Tensor:
    """moment = momentum * moment + rate * g / sqrt(s + epsilon), where s averages g ** 2; the step is the moment.

    With the state `mean`, the average of g, s is the variance, which rounding must not make negative.
    """
    variance = averaged(squares, decay, square(g))
    if mean is not None:
        variance = maximum(variance - square(averaged(mean, decay, g)), 0.0)
    step = mul(g, rate) / sqrt(add(variance, epsilon))
    return written(moment, step if _is(momentum, 0) else mul(value_of(moment), momentum) + step)


def adagrad_sums(accum: TensorLike, g: Tensor, update: bool = True) -> Tensor:
    """accum + g ** 2, written where `update`; else accum."""
    return summed(accum, square(g)) if update else value_of(accum)


def above_zero(sums: Tensor, starts_at_zero: bool) -> Tensor:
    """A divisor: sums that begin as 0 are kept above 0, as the dividend is 0 then as well."""
    return maximum(sums, FLOAT32.tiny) if starts_at_zero else sums


def adadelta_step(
    accum: TensorLike, accum_update: TensorLike, g: Tensor, rho: TensorLike, epsilon: TensorLike
) -> tuple[Tensor, Tensor, Tensor]:
    """The root mean square of the last steps over that of the gradients, times g (Zeiler, 2012); and both states."""
    squares = averaged(accum, rho, square(g))
    past = add(value_of(accum_update), epsilon)
    step = g * sqrt(past / add(squares, epsilon))
    return step, squares, averaged(accum_update, rho, square(step))


# -- regularization by l1 and l2 ------------------------------------------------------------------------------


def _within(x: Tensor, reach: Any) -> Tensor:
    """x clipped to [-reach, reach]."""
    is_number = isinstance(reach, (int, float))
    return clip_by_value(x, -reach, reach) if is_number else maximum(minimum(x, reach), neg(reach))


def shrunk(x: Tensor, by: Any) -> Tensor:
    """x moved towards 0 by a number, at most to 0 (soft thresholding)."""
    return x if _is(by, 0) else x - _within(x, by)


def proximal(x: Tensor, rate: TensorLike, l1: TensorLike, l2: TensorLike) -> Tensor:
    """x moved towards 0 by rate * l1 and divided by 1 + rate * l2."""
    x = x if _is(l1, 0) else shrunk(x, mul(rate, l1))
    return x if _is(l2, 0) else x / (mul(rate, l2) + 1.0)


def ftrl_weight(
    accum: TensorLike,
    linear: TensorLike,
    w: Tensor,
    g: Tensor,
    inverse: Tensor,
    power: TensorLike,
    l1: TensorLike,
    l2: Operand,
    zero: bool = False,
) -> Tensor:
    """The weight that follows the regularized leader (McMahan et al., 2013), for `inverse`, 1 over the rate.

    a = accum + g * g; u = linear + g - (a ** p - accum ** p) / rate * w; w = (sign(u) * l1 - u) / (a ** p / rate +
    2 * l2) where |u| is above l1, and 0 elsewhere, for p = -power. a and u are written. With `zero`, sums may begin as
    0, where the dividend is 0 as well.
    """
    old = value_of(accum)
    before, after = _raised(old, power), _raised(written(accum, old + square(g)), power)
    shift = (after - before) * inverse * w
    u = written(linear, value_of(linear) + g - shift)
    bottom = after * inverse
    bottom = bottom if _is(l2, 0) else add(bottom, l2 * 2.0 if isinstance(l2, Tensor) else 2 * l2)
    top = -u if _is(l1, 0) else _within(u, l1) - u
    return top / above_zero(bottom, zero)


def _raised(x: Tensor, power: TensorLike) -> Tensor:
    if _is(power, -0.5):
        return sqrt(x)
    return pow(x, -power if isinstance(power, (int, float)) else mul(power, -1.0))
