"""Stochastic rounding to float4_e2m1fn, exactly the same on every engine for the same random numbers."""

from __future__ import annotations

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import float4_e2m1fn, float32


def rounded_at_random(e: Builder, x: Value, uniform: Value) -> Value:
    """x, of float32, as one of the two nearest numbers of float4_e2m1fn, by `uniform` in [0, 1) of the same shape.

    It is the upper one as often as x is near to it, so that the mean is x; beyond 6 it is 6, and no zero has a sign.
    Every operation is exact, but for the distance of numbers just below 0 from the lower one. Sources: "Pretraining
    Large Language Models with NVFP4" (arXiv 2509.25149), section 4.4; Transformer Engine, jax/quantize/quantizer.py,
    `_apply_stochastic_rounding`.
    """
    x = e.maximum(e.minimum(x, 6.0), -6.0)
    size = e.abs(x)
    below_two, below_four = e.less(size, 2.0), e.less(size, 4.0)
    half, one, two = (e.constant(step, float32) for step in (0.5, 1, 2))
    step = e.where(below_two, half, e.where(below_four, one, two))
    steps = e.mul(x, e.where(below_two, two, e.where(below_four, one, half)))
    lower = e.floor(steps)
    rises = e.less(uniform, e.sub(steps, lower))
    return e.cast(e.mul(e.add(lower, e.cast(rises, dtype=float32)), step), dtype=float4_e2m1fn)  # type: ignore[no-any-return]
