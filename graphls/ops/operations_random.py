"""Operator classes of random tensors (see `operations` and `random`)."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.checks import integer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import as_dtype, float32, int32, int64
from graphls.ops import distributions, random
from graphls.ops.creation import full
from graphls.ops.elementwise import add, cast, clip_by_value, cos, div, erf, exp, mul, sin, sub
from graphls.ops.exponentials import erfinv
from graphls.ops.operands import float_of, shape_of, tensor_of
from graphls.ops.record import operator_class
from graphls.ops.shapes import concat, reshape
from graphls.tensors.tensor import Tensor


def joined_seed(seed: int, seed2: int) -> int | None:
    """Two seeds as one; none where both are 0."""
    return (seed * 2**32 + seed2) or None


@operator_class("Bernoulli", "seed offset", like=random.bernoulli)
def _bernoulli(x: Any, p: Any, seed: int = -1, offset: int = 0) -> Tensor:
    return random.bernoulli(x, p, None if seed == -1 else seed)


@operator_class("Cauchy", "size median sigma")
def _cauchy(size: Any, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    """Float32 numbers of the Cauchy distribution: the tangent of angles that are all equally likely."""
    angles = mul(sub(random.rand(shape_of(size)), 0.5), math.pi)
    return add(mul(div(sin(angles), cos(angles)), sigma), median)


@operator_class("LogNormalReverse", "mean std")
def _log_normal(input: Any, mean: float = 1.0, std: float = 2.0) -> Tensor:
    """exp of numbers of a normal distribution, in the shape and dtype of a tensor."""
    x = float_of(input)
    return cast(exp(add(mul(random.standard_normal(x.shape), std), mean)), x.dtype)


@operator_class("RandomShuffle", "seed seed2", like=random.shuffle)
def _shuffled(input_x: Any, seed: int = 0, seed2: int = 0) -> Tensor:
    return random.shuffle(input_x, joined_seed(seed, seed2))


@operator_class("Randperm", "max_length pad dtype")
def _permutation(n: Any, max_length: int = 1, pad: int = -1, dtype: Any = int32) -> Tensor:
    """The numbers below n in random order, and `pad` behind them, `max_length` in all; n is known.

    Raises GraphValueError for an n above that.
    """
    count = _count("Randperm", n)
    if count > max_length:
        raise GraphValueError(f"Randperm has place for {max_length} numbers, not for {count}.")
    numbers = random.randperm(count, dtype=dtype)
    return concat((numbers, full((max_length - count,), pad, dtype=dtype)), 0)


@operator_class("RandpermV2", "seed offset dtype", like=random.randperm)
def _permutation_of(n: Any, seed: int = 0, offset: int = 0, dtype: Any = int64) -> Tensor:
    return random.randperm(_count("RandpermV2", n), seed, offset, dtype)


def _count(name: str, n: Any) -> int:
    return integer(name, "n", tensor_of(n).item())


@operator_class("TruncatedNormal", "dtype seed seed2")
def _truncated_normal(shape: Any, dtype: Any = float32, seed: int = 0, seed2: int = 0) -> Tensor:
    """Numbers of the normal distribution with mean 0 and deviation 1, of those between -2 and 2.

    Raises GraphTypeError for a dtype that is no float.
    """
    kind = as_dtype(dtype)
    if not kind.is_float:
        raise GraphTypeError(f"TruncatedNormal draws floating point numbers, not {kind!r}.")
    return cast(_normal_between(shape_of(shape), -2.0, 2.0, joined_seed(seed, seed2)), kind)


def _normal_between(shape: tuple[int, ...], low: Any, high: Any, seed: int | None) -> Tensor:
    """Numbers of the standard normal distribution between two others, by the inverse of its distribution function."""
    first, last = (erf(mul(float_of(bound), math.sqrt(0.5))) for bound in (low, high))
    drawn = add(first, mul(random.rand(shape, seed=seed), sub(last, first)))
    inside = clip_by_value(mul(erfinv(drawn), math.sqrt(2)), low, high)
    return cast(inside, float32)


@operator_class("ParameterizedTruncatedNormal", "seed seed2")
def _parameterized_truncated_normal(
    shape: Any, mean: Any, stdevs: Any, min: Any, max: Any, seed: int = 0, seed2: int = 0
) -> Tensor:
    """Numbers of normal distributions between `min` and `max`, all four numbers or one for each index of axis 0."""
    sizes = shape_of(shape)
    columns = (len(sizes) - 1) * (1,)
    average, deviation, low, high = (
        reshape(x, (-1, *columns)) if x.ndim else x for x in map(float_of, (mean, stdevs, min, max))
    )
    first, last = (div(sub(bound, average), deviation) for bound in (low, high))
    return add(mul(_normal_between(sizes, first, last, joined_seed(seed, seed2)), deviation), average)


@operator_class("StandardLaplace", "seed seed2", like=distributions.standard_laplace)
def _standard_laplace(shape: Any, seed: int = 0, seed2: int = 0) -> Tensor:
    return distributions.standard_laplace(shape, joined_seed(seed, seed2))


@operator_class("Gamma", "seed seed2", like=distributions.gamma)
def _gamma(shape: Any, alpha: Any, beta: Any, seed: int = 0, seed2: int = 0) -> Tensor:
    return distributions.gamma(shape, alpha, beta, joined_seed(seed, seed2))


@operator_class("RandomGamma", "seed seed2", like=distributions.random_gamma)
def _random_gamma(shape: Any, alpha: Any, seed: int = 0, seed2: int = 0) -> Tensor:
    return distributions.random_gamma(shape, alpha, joined_seed(seed, seed2))


@operator_class("Poisson", "seed seed2")
def _poisson(shape: Any, mean: Any, seed: int = 0, seed2: int = 0) -> Tensor:
    """Int32 numbers of Poisson distributions, see `poisson`."""
    return cast(distributions.poisson(shape, mean, joined_seed(seed, seed2)), int32)


@operator_class("RandomPoisson", "seed seed2 dtype", like=distributions.random_poisson)
def _random_poisson(shape: Any, rate: Any, seed: int = 0, seed2: int = 0, dtype: Any = int64) -> Tensor:
    return distributions.random_poisson(shape, rate, joined_seed(seed, seed2), dtype)


@operator_class("RandomCategorical", "dtype", like=distributions.random_categorical)
def _categories(logits: Any, num_sample: Any, seed: Any, dtype: Any = int64) -> Tensor:
    return distributions.random_categorical(logits, num_sample, seed, dtype)


@operator_class("RandomChoiceWithMask", "count seed seed2", like=distributions.choice_with_mask)
def _choice(input_x: Any, count: int = 256, seed: int = 0, seed2: int = 0) -> tuple[Tensor, Tensor]:
    return distributions.choice_with_mask(input_x, count, joined_seed(seed, seed2))
