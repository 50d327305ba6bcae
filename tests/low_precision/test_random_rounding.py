"""Stochastic rounding: one of two neighbours, the mean is the number, and the same bits on every engine."""

from __future__ import annotations

import numpy as np
import pytest

import graphls
from graphls.inspect.testing.samples import run
from graphls.ir import Builder, Value, interpret, verify
from graphls.ir.types import LOW, DType, Type, float8_e8m0fnu, float32
from graphls.runtime.lowering import lower
from graphls.runtime.xla.tracing import traced
from tests.low_precision.numbers import Array, around_roundings, bits, every, expected

SIGNED = pytest.mark.parametrize("dtype", [d for d in LOW if d is not float8_e8m0fnu], ids=str)


ENDS = (2.0**-17 - 0.5, 0.5 - 2.0**-17)


def rounding(size: int, dtype: DType) -> graphls.Graph:
    x, random, e = Value("x", Type(float32, (size,))), Value("random", Type(float32, (size,))), Builder()
    y = e.round_stochastically(x, random, dtype=dtype)
    return verify(graphls.Graph("main", (x, random), (), tuple(e.nodes), (), (y,)))


def rounded(x: Array, random: Array, dtype: DType) -> Array:
    return np.asarray(interpret(rounding(x.size, dtype), [x, random])[0][0])


def uniform(size: int) -> Array:
    return middles(np.random.default_rng(0).integers(0, 2**16, size), 2**16)


def middles(parts: Array, count: int) -> Array:
    """The middles of some of a number of equal parts of [-1/2, 1/2)."""
    return ((parts + 0.5) / count - 0.5).astype(np.float32)


def neighbours(x: Array, dtype: DType) -> tuple[Array, Array]:
    """The numbers of the dtype on both sides, both the number itself where it is one, by a search among all."""
    numbers = every(dtype).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    bounded = np.clip(x.astype(np.float64), numbers[0], numbers[-1])
    below = numbers[np.searchsorted(numbers, bounded, side="right") - 1]
    return below, numbers[np.searchsorted(numbers, bounded, side="left")]


@SIGNED
def test_every_result_is_one_of_two_neighbours(dtype: DType) -> None:
    x = around_roundings()
    x = x[~np.isnan(x)]
    below, above = neighbours(x, dtype)
    result = rounded(x, uniform(x.size), dtype).astype(np.float64)
    assert ((result == below) | (result == above)).all()
    least, most = (rounded(x, np.full_like(x, random), dtype).astype(np.float64) for random in ENDS)
    assert (least <= most).all()
    is_one = below == above
    np.testing.assert_array_equal(result[is_one], below[is_one])


@SIGNED
def test_the_mean_is_the_number(dtype: DType) -> None:
    count = 2**16
    random = middles(np.arange(count), count)
    for number in (0.3, -1.7, 2.2, 5.1, -0.01, 1e-4):
        x = np.full(count, number, np.float32)
        below, above = neighbours(x[:1], dtype)
        mean = rounded(x, random, dtype).astype(np.float64).mean()
        assert abs(mean - float(x[0])) <= 2.0**-16 * (above[0] - below[0]), number


@SIGNED
def test_a_byte_for_each_number_keeps_the_mean(dtype: DType) -> None:
    """Over all bytes, whose middles recipes read, the mean is off by half of a 256th of the distance at most."""
    numbers = np.random.default_rng(4).uniform(-6, 6, 200).astype(np.float32)
    below, above = neighbours(numbers, dtype)
    result = rounded(np.repeat(numbers, 256), np.tile(middles(np.arange(256), 256), 200), dtype).astype(np.float64)
    error = (result.reshape(200, 256).mean(axis=1) - numbers) / (above - below)
    assert abs(error).max() <= 1 / 512 + 2.0**-20
    assert abs(error.mean()) < 2e-4


@SIGNED
def test_numbers_of_the_dtype_and_nan_stay(dtype: DType) -> None:
    x = every(dtype).astype(np.float32)
    for random in (*ENDS, 0.0):
        result = rounded(x, np.full_like(x, random), dtype)
        numbers = result.astype(np.float32)
        np.testing.assert_array_equal(numbers, expected(x, dtype, True).astype(np.float32))
        assert not np.signbit(numbers[numbers == 0]).any()


@SIGNED
def test_engines_give_the_same_bits(dtype: DType) -> None:
    jax = pytest.importorskip("jax")
    x = around_roundings()
    random, graph = uniform(x.size), rounding(x.size, dtype)
    wanted = np.where(np.isnan(x), 0, bits(rounded(x, random, dtype)))
    (by_runtime,) = run(lower(graph), graph, [x, random])
    (by_xla,) = jax.jit(lambda *arrays: traced(jax, graph, list(arrays))[0])(x, random)
    for result in (by_runtime, np.asarray(by_xla)):
        np.testing.assert_array_equal(np.where(np.isnan(x), 0, bits(result)), wanted)


def test_scales_are_not_rounded_at_random() -> None:
    with pytest.raises(TypeError, match="use cast"):
        rounding(3, float8_e8m0fnu)
    with pytest.raises(TypeError, match="use cast"):
        rounding(3, float32)
