"""Initial values that are drawn independently of each other."""

from __future__ import annotations

import math

import numpy as np

from graphls.base.checks import number
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.random import generator
from graphls.nn.initializer.base import Array, Initializer, Shape, fans, one_of

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
SQUARED_GAINS = {**dict.fromkeys(("linear", "sigmoid", *CONVOLUTIONS), 1.0), "tanh": 25 / 9, "relu": 2.0}
"""Factors of the variance of initial weights before an activation; a leaky relu's depends on its slope."""


class Normal(Initializer):
    """Normally distributed numbers of a standard deviation `sigma` around `mean`.

    Raises GraphValueError for a negative `sigma`.

    Examples:
        >>> from graphls.initializer import Normal, initializer
        >>> print(f"{initializer(Normal(0.02, mean=1.0), (10000,)).asnumpy().mean():.2f}")
        1.00
    """

    def __init__(self, sigma: float = 0.01, mean: float = 0.0) -> None:
        self.sigma, self.mean = number("Normal", "sigma", sigma), number("Normal", "mean", mean)

    def __call__(self, shape: Shape) -> Array:
        return generator().normal(self.mean, self.sigma, shape)


class TruncatedNormal(Initializer):
    """Normally distributed numbers, of which those outside of [a, b] standard deviations are drawn again.

    `sigma` is the standard deviation before that.

    Raises GraphValueError for a negative `sigma` and for bounds that hold no number that is drawn.

    Examples:
        >>> from graphls.initializer import TruncatedNormal, initializer
        >>> bool(abs(initializer(TruncatedNormal(0.02), (1000,))).max() <= 0.04)
        True
    """

    def __init__(self, sigma: float = 0.01, mean: float = 0.0, a: float = -2.0, b: float = 2.0) -> None:
        for name, value in {"sigma": sigma, "mean": mean, "a": a, "b": b}.items():
            number("TruncatedNormal", name, value)
        if b - a < 0.1 or a > 3 or b < -3:
            raise GraphValueError(
                f"For 'TruncatedNormal', [a, b] must hold numbers that are drawn, but got [{a}, {b}]."
            )
        self.sigma, self.mean, self.a, self.b = sigma, mean, a, b

    def __call__(self, shape: Shape) -> Array:
        draws = np.asarray(generator().standard_normal(shape))
        while (outside := (draws < self.a) | (draws > self.b)).any():
            draws[outside] = generator().standard_normal(int(outside.sum()))
        return np.asarray(self.mean + self.sigma * draws)


class Uniform(Initializer):
    """Numbers spread evenly over [-scale, scale).

    Raises GraphValueError for a `scale` that is not a number of its range.

    Examples:
        >>> from graphls.initializer import Uniform, initializer
        >>> bool(abs(initializer(Uniform(0.5), (1000,))).max() <= 0.5)
        True
    """

    def __init__(self, scale: float = 0.07) -> None:
        self.scale = number("Uniform", "scale", scale)

    def __call__(self, shape: Shape) -> Array:
        return generator().uniform(-self.scale, self.scale, shape)


class XavierUniform(Initializer):
    """Evenly spread numbers up to gain * sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010).

    Raises GraphValueError for a `gain` that is not a number of its range.

    Examples:
        >>> from graphls.initializer import XavierUniform, initializer
        >>> print(f"{initializer(XavierUniform(), (64, 64)).asnumpy().max():.2f}")  # sqrt(6 / (64 + 64))
        0.22
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = number(type(self).__name__, "gain", gain)

    def __call__(self, shape: Shape) -> Array:
        return Uniform(math.sqrt(3) * self._deviation(shape))(shape)

    def _deviation(self, shape: Shape) -> float:
        return self.gain * math.sqrt(2 / max(1, sum(fans(shape))))


class XavierNormal(XavierUniform):
    """Normally distributed numbers of deviation gain * sqrt(2 / (fan in + fan out)) (Glorot and Bengio, 2010).

    Examples:
        >>> from graphls.initializer import XavierNormal, initializer
        >>> print(f"{initializer(XavierNormal(), (100, 100)).asnumpy().std():.2f}")  # sqrt(2 / (100 + 100))
        0.10
    """

    def __call__(self, shape: Shape) -> Array:
        return Normal(self._deviation(shape))(shape)


class HeUniform(Initializer):
    """Evenly spread numbers up to gain * sqrt(3 / fan) (He et al., 2015).

    The gain is sqrt(2 / (1 + negative_slope ** 2)) for "leaky_relu", sqrt(2) for "relu", 5 / 3 for "tanh" and 1 for
    "sigmoid", "linear" and convolutions ("conv2d"); `mode` says whether fan counts the inputs ("fan_in") or the
    outputs ("fan_out"). Raises GraphValueError for other words.

    Examples:
        >>> from graphls import nn
        >>> from graphls.initializer import HeUniform
        >>> print(f"{nn.Dense(128, 64, weight_init=HeUniform()).weight.asnumpy().max():.2f}")  # sqrt(3) * sqrt(2 / 128)
        0.22
    """

    def __init__(self, negative_slope: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> None:
        name = type(self).__name__
        self.negative_slope = number(name, "negative_slope", negative_slope)
        self.mode = one_of(name, "mode", mode, ("fan_in", "fan_out"))
        self.nonlinearity = one_of(name, "nonlinearity", nonlinearity, ("leaky_relu", *SQUARED_GAINS))

    def __call__(self, shape: Shape) -> Array:
        return Uniform(math.sqrt(3) * self._deviation(shape))(shape)

    def _deviation(self, shape: Shape) -> float:
        squared = SQUARED_GAINS.get(self.nonlinearity, 2 / (1 + self.negative_slope**2))
        return math.sqrt(squared / max(1, fans(shape)[self.mode == "fan_out"]))


class HeNormal(HeUniform):
    """Normally distributed numbers of the standard deviation gain / sqrt(fan) (He et al., 2015).

    Examples:
        >>> from graphls.initializer import HeNormal, initializer
        >>> print(f"{initializer(HeNormal(), (64, 200)).asnumpy().std():.2f}")  # sqrt(2 / 200)
        0.10
    """

    def __call__(self, shape: Shape) -> Array:
        return Normal(self._deviation(shape))(shape)


class VarianceScaling(Initializer):
    """Numbers of the variance scale / fan, where fan counts inputs, outputs, or is the mean of both ("fan_avg").

    The `distribution` is "truncated_normal", "untruncated_normal" or "uniform". Raises GraphTypeError and
    GraphValueError for other arguments.

    Examples:
        >>> from graphls.initializer import VarianceScaling, initializer
        >>> print(f"{initializer(VarianceScaling(2.0, 'fan_out'), (200, 64)).asnumpy().std():.2f}")  # sqrt(2 / 200)
        0.10
    """

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal") -> None:
        if number("VarianceScaling", "scale", scale) <= 0:
            raise GraphValueError(f"For 'VarianceScaling', the 'scale' must be > 0, but got {scale}.")
        known = ("truncated_normal", "untruncated_normal", "normal", "uniform")
        self.scale = scale
        self.mode = one_of("VarianceScaling", "mode", mode, ("fan_in", "fan_out", "fan_avg"))
        self.distribution = one_of("VarianceScaling", "distribution", distribution, known)

    def __call__(self, shape: Shape) -> Array:
        deviation = math.sqrt(self.scale / max(1.0, self._fan(shape)))
        if self.distribution == "uniform":
            return Uniform(math.sqrt(3) * deviation)(shape)
        if self.distribution == "truncated_normal":
            return TruncatedNormal(deviation / _DEVIATION_WITHIN_TWO)(shape)
        return Normal(deviation)(shape)

    def _fan(self, shape: Shape) -> float:
        inputs, outputs = fans(shape)
        return {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[self.mode]


def _within(bound: float) -> float:
    """The standard deviation of a standard normal distribution between -bound and bound."""
    density = math.exp(-(bound**2) / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(1 - 2 * bound * density / math.erf(bound / math.sqrt(2)))


_DEVIATION_WITHIN_TWO = _within(2.0)
