"""Rounding to a low dtype up or down at random, so that the mean is the number."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.ir.types import DType, Type, float4_e2m1fn, float8_e4m3fn, float8_e5m2, float8_e5m2fnuz, float16, float32
from graphls.primitives.emitter import Emitter
from graphls.primitives.low_precision import FORMATS, as_low, finite, first_place, is_quick, sign_of, with_signs
from graphls.primitives.low_precision_in_xla import rounded_in_xla
from graphls.primitives.primitive import Array, Primitive, f32, no_gradient, of, sample

HALF = np.float32(2.0**-25)
"""Half a unit of random numbers."""


class RoundStochastically(Primitive):
    """x in a low dtype: one of its two neighbours, each the more often the nearer it is, and x itself where it is one.

    It is the larger magnitude where `random`, a float32 of [0, 1) as from random_uniform, is less than the share of
    the way to it, minus half a unit of the 24 bits of random numbers. So the mean is x up to 2 ** -24 of the distance
    between the neighbours, and the smallest of numbers, which some engines take for 0, become 0.
    Numbers beyond the range become its ends, and nan stays nan, as in a cast that saturates. No gradient passes.
    """

    half = "native"
    native_low = True
    flops_per_element = 8
    elementwise = True
    samples = (
        sample(f32(2, 30), f32(2, 30), dtype=float8_e4m3fn, low=0.0, high=1.0, gradient=False),
        sample(of(float16, 60), f32(60), dtype=float8_e5m2, low=0.0, high=1.0, gradient=False),
        sample(f32(60), f32(60), dtype=float8_e5m2fnuz, low=0.0, high=1.0, gradient=False),
        sample(f32(3, 20), f32(3, 20), dtype=float4_e2m1fn, low=-7.0, high=7.0, gradient=False),
    )
    vjp = no_gradient

    def infer(self, x: Type, random: Type, dtype: DType) -> Type:
        if not (x.dtype.is_float and random.dtype.is_float) or x.shape != random.shape:
            raise GraphTypeError(f"{self.name} takes floats and as many random ones, not {x} and {random}.")
        if not isinstance(dtype, DType) or not dtype.is_low or not FORMATS[dtype].is_signed:
            raise GraphTypeError(f"{self.name} rounds to low dtypes with a sign, not to {dtype!r}; use cast.")
        return x.with_dtype(dtype)

    def numpy(self, x: Array, random: Array, dtype: DType) -> Array:
        form, x = FORMATS[dtype], x.astype(np.float32)
        magnitude = np.minimum(np.abs(x), np.float32(form.most))
        places = (magnitude.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32)
        unit = np.maximum(places, np.float32(form.least)) * np.float32(2.0**-form.mantissa)
        with np.errstate(invalid="ignore"):
            lower = np.floor(magnitude / unit)
            rounded = (lower + (random.astype(np.float32) < magnitude / unit - lower - HALF)) * unit
        return as_low(np.copysign(rounded, x), dtype)

    def xla(self, jax: Any, x: Array, random: Array, dtype: DType) -> Any:
        """The rule of NumPy on the same bits."""
        xp, form, x = jax.numpy, FORMATS[dtype], x.astype(np.float32)
        magnitude = xp.minimum(xp.abs(x), np.float32(form.most))
        places = jax.lax.bitcast_convert_type(magnitude, np.uint32) & np.uint32(0x7F800000)
        least = xp.maximum(jax.lax.bitcast_convert_type(places, np.float32), np.float32(form.least))
        unit = least * np.float32(2.0**-form.mantissa)
        shares = magnitude / unit
        lower = xp.floor(shares)
        rounded = (lower + (random.astype(np.float32) < shares - lower - HALF)) * unit
        return rounded_in_xla(jax, xp.copysign(rounded, x), dtype, True)

    def onnx(self, e: Emitter, x: str, random: str, dtype: DType) -> str:
        form = FORMATS[dtype]
        singles = zip((x, random), e.in_types, strict=True)
        x, random = (name if kind.dtype is float32 else e.cast(name, float32) for name, kind in singles)

        def at_random(magnitude: str) -> str:
            last = 2.0**-form.mantissa
            unit = e.Max(first_place(e, magnitude, float32, last), e.const(form.least * last, float32))
            shares = e.Div(magnitude, unit)
            lower = e.Floor(shares)
            is_up = e.Less(random, e.Sub(e.Sub(shares, lower), e.const(HALF)))
            return e.Mul(e.Add(lower, e.cast(is_up, float32)), unit)

        if is_quick(e, form) and form.has_negative_zero:
            x, huge = finite(e, x, form)
            nearer = e.Mul(at_random(e.Abs(x)), sign_of(e, x, huge))
        else:
            nearer = with_signs(e, x, form, form.most, at_random)
        return e.cast(nearer, dtype) if e.out_types[0].dtype is dtype else nearer
