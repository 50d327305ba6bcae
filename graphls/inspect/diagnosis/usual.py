"""The ratios of signal to noise that a low dtype gives to numbers of a normal distribution: what a tensor can have."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from graphls.ir.types import DType
from graphls.primitives.low_precision import FORMATS

Array = np.ndarray[Any, Any]

NUMBERS = 4096
"""The numbers of the largest block by which that is measured; larger ones have nearly the same ratios."""

FEWEST = 16
"""Those of the smallest one: fewer have better ratios, as the largest number of a block is exact."""


@cache
def usual_ratios(dtype: DType, count: int = NUMBERS, is_stochastic: bool = False) -> tuple[float, float]:
    """The ratio over all numbers and that by element, in dB, with a scale for each `count` numbers.

    Each block is scaled so that its largest magnitude is that of the format. Stochastic rounding has the noise of its
    expected square, (x - lower) (upper - x); by element its mean counts, which is x, and so the ratio of rounding to
    the nearest is that of the mean that is still usual.
    """
    count = min(max(count, FEWEST), NUMBERS)
    x = np.random.default_rng(0).standard_normal((4 * NUMBERS // count, count))
    x *= FORMATS[dtype].most / np.abs(x).max(1, keepdims=True)
    square = np.square(x - x.astype(np.float32).astype(dtype.numpy).astype(np.float64))
    by_element = ratio(1.0, float((square / np.square(x)).mean()))
    return ratio(float(np.square(x).sum()), float((_variance(dtype, x) if is_stochastic else square).sum())), by_element


def _variance(dtype: DType, x: Array) -> Array:
    """The expected square of the error of stochastic rounding."""
    numbers = np.abs(np.arange(1 << FORMATS[dtype].bits, dtype=np.uint8).view(dtype.numpy).astype(np.float64))
    numbers, magnitude = np.unique(numbers[np.isfinite(numbers)]), np.abs(x)
    upper = np.minimum(np.searchsorted(numbers, magnitude), numbers.size - 1)
    lower = np.maximum(upper - 1, 0)
    variance: Array = (magnitude - numbers[lower]) * (numbers[upper] - magnitude)
    return variance


def ratio(signal: float, noise: float) -> float:
    """A ratio in dB; inf without noise, -inf where numbers became infinite or nan, as by a scale that is."""
    if not noise:
        return math.inf
    if not math.isfinite(noise):
        return -math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
