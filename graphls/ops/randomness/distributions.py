"""Random tensors of further distributions: gamma, Poisson, Laplace, Cauchy, categorical, and choices.

Their parameters may be computed in the graph: the host draws uniform and normal numbers, which the graph transforms.
For rejection sampling, enough candidates are drawn at once that the chance of rejecting all is below 1e-9.
"""

from __future__ import annotations

import builtins
import math
from math import prod
from typing import Any

from graphls.base.checks import integer
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, as_dtype, bool_, broadcast_shapes, float32, float64, int16, int32, int64
from graphls.ops.arrays.creation import arange, full, ones, zeros
from graphls.ops.arrays.selection import topk
from graphls.ops.arrays.shapes import broadcast_to, concat, gather_elements, reshape, stack
from graphls.ops.control_flow import scan
from graphls.ops.math.elementwise import (
    abs,
    cast,
    cos,
    exp,
    floor,
    log,
    log1p,
    maximum,
    minimum,
    sin,
    sqrt,
    where,
)
from graphls.ops.math.gamma_functions import lgamma
from graphls.ops.math.reductions import any as any_of
from graphls.ops.math.reductions import argmax, sum
from graphls.ops.operands import ShapeLike, Sizes, float_of, shape_of, tensor_of
from graphls.ops.randomness import random
from graphls.ops.randomness.random import (
    categorical_samples,
    draw,
    joined_seed,
    multinomial,
    random_shape,
    standard_uniform,
)
from graphls.ops.record import operation, operator_class
from graphls.ops.state import stop_gradient

GAMMA_CANDIDATES = 8
POISSON_CANDIDATES = 16
SMALL_RATE = 10.0
COUNTED = 48
"""The bound of counts for a small rate: larger ones are less likely than 2 ** -24."""


@operation
def standard_laplace(shape: ShapeLike, seed: int | None = None) -> Tensor:
    """Float32 numbers of the Laplace distribution with mean 0 and scale 1: differences of two exponential ones."""
    first, second = standard_uniform((2, *random_shape(shape)), seed)
    return log1p(-second) - log1p(-first)


@operation
def laplace(shape: ShapeLike, mean: TensorLike, lambda_param: TensorLike, seed: int | None = None) -> Tensor:
    """Numbers of a Laplace distribution; `shape`, mean and scale broadcast."""
    middle, scale = float_of(mean), float_of(lambda_param)
    wide = broadcast_shapes(random_shape(shape), middle.shape, scale.shape)
    return standard_laplace(wide, seed) * scale + middle


@operation
def gamma(shape: ShapeLike, alpha: TensorLike, beta: TensorLike, seed: int | None = None) -> Tensor:
    """Numbers of a gamma distribution; `shape`, alpha and the inverse scale beta broadcast.

    There is a gradient by beta, and none by alpha. nan where alpha is not above 0.
    """
    a, b = float_of(alpha), float_of(beta)
    wide = broadcast_shapes(random_shape(shape), a.shape, b.shape)
    return _gamma(broadcast_to(a, wide), seed) / b


@operation
def random_gamma(shape: ShapeLike, alpha: TensorLike, seed: int | None = None) -> Tensor:
    """Numbers of gamma distributions with scale 1: an array of shape `shape` for each element of alpha.

    The shape is `shape`, then that of alpha, and the dtype that of alpha. nan where alpha is not above 0.
    """
    a = float_of(alpha)
    return _gamma(broadcast_to(a, (*random_shape(shape), *a.shape)), seed)


def _gamma(alpha: Tensor, seed: int | None) -> Tensor:
    """By rejection from cubes of normal numbers (Marsaglia and Tsang, 2000); for alpha below 1 from alpha + 1."""
    dtype = float64 if alpha.dtype is float64 else float32
    a = cast(stop_gradient(alpha), dtype)
    is_small = a < 1.0
    d = where(is_small, a + 1.0, a) - 1 / 3
    shape = (GAMMA_CANDIDATES, *a.shape)
    x = cast(draw("random_normal", seed, shape=shape), dtype)
    u = cast(standard_uniform((GAMMA_CANDIDATES + 1, *a.shape), _other(seed)), dtype)
    v = (x / sqrt(d * 9.0) + 1.0) ** 3
    is_positive = v > 0.0
    safe = where(is_positive, v, 1.0)
    bound = x * x * 0.5 + d * (1.0 - safe + log(safe))
    chosen = _first(safe, is_positive & (log(u[1:]) < bound), ones((), dtype))
    result = d * chosen
    result = where(is_small, result * u[0] ** (1.0 / maximum(a, 1e-6)), result)
    return cast(where(a > 0.0, result, float("nan")), alpha.dtype)


def _other(seed: int | None) -> int | None:
    """The seed of a second, independent draw."""
    return None if seed is None else (seed * 6364136223846793005 + 1442695040888963407) % 2**63


def _first(candidates: Tensor, accepted: Tensor, otherwise: Tensor) -> Tensor:
    """The first accepted candidate along the first axis."""
    positions = argmax(cast(accepted, int32), 0, keepdims=True)
    chosen = reshape(gather_elements(candidates, 0, positions), candidates.shape[1:])
    return where(any_of(accepted, 0), chosen, otherwise)


@operation
def poisson(shape: ShapeLike, mean: TensorLike, seed: int | None = None) -> Tensor:
    """Float32 numbers of a Poisson distribution; `shape` and the mean broadcast.

    nan where the mean is below 0. There is no gradient.
    """
    rate = float_of(mean)
    wide = broadcast_shapes(random_shape(shape), rate.shape)
    return cast(_poisson(broadcast_to(rate, wide), seed), float32)


@operation
def random_poisson(shape: ShapeLike, rate: TensorLike, seed: int | None = None, dtype: DTypeLike = float32) -> Tensor:
    """Numbers of Poisson distributions: an array of shape `shape` for each element of the rate, in a dtype.

    The shape is `shape`, then that of the rate. nan where the rate is below 0. There is no gradient.
    """
    mean = float_of(rate)
    return cast(_poisson(broadcast_to(mean, (*random_shape(shape), *mean.shape)), seed), as_dtype(dtype))


def _poisson(rate: Tensor, seed: int | None) -> Tensor:
    mean = cast(stop_gradient(rate), float64)
    u = cast(standard_uniform((2, POISSON_CANDIDATES, *mean.shape), seed), float64)
    few = _counted(minimum(mean, SMALL_RATE), u[0, 0])
    many = _rejected(maximum(mean, SMALL_RATE), u[0] - 0.5, u[1])
    result = where(mean < SMALL_RATE, few, many)
    return where(mean >= 0.0, result, float("nan"))


def _counted(mean: Tensor, u: Tensor) -> Tensor:
    """By inversion: the number of cumulative probabilities that are not above u."""

    def step(state: tuple[Tensor, ...], k: Tensor) -> tuple[tuple[Tensor, ...], None]:
        share, total, count = state
        count = count + cast(u >= total, float64)
        share = share * mean / k
        return (share, total + share, count), None

    share = exp(-mean)
    start = (share, share, zeros(mean.shape, float64))
    return cast(scan(step, start, arange(1.0, COUNTED + 1.0, dtype=float64))[0][2], float64)


def _rejected(mean: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """By transformed rejection (PTRS of Hörmann, 1993), for means of 10 or more."""
    b = sqrt(mean) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    limit = 0.9277 - 3.6224 / (b - 2.0)
    scale = 1.1328 / (b - 3.4) + 1.1239
    edge = maximum(0.5 - abs(u), 1e-9)
    k = floor((a * 2.0 / edge + b) * u + mean + 0.43)
    at_once = (edge >= 0.07) & (v <= limit)
    never = (k < 0.0) | ((edge < 0.013) & (v > edge))
    top = log(maximum(v, 1e-30) * scale / (a / (edge * edge) + b))
    count = maximum(k, 0.0)
    bound = count * log(mean) - mean - lgamma(count + 1.0)
    accepted = at_once | (~never & (top <= bound))
    return _first(count, accepted, floor(mean))


@operation(checks={"num_sample": integer})
def random_categorical(logits: TensorLike, num_sample: int, seed: int = 0, dtype: DTypeLike = int64) -> Tensor:
    """Samples of categorical distributions with logits (N, C): positions (N, num_sample).

    A seed of 0 is none. Raises GraphTypeError for another dtype than int16, int32 and int64, GraphValueError for other
    shapes.
    """
    x, count = float_of(logits), num_sample
    kind = as_dtype(dtype)
    if kind not in (int16, int32, int64):
        raise GraphTypeError(f"random_categorical gives int16, int32 or int64, not {kind!r}.")
    if x.ndim != 2 or count < 1 or not x.shape[1]:
        raise GraphValueError(f"random_categorical cannot draw {count} samples from {x.type}.")
    return cast(categorical_samples(cast(x, float32), count, True, seed or None), kind)


@operation(checks={"seed": integer, "offset": integer})
def multinomial_with_replacement(
    x: TensorLike, seed: int, offset: int, numsamples: int, replacement: bool = False
) -> Tensor:
    """Int64 samples of positions in a row of probabilities, or in each row; see `multinomial`, also for its errors.

    The same `seed` and `offset` give the same samples outside of a graph; a seed of -1 with an offset of 0 is none.
    """
    key = None if (seed, offset) == (-1, 0) else seed * 2**32 + offset
    return cast(multinomial(x, numsamples, replacement, key), int64)


@operation(checks={"count": integer})
def choice_with_mask(input_x: TensorLike, count: int = 256, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """The int32 coordinates (count, axes) of true elements in random order, and a mask of the rows that count.

    Where fewer are true, the last rows are zeros and do not count. Raises GraphTypeError for anything but bools,
    GraphValueError for a tensor without axes and for a count below 1.
    """
    x = tensor_of(input_x)
    if x.dtype is not bool_:
        raise GraphTypeError(f"choice_with_mask takes bools, not {x.type}.")
    if not x.ndim or count < 1:
        raise GraphValueError(f"choice_with_mask cannot choose {count} of {x.type}.")
    flat = reshape(x, (-1,))
    available = builtins.min(count, x.size)
    order = topk(where(flat, standard_uniform(flat.shape, seed), -1.0), available)[1]
    counts = arange(count) < sum(cast(flat, int64))
    positions = concat((order, full((count - available,), 0, dtype=int32)), 0) if available < count else order
    positions, columns = where(counts, positions, 0), []
    for i, size in enumerate(x.shape):
        columns.append((positions // prod(x.shape[i + 1 :]) % size) if x.size else positions)
    return cast(stack(columns, 1), int32), counts


@operator_class("StandardLaplace", "seed seed2", like=standard_laplace)
def _standard_laplace(shape: ShapeLike, seed: int = 0, seed2: int = 0) -> Tensor:
    return standard_laplace(shape, joined_seed(seed, seed2))


@operator_class("Gamma", "seed seed2", like=gamma)
def _gamma_operator(shape: Sizes, alpha: TensorLike, beta: TensorLike, seed: int = 0, seed2: int = 0) -> Tensor:
    return gamma(shape, alpha, beta, joined_seed(seed, seed2))


@operator_class("RandomGamma", "seed seed2", like=random_gamma)
def _random_gamma(shape: Sizes, alpha: TensorLike, seed: int = 0, seed2: int = 0) -> Tensor:
    return random_gamma(shape, alpha, joined_seed(seed, seed2))


@operator_class("Poisson", "seed seed2")
def _poisson_operator(shape: Sizes, mean: TensorLike, seed: int = 0, seed2: int = 0) -> Tensor:
    """Int32 numbers of Poisson distributions, see `poisson`."""
    return cast(poisson(shape, mean, joined_seed(seed, seed2)), int32)


@operator_class("RandomPoisson", "seed seed2 dtype", like=random_poisson)
def _random_poisson(shape: Sizes, rate: TensorLike, seed: int = 0, seed2: int = 0, dtype: Any = int64) -> Tensor:
    return random_poisson(shape, rate, joined_seed(seed, seed2), dtype)


@operator_class("RandomCategorical", "dtype", like=random_categorical)
def _categories(logits: Any, num_sample: Any, seed: Any, dtype: Any = int64) -> Tensor:
    return random_categorical(logits, num_sample, seed, dtype)


@operator_class("RandomChoiceWithMask", "count seed seed2", like=choice_with_mask)
def _choice(input_x: TensorLike, count: int = 256, seed: int = 0, seed2: int = 0) -> tuple[Tensor, Tensor]:
    return choice_with_mask(input_x, count, joined_seed(seed, seed2))


@operator_class("Cauchy", "size median sigma")
def _cauchy(size: ShapeLike, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    """Float32 numbers of the Cauchy distribution: tangents of uniformly distributed angles."""
    angles = (random.rand(shape_of(size)) - 0.5) * math.pi
    return sin(angles) / cos(angles) * sigma + median


@operator_class("LogNormalReverse", "mean std")
def _log_normal(input: TensorLike, mean: float = 1.0, std: float = 2.0) -> Tensor:
    """Numbers of a log-normal distribution, in the shape and dtype of a tensor."""
    x = float_of(input)
    return cast(exp(random.standard_normal(x.shape) * std + mean), x.dtype)
