"""Optimizers that scale steps by the norms of each layer (Lamb, LARS) or factor their states (AdaFactor)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.checks import boolean, fraction, not_negative, positive
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float16, float32
from graphls.nn.cell import Cell
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.adaptive import DecoupledOptimizer, WithDecay
from graphls.nn.optimizers.base import (
    Decay,
    Decays,
    Optimizer,
    Parameters,
    Tensors,
    bias_correction,
    states_like,
    wide_dtype,
)
from graphls.ops.operands import state_of
from graphls.ops.update_rules import FLOAT32

__all__ = ["LARS", "AdaFactor", "Lamb"]


class AdaFactor(WithDecay):
    """w = w - rate * weight_decay * w - m, for m = beta1 * m + (1 - beta1) * rate * u / max(1, rms(u) / threshold).

    At update t, u = g / sqrt(v), where v is the mean of g * g + eps[0] with the weight 1 - t ** -decay_rate for the
    past. For a tensor with two axes or more only the means r along the last axis and c along the one before are stored,
    and v = r * c / mean(r). The rate is the learning rate or, with `relative_step`, min(0.01, 1 / sqrt(t)), with
    `warmup_init` min(1e-6 * t, 1 / sqrt(t)); `scale_parameter` multiplies it by max(eps[1], rms(w)), unless the
    learning rate is a schedule. rms is the root of the mean square. With `beta1` 0 or None there is no m. The states
    are `exp_avg`, `exp_avg_sq_row`, `exp_avg_sq_col` and, for vectors and numbers, `exp_avg_sq`, which `compression`
    keeps in float16. From Shazeer and Stern (2018), as in MindSpore. Raises as Optimizer does, and GraphValueError
    unless there is either a learning rate or `relative_step`, and for `warmup_init` without that.
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate | None = None, eps: Sequence[float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0, decay_rate: float = 0.8, beta1: float | None = 0.9, weight_decay: Decay = 0.0,
        scale_parameter: bool = True, relative_step: bool = True, warmup_init: bool = False, compression: bool = False,
        loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        self._check_rate(learning_rate, relative_step, warmup_init)
        super().__init__(0.0 if learning_rate is None else learning_rate, params, weight_decay, loss_scale)
        self.eps = _eps(eps)
        self.clip_threshold = positive("AdaFactor", "clip_threshold", clip_threshold)
        self.decay_rate = fraction("AdaFactor", "decay_rate", decay_rate)
        self.beta1 = fraction("AdaFactor", "beta1", beta1) if beta1 else 0.0
        self.relative_step, self.warmup_init = relative_step, warmup_init
        self.scale_parameter = boolean("AdaFactor", "scale_parameter", scale_parameter) and not self.dynamic_lr
        self._set_states(boolean("AdaFactor", "compression", compression))

    def _check_rate(self, learning_rate: LearningRate | None, relative_step: bool, warmup_init: bool) -> None:
        boolean("AdaFactor", "relative_step", relative_step)
        boolean("AdaFactor", "warmup_init", warmup_init)
        if (learning_rate is None) != relative_step:
            text = "AdaFactor takes a 'learning_rate' where 'relative_step' is False, and only there."
            raise GraphValueError(text)
        if warmup_init and not relative_step:
            raise GraphValueError("The 'warmup_init' of AdaFactor needs 'relative_step'.")

    def _set_states(self, compression: bool) -> None:
        if self.beta1:
            self.exp_avg = states_like(self.parameters, "exp_avg")
        matrices = [p for p in self.parameters if len(p.shape) > 1]
        self.exp_avg_sq_row = _zeros(matrices, "exp_avg_sq_row", -1)
        self.exp_avg_sq_col = _zeros(matrices, "exp_avg_sq_col", -2)
        others = [p for p in self.parameters if len(p.shape) < 2]
        self.exp_avg_sq = _zeros(others, "exp_avg_sq", None, compression)

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        step = ops.reshape(ops.cast(state_of(self.global_step), float32), ())
        newest = ops.pow(step, -self.decay_rate)
        rates = (self._relative_rate(step),) * len(rates) if self.relative_step else rates
        matrices = iter(zip(self.exp_avg_sq_row, self.exp_avg_sq_col, strict=True))
        others = iter(self.exp_avg_sq)
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            squares = ops.add(ops.square(g), self.eps[0])
            if g.ndim > 1:
                u = ops.mul(g, _inverse_root(*next(matrices), squares, newest))
            else:
                u = ops.mul(g, ops.rsqrt(_update_mean(next(others), squares, newest)))
            self._descend(i, u, rate, decay)

    def _relative_rate(self, step: Tensor) -> Tensor:
        return ops.minimum(ops.mul(step, 1e-6) if self.warmup_init else 1e-2, ops.rsqrt(step))

    def _descend(self, i: int, u: Tensor, rate: Tensor, decay: Tensor | float | None) -> None:
        w = self.weight(self.parameters[i])
        if self.scale_parameter:
            rate = ops.mul(rate, ops.maximum(_rms(w), self.eps[1]))
        length = ops.div(rate, ops.maximum(ops.mul(_rms(u), 1 / self.clip_threshold), 1.0))
        if self.beta1:
            part = ops.mul(u, ops.mul(length, 1 - self.beta1))
            update = ops.assign(self.exp_avg[i], ops.add(ops.mul(state_of(self.exp_avg[i]), self.beta1), part))
        else:
            update = ops.mul(u, length)
        if decay is not None:
            w = ops.mul(w, ops.sub(1.0, ops.mul(rate, decay)))
        ops.assign(self.parameters[i], ops.sub(w, update))


def _zeros(parameters: Sequence[Parameter], prefix: str, axis: int | None, is_small: bool = False) -> ParameterTuple:
    """A state of zeros for each parameter, without one of its axes."""

    def zeros(parameter: Parameter) -> Any:
        dtype = float16 if is_small else wide_dtype(parameter)
        array = np.zeros(parameter.shape, dtype.numpy)
        return array if axis is None else array.sum(axis)

    return ParameterTuple(Parameter(zeros(p), name=f"{prefix}_{p.name}", requires_grad=False) for p in parameters)


def _update_mean(state: Parameter, value: Tensor, newest: Tensor) -> Tensor:
    """Write the mean of the state and a value, which has the weight `newest`; returns it."""
    old = ops.cast(state_of(state), value.dtype)
    return ops.cast(ops.assign(state, ops.add(old, ops.mul(ops.sub(value, old), newest))), value.dtype)


def _inverse_root(row: Parameter, column: Parameter, squares: Tensor, newest: Tensor) -> Tensor:
    """1 / sqrt(v) for the v that is the product of both means."""
    rows = _update_mean(row, ops.mean(squares, -1), newest)
    columns = _update_mean(column, ops.mean(squares, -2), newest)
    share = ops.rsqrt(ops.div(rows, ops.mean(rows, -1, keepdims=True)))
    return ops.mul(ops.expand_dims(share, -1), ops.expand_dims(ops.rsqrt(columns), -2))


def _rms(x: Tensor) -> Tensor:
    return ops.sqrt(ops.mean(ops.square(x)))


def _eps(eps: Sequence[float]) -> tuple[float, float]:
    if not isinstance(eps, (tuple, list)):
        raise GraphTypeError(f"For 'AdaFactor', the 'eps' must be a tuple or list, but got {eps!r}.")
    if len(eps) != 2:
        raise GraphValueError(f"For 'AdaFactor', the 'eps' must be two numbers, but got {eps!r}.")
    return not_negative("AdaFactor", "eps", eps[0]), not_negative("AdaFactor", "eps", eps[1])


class Lamb(DecoupledOptimizer):
    """w = w - trust * lr * (mhat / (sqrt(vhat) + eps) + weight_decay * w), with a trust for each parameter.

    mhat = m / (1 - beta1 ** t) and vhat = v / (1 - beta2 ** t) are Adam's moments at update t. The trust is |w| / |u|
    with u = mhat / sqrt(vhat + eps) + weight_decay * w, at most 10, and 1 where one of these Euclidean norms is 0.
    The states are m in `lamb_m` and v in `lamb_v`. From You et al. (2020), as MindSpore computes it. Raises as
    Optimizer does, and for betas outside of (0, 1).
    """

    def __init__(
        self, params: Parameters, learning_rate: LearningRate, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-6, weight_decay: Decay = 0.0, *, state_bits: int = 32,
    ) -> None:  # fmt: skip
        betas = (beta1, beta2)
        super().__init__(params, learning_rate, betas, eps, weight_decay, prefix="lamb", state_bits=state_bits)

    def update_all(self, gradients: Tensors, rates: Tensors, decays: Decays) -> None:
        square = bias_correction(self.beta2, self.global_step)
        root = ops.sqrt(square)
        scale = ops.div(root, bias_correction(self.beta1, self.global_step))
        eps_in, eps_out = ops.mul(square, self.eps), ops.mul(root, self.eps)
        for i, (g, rate, decay) in enumerate(zip(gradients, rates, decays, strict=True)):
            m, v = self.moments(i, g)
            w, top = self.weight(self.parameters[i]), ops.mul(m, scale)
            directions = ops.div(top, ops.sqrt(ops.add(v, eps_in))), ops.div(top, ops.add(ops.sqrt(v), eps_out))
            if decay is not None:
                decayed = ops.mul(w, decay)
                directions = ops.add(directions[0], decayed), ops.add(directions[1], decayed)
            length = ops.mul(_trust_ratio(w, directions[0]), rate)
            self.descend(self.parameters[i], ops.mul(directions[1], length))


def _square_sum(tensor: Tensor) -> Tensor:
    """The sum of the squares of all elements."""
    return ops.sum(ops.square(tensor))


def _trust_ratio(w: Tensor, direction: Tensor) -> Tensor:
    """|w| / |direction|, at most 10; 1 where one of them is 0 or nan, and 0 where both are infinite."""
    top, bottom = _square_sum(w), _square_sum(direction)
    ratio = ops.sqrt(ops.div(ops.minimum(top, FLOAT32.max), bottom))
    return ops.where(ops.greater(ops.minimum(top, bottom), 0.0), ops.minimum(ratio, 10.0), 1.0)


SHARED = (
    "loss_scale", "is_group", "is_group_params_ordered", "is_group_lr", "groups", "group_numbers", "global_step",
    "learning_rate", "dynamic_lr", "group_rates", "weight_decay", "parameters",
)  # fmt: skip
"""The settings of an optimizer that LARS has too."""


def _is_scaled(parameter: Parameter) -> bool:
    return "LayerNorm" not in parameter.name and "bias" not in parameter.name


class LARS(Optimizer):
    """Gives another optimizer the gradients ratio * (g + weight_decay * w), with a ratio for each parameter.

    ratio = coefficient * |w| / (|g| + weight_decay * |w| + epsilon), by Euclidean norms; with `use_clip` it is
    min(ratio / lr, 1). Loss scale and weight decay of the optimizer are applied here, before and with the ratio, and
    no longer there. The gradients of parameters for which `lars_filter(parameter)` is false are not changed, and these
    parameters do not decay. A parameter that holds only zeros has a ratio of 0 and stays as it is. From You et al.
    (2017), as in MindSpore. Raises GraphTypeError where `optimizer` is not an Optimizer or `lars_filter` not a
    function, and GraphValueError where `epsilon` or `coefficient` is not above 0.
    """

    def __init__(
        self, optimizer: Optimizer, epsilon: float = 1e-05, coefficient: float = 0.001, use_clip: bool = False,
        lars_filter: Callable[[Parameter], bool] = _is_scaled,
    ) -> None:  # fmt: skip
        Cell.__init__(self, auto_prefix=False)
        self.__dict__["_phase"] = "update"
        if not isinstance(optimizer, Optimizer):
            raise GraphTypeError(f"LARS takes an Optimizer, not {optimizer!r}.")
        if not callable(lars_filter):
            raise GraphTypeError(f"The 'lars_filter' of LARS is a function, not {lars_filter!r}.")
        self.epsilon = positive("LARS", "epsilon", epsilon)
        self.coefficient = positive("LARS", "coefficient", coefficient)
        self.use_clip = boolean("LARS", "use_clip", use_clip)
        for name in SHARED:
            setattr(self, name, getattr(optimizer, name))
        self.lars_flag = tuple(bool(lars_filter(parameter)) for parameter in self.parameters)
        optimizer.groups = tuple(replace(group, weight_decay=0.0) for group in optimizer.groups)
        optimizer.loss_scale, optimizer.weight_decay = 1.0, 0.0
        self.opt = optimizer

    def construct(self, gradients: Sequence[Tensor]) -> Any:
        gradients = self.scale_grad(self.widened(gradients))
        rows = zip(self.parameters, gradients, self.decays_now(), self.rates_now(), self.lars_flag, strict=True)
        return self.opt(tuple(self._scaled(p, g, decay, rate) if flag else g for p, g, decay, rate, flag in rows))

    def _scaled(self, parameter: Parameter, g: Tensor, decay: TensorLike, rate: Tensor) -> Tensor:
        w = self.weight(parameter)
        norm = ops.sqrt(_square_sum(w))
        bottom = ops.add(ops.sqrt(_square_sum(g)), self.epsilon)
        if decay is not None:
            bottom = ops.add(bottom, ops.mul(norm, decay))
            g = ops.add(g, ops.mul(w, decay))
        if not self.use_clip:
            return ops.mul(g, ops.div(ops.mul(norm, self.coefficient), bottom))
        factor = ops.div(self.coefficient, ops.maximum(rate, FLOAT32.tiny))
        return ops.mul(g, ops.minimum(ops.div(ops.mul(norm, factor), bottom), 1.0))
