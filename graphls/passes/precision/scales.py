"""Scales from absolute maxima, as recipes of low precision compute them: in float32, the same bits on every engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import DType, float32
from graphls.primitives.scaling import Blocks

LARGEST = float(np.finfo(np.float32).max)


def absolute_maximum(e: Builder, x: Value, block: tuple[int, ...]) -> Value:
    """The float32 maximum of each block; those of float64 beyond its range are inf."""
    maximum = e.absolute_maximum(x, block=block)
    return maximum if maximum.dtype is float32 else e.cast(maximum, dtype=float32)  # type: ignore[no-any-return]


def current_scale(e: Builder, maximum: Value, dtype: DType, largest: float, power_of_two: bool) -> Value:
    """The multipliers that take these maxima to the largest number of `dtype`; 1 for maxima of 0, inf and nan.

    A quotient beyond float32 is `largest`. A power of two is the greatest that is not above the quotient. Source:
    `compute_scale_from_amax` of Transformer Engine, common/recipe/recipe_common.cuh.
    """
    scale = e.minimum(e.div(largest_number(dtype), maximum), largest)
    if power_of_two:
        scale = power_below(e, scale)
    fits = e.logical_and(e.greater(maximum, 0.0), e.is_finite(maximum))
    return e.where(fits, scale, e.constant(1, float32))  # type: ignore[no-any-return]


@cache
def largest_number(dtype: DType) -> float:
    """The largest finite number of a float dtype, low ones too."""
    import ml_dtypes

    numbers: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    return float(numbers.max)


def inverse(e: Builder, scale: Value, maximum: Value) -> Value:
    """1 / scale; what is not finite where the maximum is not.

    A saturating cast makes 448 of inf. This gives inf or nan back to the rounded numbers, so that an overflow of loss
    scaling stays one.
    """
    return e.where(e.is_finite(maximum), e.div(1.0, scale), maximum)  # type: ignore[no-any-return]


def power_below(e: Builder, x: Value) -> Value:
    """The greatest power of two that is not above x, of float32 from 2 ** -126 to the largest finite number."""
    return e.cast(e.shared_power(x, largest=1.0, rounds_up=False), dtype=float32)  # type: ignore[no-any-return]


def scaled(e: Builder, x: Value, scale: Value, block: tuple[int, ...]) -> Value:
    """x * scale in float32, where the scale has one element for each block, without a rounding to a low dtype."""
    x, blocks = x if x.dtype is float32 else e.cast(x, dtype=float32), Blocks(x.shape, block)
    if blocks.are_padded:
        for axis, (size, length) in enumerate(zip(block, x.shape, strict=True)):
            if size > 1 and scale.shape[axis] > 1:
                scale = _repeated(e, scale, axis, size, length)
        return e.mul(x, scale)  # type: ignore[no-any-return]
    product = e.mul(e.reshape(x, shape=blocks.parts), e.reshape(scale, shape=blocks.spread))
    return e.reshape(product, shape=x.shape)  # type: ignore[no-any-return]


def _repeated(e: Builder, x: Value, axis: int, size: int, length: int) -> Value:
    """Each element `size` times along an axis, which has `length` elements then."""
    before, count, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    apart = e.reshape(x, shape=(*before, count, 1, *after))
    together = e.reshape(
        e.broadcast_to(apart, shape=(*before, count, size, *after)), shape=(*before, count * size, *after)
    )
    stops = (*before, length, *after)
    return e.slice(together, starts=(0,) * x.rank, stops=stops, steps=(1,) * x.rank)  # type: ignore[no-any-return]
