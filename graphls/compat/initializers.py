"""Private helpers of `mindspore.common.initializer` that networks import to compute their own initial values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from graphls.base.checks import number
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.nn import initializer
from graphls.nn.initializer.initializers import (
    SQUARED_GAINS,
    Array,
    Normal,
    TruncatedNormal,
    Uniform,
    fans,
    one_of,
)

__all__ = [
    "_assignment", "_calculate_correct_fan", "_calculate_fan_in_and_fan_out", "_calculate_gain",
    "_calculate_in_and_out", "_init_random_normal", "_init_random_uniform", "_init_truncated_normal", "_register",
]  # fmt: skip

_calculate_fan_in_and_fan_out = fans


def _calculate_in_and_out(arr: Tensor) -> tuple[int, int]:
    """The fan-in and fan-out of a weight."""
    return fans(arr.shape)


def _calculate_correct_fan(shape: tuple[int, ...], mode: str) -> int:
    """The fan-in of a weight for the mode "fan_in", its fan-out for "fan_out"."""
    one_of("_calculate_correct_fan", "mode", mode.lower(), ("fan_in", "fan_out"))
    return fans(shape)[mode.lower() == "fan_out"]


def _calculate_gain(nonlinearity: str, param: TensorLike | None = None) -> float:
    """The gain of weights before this activation; `param` is the slope of a leaky relu, 0.01 if None."""
    one_of("_calculate_gain", "nonlinearity", nonlinearity, (*SQUARED_GAINS, "leaky_relu"))
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else number("_calculate_gain", "param", param)
        return math.sqrt(2 / (1 + slope**2))
    return math.sqrt(SQUARED_GAINS[nonlinearity])


def _assignment(arr: Array, num: TensorLike) -> Array:
    """The array, filled with a number or with the elements of another array of its shape."""
    arr[...] = num
    return arr


def _init_random_normal(mean: float, sigma: float, shape: Sequence[int]) -> Array:
    """Normally distributed numbers."""
    return Normal(sigma, mean)(tuple(shape))


def _init_random_uniform(a: float, b: float, shape: Sequence[int]) -> Array:
    """Uniformly distributed numbers between a and b."""
    return np.asarray((a + b) / 2 + Uniform((b - a) / 2)(tuple(shape)))


def _init_truncated_normal(a: float, b: float, mean: float, sigma: float, shape: Sequence[int]) -> Array:
    """Normally distributed numbers between a and b standard deviations from the mean."""
    return TruncatedNormal(sigma, mean, a, b)(tuple(shape))


def _register(*aliases: str) -> Callable[[type], type]:
    """A decorator that registers an initializer under further names."""

    def name(cls: type) -> type:
        for alias in (cls.__name__.lower(), *aliases):
            initializer._BY_NAME.setdefault(alias, cls)
        return cls

    return name
