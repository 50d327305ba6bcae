"""Random tensors.

In a compiled step they are functions of `set_seed`, the step and the call site: a run can be repeated and resumed, and
a `seed` is ignored. Outside of one they are drawn at once, from `seed` if it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.checks import integer, probability
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.random import generator
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.types import DType, DTypeLike, as_dtype, broadcast_shapes, float32, int32, int64
from graphls.ops.arrays.creation import full
from graphls.ops.arrays.selection import topk
from graphls.ops.arrays.shapes import concat, expand_dims, gather, reshape
from graphls.ops.math.elementwise import cast, clip_by_value, erf, less, log, where
from graphls.ops.math.reductions import argmax
from graphls.ops.math.transcendental import erfinv
from graphls.ops.operands import Operand, ShapeLike, apply, float_of, shape_of, tensor_of
from graphls.ops.record import by_axes, in_place, operation, operator_class


def draw(primitive: str, seed: int | None = None, **attrs: object) -> Tensor:
    """A tensor of a random primitive: in a trace new in every step, outside of one computed at once.

    Raises GraphTypeError for a seed that is not an integer.
    """
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise GraphTypeError(f"A seed is an integer or None, not {seed!r}.")
    tracer = current_tracer()
    if tracer is not None:
        return tracer.random(primitive, attrs)
    key = int(generator().integers(2**63)) if seed is None else seed % 2**63
    return apply(primitive, Tensor(np.array([key, 0], np.int64)), site=0, **attrs)


def standard_uniform(shape: ShapeLike, seed: int | None) -> Tensor:
    """Float32 numbers of the uniform distribution on [0, 1)."""
    return draw("random_uniform", seed, shape=random_shape(shape))


def random_shape(shape: ShapeLike) -> tuple[int, ...]:
    """The shape of a random tensor; raises GraphValueError for negative sizes."""
    sizes = shape_of(shape)
    if min(sizes, default=0) < 0:
        raise GraphValueError(f"The sizes of a random tensor are 0 or more, not {sizes}.")
    return sizes


def _float_type(name: str, dtype: DTypeLike) -> DType:
    result = as_dtype(dtype or float32)
    if not result.is_float:
        raise GraphTypeError(f"{name} draws floating point numbers, not {result!r}.")
    return result


@operation(also="mint")
def rand(*size: Any, dtype: Any = None, seed: int | None = None) -> Tensor:
    """Numbers of the uniform distribution on [0, 1); float32 unless another float dtype is given."""
    kind = _float_type("rand", dtype)
    return cast(standard_uniform(size[0] if len(size) == 1 else size, seed), kind)


@operation
def rand_like(input: TensorLike, seed: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """`rand` in the shape of a tensor, and in its dtype unless another is given."""
    x = tensor_of(input)
    return rand(x.shape, dtype=dtype or x.dtype, seed=seed)


@operation(also="mint")
def randn(*size: Any, dtype: Any = None, seed: int | None = None) -> Tensor:
    """Numbers of the standard normal distribution; float32 unless another float dtype is given."""
    kind = _float_type("randn", dtype)
    return cast(standard_normal(size[0] if len(size) == 1 else size, seed), kind)


@operation
def randn_like(input: TensorLike, seed: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """`randn` in the shape of a tensor, and in its dtype unless another is given."""
    x = tensor_of(input)
    return randn(x.shape, dtype=dtype or x.dtype, seed=seed)


@operation
def standard_normal(shape: ShapeLike, seed: int | None = None) -> Tensor:
    """Float32 numbers of the standard normal distribution."""
    return draw("random_normal", seed, shape=random_shape(shape))


@operation
def normal(shape: ShapeLike, mean: TensorLike, stddev: TensorLike, seed: int | None = None) -> Tensor:
    """Numbers of a normal distribution; `shape`, mean and standard deviation broadcast."""
    mean, stddev = float_of(mean), float_of(stddev)
    wide = broadcast_shapes(random_shape(shape), mean.shape, stddev.shape)
    return standard_normal(wide, seed) * stddev + mean


@operation
def uniform(shape: Any, minval: Any, maxval: Any, seed: int | None = None, dtype: Any = float32) -> Tensor:
    """Numbers of the uniform distribution on [minval, maxval); `shape` and both bounds broadcast.

    For an integer dtype both are integers without axes (see `randint`).
    """
    kind = as_dtype(dtype)
    if not kind.is_float:
        bounds = integer("uniform", "minval", minval), integer("uniform", "maxval", maxval)
        return randint(*bounds, shape, seed, dtype=kind)
    low, high = float_of(minval), float_of(maxval)
    wide = broadcast_shapes(random_shape(shape), low.shape, high.shape)
    return cast(standard_uniform(wide, seed) * (high - low) + low, kind)


@operation(also="mint")
def randint(low: int, high: int, size: ShapeLike, seed: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """Uniformly distributed integers in range(low, high); int64 unless another dtype is given.

    Raises GraphTypeError for bounds that are not integers, GraphValueError unless low is below high.
    """
    if any(isinstance(n, bool) or not isinstance(n, int) for n in (low, high)):
        raise GraphTypeError(f"randint takes integers as bounds, not {low!r} and {high!r}.")
    if low >= high:
        raise GraphValueError(f"randint draws from {low} up to a higher number, not {high}.")
    return cast(draw("random_integers", seed, shape=random_shape(size), start=low, stop=high), dtype or int64)


@operation
def randint_like(
    input: TensorLike, low: int, high: int, seed: int | None = None, *, dtype: DTypeLike | None = None
) -> Tensor:
    """`randint` in the shape of a tensor, and in its dtype unless another is given."""
    x = tensor_of(input)
    return randint(low, high, x.shape, seed, dtype=dtype or x.dtype)


@operation(checks={"n": integer})
def randperm(n: int, seed: int = 0, offset: int = 0, dtype: DTypeLike = int64) -> Tensor:
    """A random permutation of range(n); int64 unless another dtype is given.

    A seed of 0 is none. `offset` is accepted as in MindSpore and ignored.
    """
    (size,) = random_shape(n)
    return cast(draw("random_permutation", seed or None, size=size), dtype)


@operation
def shuffle(x: TensorLike, seed: int | None = None) -> Tensor:
    """The slices along the first axis in random order; raises GraphValueError for a tensor without axes."""
    x = tensor_of(x)
    if not x.ndim:
        raise GraphValueError("shuffle takes a tensor with axes, not a number.")
    return gather(x, draw("random_permutation", seed, size=x.shape[0]))


@operation
def bernoulli(input: TensorLike, p: TensorLike = 0.5, seed: int | None = None) -> Tensor:
    """Ones with probability p, which may be one for each element, else zeros, in the shape and dtype of a tensor.

    Raises GraphValueError for a number outside of [0, 1].
    """
    x = tensor_of(input)
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise GraphValueError(f"bernoulli takes a probability from 0 to 1, not {p}.")
    return cast(less(standard_uniform(x.shape, seed), p), x.dtype)


@operation
def multinomial(input: TensorLike, num_samples: int, replacement: bool = True, seed: int | None = None) -> Tensor:
    """Samples of categorical distributions: int32 positions in a row of probabilities, or in each row.

    The probabilities need not sum to 1. By the largest sum of a logarithm and Gumbel noise (Gumbel, 1954); without
    replacement by the largest ones (Vieira, 2014). Raises GraphValueError for more axes than two and, without
    replacement, for more samples than probabilities.
    """
    weights = float_of(input)
    if weights.ndim not in (1, 2) or num_samples < 1 or (not replacement and num_samples > weights.shape[-1]):
        with_or_without = "with" if replacement else "without"
        message = f"multinomial cannot draw {num_samples} samples {with_or_without} replacement from {weights.type}."
        raise GraphValueError(message)
    return categorical_samples(log(cast(weights, float32)), num_samples, replacement, seed)


def categorical_samples(scores: Tensor, count: int, replacement: bool, seed: int | None) -> Tensor:
    """Int32 samples of positions along the last axis, with the exponentials of float32 scores as probabilities."""
    if replacement:
        shape = (*scores.shape[:-1], count, scores.shape[-1])
        scores = expand_dims(scores, -2)
    else:
        shape = scores.shape
    noise = -log(-log(standard_uniform(shape, seed)))
    scores = scores + noise
    return cast(argmax(scores, -1), int32) if replacement else topk(scores, count)[1]


def masked_dropout(x: Tensor, p: float, shape: tuple[int, ...], seed: int | None = None) -> Tensor:
    """Dropout by a random mask of a shape that broadcasts: x / (1 - p), or 0 with probability p."""
    keep_probability = 1.0 - p
    mask = draw("random_bernoulli", seed, shape=shape, probability=keep_probability)
    return where(mask, x * (1 / keep_probability if keep_probability else 0.0), 0.0)


@by_axes(1, 2, 3, checks={"p": probability})
def dropout(axes: int) -> Callable[..., Tensor]:
    """Dropout of channels of {images} (N, C, {sizes}): 0 with probability p, the others divided by 1 - p.

    Sequences may lack the N. Raises GraphTypeError for a `p` that is not a number, GraphValueError outside of [0, 1]
    and for other shapes.
    """
    name, ranks = f"dropout{axes}d", (2, 3) if axes == 1 else (axes + 2,)

    def dropped(input: TensorLike, p: float = 0.5, training: bool = True) -> Tensor:
        x = float_of(input)
        if x.ndim not in ranks:
            message = f"{name} takes a tensor of {' or '.join(map(str, ranks))} axes, not {x.type}."
            raise GraphValueError(message)
        if not training or p == 0:
            return x
        return masked_dropout(x, p, (*x.shape[:-axes], *(1 for _ in range(axes))))

    return dropped


dropout1d, dropout2d, dropout3d = dropout


@in_place("normal_")
def _normal_in_place(x: Any, mean: Any = 0, std: Any = 1, *, generator: Tensor | None = None) -> Tensor:
    """Numbers of a normal distribution in the shape of the tensor."""
    return normal(x.shape, tensor_of(mean), tensor_of(std))


@in_place("uniform_")
def _uniform_in_place(x: Any, from_: Any = 0, to: Any = 1, *, generator: Tensor | None = None) -> Tensor:
    """Numbers of a uniform distribution in the shape of the tensor."""
    return uniform(x.shape, tensor_of(float(from_)), tensor_of(float(to)))


@operator_class("StandardNormal", "seed seed2", like=standard_normal)
def _standard_normal(shape: ShapeLike, seed: int = 0, seed2: int = 0) -> Any:
    return standard_normal(shape, joined_seed(seed, seed2))


@operator_class("UniformReal", "seed seed2", like=rand)
def _uniform_real(shape: ShapeLike, seed: int = 0, seed2: int = 0) -> Any:
    return rand(shape, seed=joined_seed(seed, seed2))


@operator_class("UniformInt", "seed seed2", like=randint)
def _uniform_int(shape: Any, minval: Operand, maxval: Operand, seed: int = 0, seed2: int = 0) -> Any:
    return randint(int(minval), int(maxval), shape, joined_seed(seed, seed2), dtype=int32)


@operator_class("Multinomial", "seed seed2 dtype", like=multinomial)
def _multinomial(x: TensorLike, num_samples: int, seed: int = 0, seed2: int = 0, dtype: Any = int32) -> Any:
    return cast(multinomial(x, num_samples, seed=joined_seed(seed, seed2)), dtype)


def joined_seed(seed: int, seed2: int) -> int | None:
    """Two seeds combined; None if both are 0."""
    return (seed * 2**32 + seed2) or None


@operator_class("Bernoulli", "seed offset", like=bernoulli)
def _bernoulli(x: TensorLike, p: TensorLike, seed: int = -1, offset: int = 0) -> Tensor:
    return bernoulli(x, p, None if seed == -1 else seed)


@operator_class("RandomShuffle", "seed seed2", like=shuffle)
def _shuffled(input_x: TensorLike, seed: int = 0, seed2: int = 0) -> Tensor:
    return shuffle(input_x, joined_seed(seed, seed2))


@operator_class("Randperm", "max_length pad dtype")
def _permutation(n: TensorLike, max_length: int = 1, pad: int = -1, dtype: DTypeLike = int32) -> Tensor:
    """A random permutation of range(n), for a constant n, padded with `pad` to `max_length`.

    Raises GraphValueError for an n above that.
    """
    count = _count("Randperm", n)
    if count > max_length:
        raise GraphValueError(f"Randperm has room for {max_length} numbers, not for {count}.")
    numbers = randperm(count, dtype=dtype)
    return concat((numbers, full((max_length - count,), pad, dtype=dtype)), 0)


@operator_class("RandpermV2", "seed offset dtype", like=randperm)
def _permutation_of(n: TensorLike, seed: int = 0, offset: int = 0, dtype: Any = int64) -> Tensor:
    return randperm(_count("RandpermV2", n), seed, offset, dtype)


def _count(name: str, n: TensorLike) -> int:
    return integer(name, "n", tensor_of(n).item())


@operator_class("TruncatedNormal", "dtype seed seed2")
def _truncated_normal(shape: ShapeLike, dtype: DTypeLike = float32, seed: int = 0, seed2: int = 0) -> Tensor:
    """Numbers of the standard normal distribution truncated to [-2, 2].

    Raises GraphTypeError for a dtype that is not a float.
    """
    kind = as_dtype(dtype)
    if not kind.is_float:
        raise GraphTypeError(f"TruncatedNormal draws floating point numbers, not {kind!r}.")
    return cast(_normal_between(shape_of(shape), -2.0, 2.0, joined_seed(seed, seed2)), kind)


def _normal_between(shape: tuple[int, ...], low: TensorLike, high: TensorLike, seed: int | None) -> Tensor:
    """Numbers of the standard normal distribution truncated to an interval, by the inverse distribution function."""
    first, last = (erf(float_of(bound) * math.sqrt(0.5)) for bound in (low, high))
    quantiles = first + rand(shape, seed=seed) * (last - first)
    inside = clip_by_value(erfinv(quantiles) * math.sqrt(2), low, high)
    return cast(inside, float32)


@operator_class("ParameterizedTruncatedNormal", "seed seed2")
def _parameterized_truncated_normal(
    shape: ShapeLike, mean: TensorLike, stdevs: TensorLike, min: TensorLike, max: TensorLike, seed: int = 0,
    seed2: int = 0,
) -> Tensor:  # fmt: skip
    """Numbers of truncated normal distributions; each parameter is a number, or a vector along axis 0."""
    sizes = shape_of(shape)
    columns = (len(sizes) - 1) * (1,)
    average, deviation, low, high = (
        reshape(x, (-1, *columns)) if x.ndim else x for x in map(float_of, (mean, stdevs, min, max))
    )
    first, last = ((bound - average) / deviation for bound in (low, high))
    return _normal_between(sizes, first, last, joined_seed(seed, seed2)) * deviation + average
