"""`mindspore.nn.probability.distribution`: discrete distributions: Bernoulli, Poisson, categorical and geometric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphls import ops
from graphls.compat.probability.distributions import Distribution, at_or_above
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32, int32
from graphls.ops.operands import tensor_of

__all__ = ["Bernoulli", "Categorical", "Geometric", "Poisson"]


class Bernoulli(Distribution):
    """1 with a probability, else 0."""

    names = ("probs",)

    def _log_prob(self, x: Tensor, probs: Tensor) -> Any:
        return x * ops.log(probs) + (1 - x) * ops.log1p(-probs)

    def _cdf(self, x: Tensor, probs: Tensor) -> Any:
        zero, one = ops.zeros_like(x + probs), ops.ones_like(x + probs)
        return ops.where(x < 0, zero, ops.where(x < 1, 1 - probs + zero, one))

    def _quantile(self, u: Tensor, probs: Tensor) -> Any:
        return ops.cast(u < probs, self.dtype)

    def _mean(self, probs: Tensor) -> Any:
        return probs

    def _mode(self, probs: Tensor) -> Any:
        return ops.cast(probs > 0.5, self.dtype)

    def _var(self, probs: Tensor) -> Any:
        return probs * (1 - probs)

    def _entropy(self, probs: Tensor) -> Any:
        return -probs * ops.log(probs) - (1 - probs) * ops.log1p(-probs)

    def _kl(self, probs: Tensor, other: Tensor) -> Any:
        return probs * ops.log(probs / other) + (1 - probs) * ops.log((1 - probs) / (1 - other))


class Poisson(Distribution):
    """The Poisson distribution: the number of events of a rate."""

    names = ("rate",)

    def sample(self, shape: Sequence[int] = (), *parameters: TensorLike | None) -> Tensor:
        (rate,) = self._all(parameters)
        return ops.cast(ops.random_poisson(shape, rate, seed=self.seed), self.dtype)

    def _log_prob(self, x: Tensor, rate: Tensor) -> Any:
        count = ops.maximum(x, 0.0)
        return at_or_above(0.0, x, ops.xlogy(count, rate) - rate - ops.lgamma(count + 1), -math.inf)

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
        return at_or_above(0.0, x, at_or_above(0.0, classes - 1 - x, density, math.nan), math.nan)

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
        return at_or_above(0.0, x, density, -math.inf)

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
