"""`mindspore.nn.probability.distribution`: the base class and continuous distributions, as cells.

A distribution has its parameters, or each method takes them after its value: `Normal(0.0, 1.0).prob(x)` is
`Normal().prob(x, 0.0, 1.0)`. Cells call methods by name, too: `distribution("log_prob", x)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from graphls import ops
from graphls.base.errors import GraphAttributeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.ops.math.incomplete_functions import betainc
from graphls.ops.operands import tensor_of

__all__ = [
    "Beta", "Cauchy", "Distribution", "Exponential", "Gamma", "Gumbel", "HalfNormal", "Laplace", "LogNormal",
    "Logistic", "Normal", "StudentT", "Uniform",
]  # fmt: skip


class Distribution(Cell):
    """A distribution of numbers; a subclass defines `_log_prob` and the other formulas that it has.

    Raises GraphValueError for a missing parameter, GraphAttributeError for a method without a formula.
    """

    names: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, *parameters: TensorLike | None, seed: int | None = None, dtype: DTypeLike = float32, name: str = "",
        **options: TensorLike | None,
    ) -> None:  # fmt: skip
        super().__init__()
        named = {**dict(zip(self.names, parameters, strict=False)), **options}
        for key in named:
            if key not in self.names:
                raise GraphTypeError(f"{type(self).__name__} has no parameter {key!r}.")
        self.dtype, self.seed = dtype, seed
        self.parameters = {key: self._tensor(value) for key, value in named.items() if value is not None}

    def construct(self, name: str, *args: TensorLike, **options: TensorLike) -> Any:
        return getattr(self, name)(*args, **options)

    def prob(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        """The density, or the probability of an integer."""
        return ops.exp(self.log_prob(value, *parameters))

    def log_prob(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        """The logarithm of the density."""
        return self._formula("log_prob", value, *self._all(parameters))

    def cdf(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        """The probability of at most this value."""
        return self._formula("cdf", value, *self._all(parameters))

    def log_cdf(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        """The logarithm of `cdf`."""
        return ops.log(self.cdf(value, *parameters))

    def survival_function(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        """The probability of more than this value."""
        if hasattr(self, "_survival_function"):
            return self._formula("survival_function", value, *self._all(parameters))
        return 1.0 - self.cdf(value, *parameters)

    def log_survival(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        """The logarithm of `survival_function`."""
        return ops.log(self.survival_function(value, *parameters))

    def mean(self, *parameters: TensorLike | None) -> Tensor:
        """The mean."""
        return self._formula("mean", *self._all(parameters))

    def mode(self, *parameters: TensorLike | None) -> Tensor:
        """The value of the largest density."""
        return self._formula("mode", *self._all(parameters))

    def var(self, *parameters: TensorLike | None) -> Tensor:
        """The variance."""
        return self._formula("var", *self._all(parameters))

    def sd(self, *parameters: TensorLike | None) -> Tensor:
        """The standard deviation."""
        return ops.sqrt(self.var(*parameters))

    def entropy(self, *parameters: TensorLike | None) -> Tensor:
        """The entropy, by natural logarithms."""
        return self._formula("entropy", *self._all(parameters))

    def kl_loss(self, dist: str, *parameters: TensorLike) -> Tensor:
        """The divergence from this distribution to one of the same class with other parameters."""
        if dist != type(self).__name__:
            raise GraphValueError(f"kl_loss supports only {type(self).__name__!r}, not {dist!r}.")
        count = len(self.names)
        others = tuple(map(self._tensor, parameters[:count]))
        return self._formula("kl", *self._all(parameters[count:]), *others)

    def cross_entropy(self, dist: str, *parameters: TensorLike) -> Tensor:
        """The sum of the entropy and the divergence."""
        return self.entropy(*parameters[len(self.names) :]) + self.kl_loss(dist, *parameters)

    def sample(self, shape: Sequence[int] = (), *parameters: TensorLike | None) -> Tensor:
        """Numbers of the distribution: `shape`, then the shape of the parameters."""
        own = self._all(parameters)
        wide = own[0] + own[-1]
        uniform = ops.rand(*shape, *wide.shape, seed=self.seed)
        return self._formula("quantile", ops.clamp(uniform, 1e-7, 1 - 1e-7), *own)

    def _formula(self, name: str, *args: Any) -> Tensor:
        formula = getattr(self, f"_{name}", None)
        if formula is None:
            raise GraphAttributeError(f"{type(self).__name__} has no {name}.")
        return tensor_of(formula(*(arg if is_tensor(arg) else self._tensor(arg) for arg in args)))

    def _tensor(self, value: TensorLike) -> Tensor:
        return ops.cast(tensor_of(value), self.dtype)

    def _all(self, parameters: tuple[Any, ...]) -> list[Tensor]:
        """All parameters: those of a call, else those of the distribution."""
        tensors = []
        for i, name in enumerate(self.names):
            is_own = i >= len(parameters) or parameters[i] is None
            value = self.parameters.get(name) if is_own else parameters[i]
            if value is None:
                text = f"{type(self).__name__} needs its parameter {name!r}, at its creation or in the call."
                raise GraphValueError(text)
            tensors.append(self._tensor(value))
        return tensors


class _LocationScale(Distribution):
    """A distribution with a location and a scale, its first and second parameter."""

    names = ("loc", "scale")

    def __getattr__(self, name: str) -> Any:
        if name in type(self).names and "parameters" in self.__dict__:
            return self.parameters.get(name)
        return super().__getattr__(name)


class Normal(_LocationScale):
    """The normal distribution with a mean and a standard deviation."""

    names = ("mean", "sd")

    def _log_prob(self, x: Tensor, mean: Tensor, sd: Tensor) -> Any:
        return -0.5 * ops.square((x - mean) / sd) - ops.log(sd) - 0.5 * math.log(2 * math.pi)

    def _cdf(self, x: Tensor, mean: Tensor, sd: Tensor) -> Any:
        return 0.5 * (1 + ops.erf((x - mean) / sd / math.sqrt(2)))

    def _quantile(self, u: Tensor, mean: Tensor, sd: Tensor) -> Any:
        return mean + sd * math.sqrt(2) * ops.erfinv(2 * u - 1)

    def _mean(self, mean: Tensor, sd: Tensor) -> Any:
        return mean + 0 * sd

    _mode = _mean

    def _var(self, mean: Tensor, sd: Tensor) -> Any:
        return ops.square(sd) + 0 * mean

    def _entropy(self, mean: Tensor, sd: Tensor) -> Any:
        return 0.5 * math.log(2 * math.pi * math.e) + ops.log(sd) + 0 * mean

    def _kl(self, mean: Tensor, sd: Tensor, other: Tensor, other_sd: Tensor) -> Any:
        return ops.log(other_sd / sd) + (ops.square(sd) + ops.square(mean - other)) / (2 * ops.square(other_sd)) - 0.5


class LogNormal(Normal):
    """The distribution of exp(x) for a normal x with a mean and a standard deviation."""

    names = ("loc", "scale")

    def _log_prob(self, x: Tensor, mean: Tensor, sd: Tensor) -> Any:
        return super()._log_prob(ops.log(x), mean, sd) - ops.log(x)

    def _cdf(self, x: Tensor, mean: Tensor, sd: Tensor) -> Any:
        return super()._cdf(ops.log(x), mean, sd)

    def _quantile(self, u: Tensor, mean: Tensor, sd: Tensor) -> Any:
        return ops.exp(super()._quantile(u, mean, sd))

    def _mean(self, mean: Tensor, sd: Tensor) -> Any:
        return ops.exp(mean + 0.5 * ops.square(sd))

    def _mode(self, mean: Tensor, sd: Tensor) -> Any:
        return ops.exp(mean - ops.square(sd))

    def _var(self, mean: Tensor, sd: Tensor) -> Any:
        return ops.expm1(ops.square(sd)) * ops.exp(2 * mean + ops.square(sd))

    def _entropy(self, mean: Tensor, sd: Tensor) -> Any:
        return super()._entropy(mean, sd) + mean


class Uniform(Distribution):
    """The uniform distribution between two numbers."""

    names = ("low", "high")

    def _log_prob(self, x: Tensor, low: Tensor, high: Tensor) -> Any:
        inside = ops.logical_and(x >= low, x < high)
        return ops.where(inside, -ops.log(high - low), ops.full_like(x + low, -math.inf))

    def _cdf(self, x: Tensor, low: Tensor, high: Tensor) -> Any:
        return ops.clamp((x - low) / (high - low), 0.0, 1.0)

    def _quantile(self, u: Tensor, low: Tensor, high: Tensor) -> Any:
        return low + u * (high - low)

    def _mean(self, low: Tensor, high: Tensor) -> Any:
        return (low + high) / 2

    def _var(self, low: Tensor, high: Tensor) -> Any:
        return ops.square(high - low) / 12

    def _entropy(self, low: Tensor, high: Tensor) -> Any:
        return ops.log(high - low)


class Exponential(Distribution):
    """The exponential distribution: the time between events of a rate."""

    names = ("rate",)

    def _log_prob(self, x: Tensor, rate: Tensor) -> Any:
        return ops.where(x >= 0, ops.log(rate) - rate * x, ops.full_like(rate * x, -math.inf))

    def _cdf(self, x: Tensor, rate: Tensor) -> Any:
        return ops.where(x >= 0, -ops.expm1(-rate * x), ops.zeros_like(rate * x))

    def _quantile(self, u: Tensor, rate: Tensor) -> Any:
        return -ops.log1p(-u) / rate

    def _mean(self, rate: Tensor) -> Any:
        return 1 / rate

    def _mode(self, rate: Tensor) -> Any:
        return ops.zeros_like(rate)

    def _var(self, rate: Tensor) -> Any:
        return 1 / ops.square(rate)

    def _entropy(self, rate: Tensor) -> Any:
        return 1 - ops.log(rate)

    def _kl(self, rate: Tensor, other: Tensor) -> Any:
        return ops.log(rate) - ops.log(other) + other / rate - 1


class Laplace(_LocationScale):
    """The Laplace distribution: exponential on both sides of a mean."""

    names = ("mean", "sd")

    def _log_prob(self, x: Tensor, mean: Tensor, scale: Tensor) -> Any:
        return -ops.abs(x - mean) / scale - ops.log(2 * scale)

    def _cdf(self, x: Tensor, mean: Tensor, scale: Tensor) -> Any:
        z = (x - mean) / scale
        return 0.5 - 0.5 * ops.sign(z) * ops.expm1(-ops.abs(z))

    def _quantile(self, u: Tensor, mean: Tensor, scale: Tensor) -> Any:
        return mean - scale * ops.sign(u - 0.5) * ops.log1p(-2 * ops.abs(u - 0.5))

    def _mean(self, mean: Tensor, scale: Tensor) -> Any:
        return mean + 0 * scale

    _mode = _mean

    def _var(self, mean: Tensor, scale: Tensor) -> Any:
        return 2 * ops.square(scale) + 0 * mean

    def _entropy(self, mean: Tensor, scale: Tensor) -> Any:
        return 1 + ops.log(2 * scale) + 0 * mean


class Logistic(_LocationScale):
    """The logistic distribution, whose `cdf` is the logistic function."""

    def _log_prob(self, x: Tensor, loc: Tensor, scale: Tensor) -> Any:
        z = (x - loc) / scale
        return -z - 2 * ops.softplus(-z) - ops.log(scale)

    def _cdf(self, x: Tensor, loc: Tensor, scale: Tensor) -> Any:
        return ops.sigmoid((x - loc) / scale)

    def _quantile(self, u: Tensor, loc: Tensor, scale: Tensor) -> Any:
        return loc + scale * (ops.log(u) - ops.log1p(-u))

    def _mean(self, loc: Tensor, scale: Tensor) -> Any:
        return loc + 0 * scale

    _mode = _mean

    def _var(self, loc: Tensor, scale: Tensor) -> Any:
        return ops.square(scale) * (math.pi**2 / 3) + 0 * loc

    def _entropy(self, loc: Tensor, scale: Tensor) -> Any:
        return ops.log(scale) + 2 + 0 * loc


class Gumbel(_LocationScale):
    """The Gumbel distribution of maxima."""

    def _log_prob(self, x: Tensor, loc: Tensor, scale: Tensor) -> Any:
        z = (x - loc) / scale
        return -(z + ops.exp(-z)) - ops.log(scale)

    def _cdf(self, x: Tensor, loc: Tensor, scale: Tensor) -> Any:
        return ops.exp(-ops.exp(-(x - loc) / scale))

    def _quantile(self, u: Tensor, loc: Tensor, scale: Tensor) -> Any:
        return loc - scale * ops.log(-ops.log(u))

    def _mean(self, loc: Tensor, scale: Tensor) -> Any:
        return loc + scale * 0.5772156649015329

    def _mode(self, loc: Tensor, scale: Tensor) -> Any:
        return loc + 0 * scale

    def _var(self, loc: Tensor, scale: Tensor) -> Any:
        return ops.square(scale) * (math.pi**2 / 6) + 0 * loc

    def _entropy(self, loc: Tensor, scale: Tensor) -> Any:
        return 1 + ops.log(scale) + 0.5772156649015329 + 0 * loc


class Cauchy(_LocationScale):
    """The Cauchy distribution; it has no mean."""

    def _log_prob(self, x: Tensor, loc: Tensor, scale: Tensor) -> Any:
        return -math.log(math.pi) - ops.log(scale) - ops.log1p(ops.square((x - loc) / scale))

    def _cdf(self, x: Tensor, loc: Tensor, scale: Tensor) -> Any:
        return ops.atan((x - loc) / scale) / math.pi + 0.5

    def _quantile(self, u: Tensor, loc: Tensor, scale: Tensor) -> Any:
        return loc + scale * ops.tan(math.pi * (u - 0.5))

    def _mode(self, loc: Tensor, scale: Tensor) -> Any:
        return loc + 0 * scale

    def _entropy(self, loc: Tensor, scale: Tensor) -> Any:
        return math.log(4 * math.pi) + ops.log(scale) + 0 * loc


class HalfNormal(Distribution):
    """The half normal distribution: twice the normal density from 0 on; the mean does not move that bound."""

    names = ("mean", "sd")

    def _log_prob(self, x: Tensor, mean: Tensor, sd: Tensor) -> Any:
        density = 0.5 * math.log(2 / math.pi) - ops.log(sd) - 0.5 * ops.square((x - mean) / sd)
        return at_or_above(0.0, x, density, -math.inf)


class StudentT(Distribution):
    """Student's t distribution of some degrees of freedom, with a mean and a scale."""

    names = ("df", "mean", "sd")

    def _log_prob(self, x: Tensor, df: Tensor, mean: Tensor, sd: Tensor) -> Any:
        shape = -0.5 * (df + 1) * ops.log1p(ops.square((x - mean) / sd) / df)
        gammas = ops.lgamma(0.5 * (df + 1)) - ops.lgamma(0.5 * df)
        return shape + gammas - ops.log(ops.abs(sd)) - 0.5 * ops.log(math.pi * df)


def at_or_above(bound: float, x: Tensor, density: Tensor, otherwise: float) -> Any:
    """The density for x from a bound on, and another number below it."""
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
        return at_or_above(0.0, x, density, math.nan)

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
        return at_or_above(0.0, x, at_or_above(0.0, 1 - x, density, math.nan), math.nan)

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
