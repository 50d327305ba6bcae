"""Rounding to a low dtype up or down at random, so that the mean is the number."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.ir.types import DType, Type, float4_e2m1fn, float8_e4m3fn, float8_e5m2, float8_e5m2fnuz, float16, float32
from graphls.primitives.emitter import Emitter
from graphls.primitives.low_precision import (
    DIGITS,
    FORMATS,
    Format,
    as_low,
    between,
    first_place,
    is_quick,
    without_nan,
)
from graphls.primitives.low_precision_in_xla import rounded_in_xla
from graphls.primitives.primitive import Array, Primitive, f32, no_gradient, of, sample

PLACES = 0x7F800000
"""The bits of a float32 that its power of two has."""
ROUND = 1.5 * 2.0 ** DIGITS[float32]
"""A number that rounds a smaller one to an integer, ties to even, where it is added and subtracted."""


class RoundStochastically(Primitive):
    """x in a low dtype: one of its two neighbours, each the more often the nearer it is, and x itself where it is one.

    `random` are as many numbers between -1/2 and 1/2, multiples of 2 ** -17. In units of the last place of x in the low
    dtype their sum with x is rounded to the nearest integer, ties to even. So the mean is x up to half the distance of
    two random numbers. Numbers beyond the range become its ends, nan stays nan or is 0 in a dtype that has none, and
    zeros have no sign. No gradient passes.
    """

    half = "native"
    native_low = True
    flops_per_element = 8
    elementwise = True
    samples = (
        sample(f32(2, 30), f32(2, 30), dtype=float8_e4m3fn, low=-0.5, high=0.5, gradient=False),
        sample(of(float16, 60), f32(60), dtype=float8_e5m2, low=-0.5, high=0.5, gradient=False),
        sample(f32(60), f32(60), dtype=float8_e5m2fnuz, low=-0.5, high=0.5, gradient=False),
        sample(f32(3, 20), f32(3, 20), dtype=float4_e2m1fn, low=-0.5, high=0.5, gradient=False),
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
        bounded = np.clip(x if form.has_nan else np.where(np.isnan(x), np.float32(0), x), -form.most, form.most)
        places = (np.abs(bounded).view(np.uint32) & np.uint32(PLACES)).view(np.float32)
        unit = np.maximum(places, np.float32(form.least)) * np.float32(2.0**-form.mantissa)
        with np.errstate(invalid="ignore"):
            nearest = np.rint(bounded / unit + random.astype(np.float32))
        return as_low(nearest * unit + np.float32(0), dtype)

    def xla(self, jax: Any, x: Array, random: Array, dtype: DType) -> Any:
        """The rule of NumPy on the same bits."""
        xp, form, x = jax.numpy, FORMATS[dtype], x.astype(np.float32)
        bounded = xp.clip(x if form.has_nan else xp.where(xp.isnan(x), np.float32(0), x), -form.most, form.most)
        places = jax.lax.bitcast_convert_type(xp.abs(bounded), np.uint32) & np.uint32(PLACES)
        least = xp.maximum(jax.lax.bitcast_convert_type(places, np.float32), np.float32(form.least))
        unit = least * np.float32(2.0**-form.mantissa)
        nearest = xp.rint(bounded / unit + random.astype(np.float32))
        result = xp.where(nearest == 0, np.float32(0), nearest * unit)  # of a sum with 0 XLA would make its operand
        return rounded_in_xla(jax, result, dtype, True)

    def onnx(self, e: Emitter, x: str, random: str, dtype: DType) -> str:
        form = FORMATS[dtype]
        singles = zip((x, random), e.in_types, strict=True)
        x, random = (name if kind.dtype is float32 else e.cast(name, float32) for name, kind in singles)
        x = without_nan(e, x, form) if is_quick(e, form) else _bounded(e, x, form)
        unit, integer = _unit(e, e.Abs(x), form), e.const(ROUND, float32)
        nearest = e.Sub(e.Add(e.Add(e.Div(x, unit), random), integer), integer)
        result = e.Mul(nearest, unit)
        return e.cast(result, dtype) if e.out_types[0].dtype is dtype else result


def _unit(e: Emitter, magnitude: str, form: Format) -> str:
    """The last place of numbers up to the largest of a format.

    Those of float4 are 1/2 up to 2, 1 up to 4 and 2 beyond: half of the magnitude without its fraction, from 1/2 to 2.
    """
    last = 2.0**-form.mantissa
    if form is FORMATS[float4_e2m1fn] and is_quick(e, form):
        halves = e.Floor(e.Mul(magnitude, e.const(0.5, float32)))
        return between(e, halves, 0.5, 2.0)
    return e.Max(first_place(e, magnitude, float32, last), e.const(form.least * last, float32))


def _bounded(e: Emitter, x: str, form: Format) -> str:
    """Numbers in the range, and nan where the format has it, or 0."""
    if not form.has_nan:
        x = e.Where(e.IsNaN(x), e.const(0.0, float32), x)
    return e.Max(e.Min(x, e.const(form.most, float32)), e.const(-form.most, float32))
