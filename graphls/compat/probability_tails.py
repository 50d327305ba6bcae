"""Distributions of `mindspore.nn.probability.distribution` that have a few formulas only there."""

from __future__ import annotations

import math
from typing import Any

from graphls import ops
from graphls.compat.probability import Distribution
from graphls.tensors.tensor import Tensor

__all__ = ["Geometric", "HalfNormal", "StudentT"]


class Geometric(Distribution):
    """How often something of a probability fails before it succeeds; values are rounded down."""

    names = ("probs",)

    def _log_prob(self, x: Tensor, probs: Tensor) -> Any:
        found = ops.floor(x) * ops.log1p(-probs) + ops.log(probs)
        return ops.where(x >= 0, found, ops.full_like(found, -math.inf))

    def _cdf(self, x: Tensor, probs: Tensor) -> Any:
        found = -ops.expm1((ops.floor(x) + 1) * ops.log1p(-probs))
        return ops.where(x >= 0, found, ops.zeros_like(found))

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
    """The normal distribution, twice as dense, at and above 0; a mean moves it, but not where it begins."""

    names = ("mean", "sd")

    def _log_prob(self, x: Tensor, mean: Tensor, sd: Tensor) -> Any:
        found = 0.5 * math.log(2 / math.pi) - ops.log(sd) - 0.5 * ops.square((x - mean) / sd)
        return ops.where(x >= 0, found, ops.full_like(found, -math.inf))


class StudentT(Distribution):
    """Student's distribution of some degrees of freedom, moved by a mean and stretched by a scale."""

    names = ("df", "mean", "sd")

    def _log_prob(self, x: Tensor, df: Tensor, mean: Tensor, sd: Tensor) -> Any:
        shape = -0.5 * (df + 1) * ops.log1p(ops.square((x - mean) / sd) / df)
        gammas = ops.lgamma(0.5 * (df + 1)) - ops.lgamma(0.5 * df)
        return shape + gammas - ops.log(ops.abs(sd)) - 0.5 * ops.log(math.pi * df)
