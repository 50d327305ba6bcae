"""`mindspore.nn.probability.distribution`: Gamma, Beta, Poisson, categorical, geometric, half normal, Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphls import ops
from graphls.compat.probability.distributions import Distribution
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32, int32
from graphls.ops.math.incomplete_functions import betainc
from graphls.ops.operands import tensor_of

__all__ = ["Beta", "Categorical", "Gamma", "Geometric", "HalfNormal", "Poisson", "StudentT"]


def _at_or_above(bound: float, x: Tensor, density: Tensor, otherwise: float) -> Any:
    return ops.where(x >= bound, density, ops.full_like(density, otherwise))


class Gamma(Distribution):
    """The gamma distribution; its mode is nan for a concentration of 1 or less."""

    names = ("concentration", "rate")

    def sample(self, shape: Sequence[int] = (), *parameters: TensorLike | None) -> Tensor:
        concentration, rate = self._all(parameters)
        wide = (concentration + rate).shape
        return ops.cast(ops.gamma((*shape, *wide), concentration, rate, seed=self.seed), self.dtype)

    def _log_prob(self, x: Tensor, a: Tensor, rate: Tensor) -> Any:
        density = ops.xlogy(a - 1, x) + a * ops.log(rate) - rate * x - ops.lgamma(a)
        return _at_or_above(0.0, x, density, math.nan)

    def _cdf(self, x: Tensor, a: Tensor, rate: Tensor) -> Any:
        return ops.igamma(a, rate * ops.maximum(x, 0.0))

    def _survival_function(self, x: Tensor, a: Tensor, rate: Tensor) -> Any:
        return ops.igammac(a, rate * ops.maximum(x, 0.0))

    def _mean(self, a: Tensor, rate: Tensor) -> Any:
        return a / rate

    def _mode(self, a: Tensor, rate: Tensor) -> Any:
        mode = (a - 1) / rate
        return ops.where(a > 1, mode, ops.full_like(mode, math.nan))

    def _var(self, a: Tensor, rate: Tensor) -> Any:
        return a / ops.square(rate)

    def _entropy(self, a: Tensor, rate: Tensor) -> Any:
        return a - ops.log(rate) + ops.lgamma(a) + (1 - a) * ops.digamma(a)

    def _kl(self, a: Tensor, rate: Tensor, b: Tensor, other: Tensor) -> Any:
        shapes = (a - b) * ops.digamma(a) - ops.lgamma(a) + ops.lgamma(b)
        return shapes + b * ops.log(rate / other) + a * (other / rate - 1)


def _log_beta(a: Tensor, b: Tensor) -> Any:
    return ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)


class Beta(Distribution):
    """The beta distribution; its mode is nan unless both concentrations are above 1."""

    names = ("concentration1", "concentration0")

    def sample(self, shape: Sequence[int] = (), *parameters: TensorLike | None) -> Tensor:
        a, b = self._all(parameters)
        wide = (*shape, *(a + b).shape)
        first = ops.gamma(wide, a, ops.ones_like(a), seed=self.seed)
        second = ops.gamma(wide, b, ops.ones_like(b), seed=None if self.seed is None else self.seed + 1)
        return ops.cast(first / (first + second), self.dtype)

    def _log_prob(self, x: Tensor, a: Tensor, b: Tensor) -> Any:
        density = ops.xlogy(a - 1, x) + ops.xlogy(b - 1, 1 - x) - _log_beta(a, b)
        return _at_or_above(0.0, x, _at_or_above(0.0, 1 - x, density, math.nan), math.nan)

    def _cdf(self, x: Tensor, a: Tensor, b: Tensor) -> Any:
        return betainc(a, b, ops.clamp(x, 0.0, 1.0))

    def _survival_function(self, x: Tensor, a: Tensor, b: Tensor) -> Any:
        return betainc(b, a, ops.clamp(1.0 - x, 0.0, 1.0))

    def _mean(self, a: Tensor, b: Tensor) -> Any:
        return a / (a + b)

    def _mode(self, a: Tensor, b: Tensor) -> Any:
        mode = (a - 1) / (a + b - 2)
        return ops.where(ops.minimum(a, b) > 1, mode, ops.full_like(mode, math.nan))

    def _var(self, a: Tensor, b: Tensor) -> Any:
        both = a + b
        return a * b / (ops.square(both) * (both + 1))

    def _entropy(self, a: Tensor, b: Tensor) -> Any:
        both = a + b
        digammas = (a - 1) * ops.digamma(a) + (b - 1) * ops.digamma(b) - (both - 2) * ops.digamma(both)
        return _log_beta(a, b) - digammas

    def _kl(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Any:
        digammas = (a - c) * ops.digamma(a) + (b - d) * ops.digamma(b) + (c + d - a - b) * ops.digamma(a + b)
        return _log_beta(c, d) - _log_beta(a, b) + digammas


class Poisson(Distribution):
    """The Poisson distribution: the number of events of a rate."""

    names = ("rate",)

    def sample(self, shape: Sequence[int] = (), *parameters: TensorLike | None) -> Tensor:
        (rate,) = self._all(parameters)
        return ops.cast(ops.random_poisson(shape, rate, seed=self.seed), self.dtype)

    def _log_prob(self, x: Tensor, rate: Tensor) -> Any:
        count = ops.maximum(x, 0.0)
        return _at_or_above(0.0, x, ops.xlogy(count, rate) - rate - ops.lgamma(count + 1), -math.inf)

    def _cdf(self, x: Tensor, rate: Tensor) -> Any:
        probability = ops.igammac(ops.maximum(x, 0.0) + 1, rate)
        return ops.where(x < 0, ops.zeros_like(probability), probability)

    def _survival_function(self, x: Tensor, rate: Tensor) -> Any:
        probability = ops.igamma(ops.maximum(x, 0.0) + 1, rate)
        return ops.where(x < 0, ops.ones_like(probability), probability)

    def _mean(self, rate: Tensor) -> Any:
        return rate

    _var = _mean

    def _mode(self, rate: Tensor) -> Any:
        return ops.floor(rate)


class Categorical(Distribution):
    """The distribution of class numbers by their probabilities, along the last axis.

    Values outside of the classes have the log probability nan. `mean` and `var` keep the axis of the classes, with one
    element. The numbers that `sample` draws have `dtype`, int32 by default.
    """

    names = ("probs",)

    def __init__(
        self, probs: TensorLike | None = None, seed: int | None = None, dtype: DTypeLike = int32, name: str = ""
    ) -> None:
        super().__init__(probs, seed=seed, dtype=float32, name=name)
        self.kind = dtype

    @property
    def probs(self) -> Any:
        """The probabilities of the classes."""
        return self.parameters.get("probs")

    def sample(self, shape: Sequence[int] = (), *parameters: TensorLike | None) -> Tensor:
        (probs,) = self._all(parameters)
        uniform = ops.clamp(ops.rand(*shape, *probs.shape, seed=self.seed), 1e-7, 1 - 1e-7)
        return ops.cast(ops.argmax(ops.log(probs) - ops.log(-ops.log(uniform)), -1), self.kind)

    def _log_prob(self, x: Tensor, probs: Tensor) -> Any:
        classes, is_one = probs.shape[-1], x.expand_dims(-1) == _numbers(probs)
        density = ops.log(ops.where(is_one, probs, ops.zeros_like(probs)).sum(-1))
        return _at_or_above(0.0, x, _at_or_above(0.0, classes - 1 - x, density, math.nan), math.nan)

    def _cdf(self, x: Tensor, probs: Tensor) -> Any:
        return ops.where(_numbers(probs) <= x.expand_dims(-1), probs, ops.zeros_like(probs)).sum(-1)

    def _mean(self, probs: Tensor) -> Any:
        return (probs * _numbers(probs)).sum(-1, keepdims=True)

    def _var(self, probs: Tensor) -> Any:
        return (probs * ops.square(_numbers(probs) - self._mean(probs))).sum(-1, keepdims=True)

    def _mode(self, probs: Tensor) -> Any:
        return ops.cast(ops.argmax(probs, -1), self.kind)

    def _entropy(self, probs: Tensor) -> Any:
        return -ops.xlogy(probs, probs).sum(-1)

    def _kl(self, probs: Tensor, other: Tensor) -> Any:
        return (ops.xlogy(probs, probs) - ops.xlogy(probs, other)).sum(-1)


def _numbers(probs: Tensor) -> Tensor:
    """The numbers of the classes, as floats."""
    return ops.cast(tensor_of(list(range(probs.shape[-1]))), probs.dtype)


class Geometric(Distribution):
    """The geometric distribution: the number of failures before a success; values are rounded down."""

    names = ("probs",)

    def _log_prob(self, x: Tensor, probs: Tensor) -> Any:
        density = ops.floor(x) * ops.log1p(-probs) + ops.log(probs)
        return _at_or_above(0.0, x, density, -math.inf)

    def _cdf(self, x: Tensor, probs: Tensor) -> Any:
        probability = -ops.expm1((ops.floor(x) + 1) * ops.log1p(-probs))
        return ops.where(x >= 0, probability, ops.zeros_like(probability))

    def _quantile(self, u: Tensor, probs: Tensor) -> Any:
        return ops.floor(ops.log(u) / ops.log1p(-probs))

    def _mean(self, probs: Tensor) -> Any:
        return (1 - probs) / probs

    def _mode(self, probs: Tensor) -> Any:
        return ops.zeros_like(probs)

    def _var(self, probs: Tensor) -> Any:
        return (1 - probs) / ops.square(probs)

    def _entropy(self, probs: Tensor) -> Any:
        return -((1 - probs) * ops.log1p(-probs) + probs * ops.log(probs)) / probs

    def _kl(self, probs: Tensor, other: Tensor) -> Any:
        return ops.log(probs / other) + (1 - probs) / probs * (ops.log1p(-probs) - ops.log1p(-other))


class HalfNormal(Distribution):
    """The half normal distribution: twice the normal density from 0 on; the mean does not move that bound."""

    names = ("mean", "sd")

    def _log_prob(self, x: Tensor, mean: Tensor, sd: Tensor) -> Any:
        density = 0.5 * math.log(2 / math.pi) - ops.log(sd) - 0.5 * ops.square((x - mean) / sd)
        return _at_or_above(0.0, x, density, -math.inf)


class StudentT(Distribution):
    """Student's t distribution of some degrees of freedom, with a mean and a scale."""

    names = ("df", "mean", "sd")

    def _log_prob(self, x: Tensor, df: Tensor, mean: Tensor, sd: Tensor) -> Any:
        shape = -0.5 * (df + 1) * ops.log1p(ops.square((x - mean) / sd) / df)
        gammas = ops.lgamma(0.5 * (df + 1)) - ops.lgamma(0.5 * df)
        return shape + gammas - ops.log(ops.abs(sd)) - 0.5 * ops.log(math.pi * df)
