"""Conversion between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import (
    TOKEN,
    DType,
    Type,
    bool_,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from graphls.primitives.arithmetic import as_wide
from graphls.primitives.emitter import Emitter
from graphls.primitives.low_precision import as_low, in_float32, rounded
from graphls.primitives.low_precision_in_xla import rounded_in_xla
from graphls.primitives.primitive import Array, FloatElementwise, Primitive, f32, of, sample


class Cast(Primitive):
    """The operand in another dtype, rounded to the nearest once; floats become integers towards zero.

    A float beyond the range of an integer dtype becomes an unspecified integer. A float64 becomes a bfloat16 by way of
    float32.

    In a low dtype, numbers beyond its range, infinite ones too, become its largest or lowest finite number, as in the
    table of ONNX's Cast; with `saturate=False` nan or inf, as in `ml_dtypes`. A nan stays one; float4_e2m1fn has none,
    and stores it as -0. float8_e8m0fnu, which has neither zero nor a sign, stores 0 as its least number, 2 ** -127, or
    without `saturate` as nan, and numbers below 0 as nan. Integers and
    float64 become low by way of float32, as in `ml_dtypes`.
    """

    half = "native"
    native_low = True
    flops_per_element = 0
    is_transparent = True
    integer_gradient = "whole"
    samples = (
        sample(f32(2, 3), dtype=float64),
        sample(f32(2, 3), dtype=float32, gradient=False),
        sample(f32(2, 3), dtype=float16, gradient=False),
        sample(of(float64, 50), dtype=float16, gradient=False),
        sample(f32(9), dtype=int32, low=-5.0, high=5.0, gradient=False),
        sample(of(int64, 9), dtype=float16, integers=(-70000, 70000)),
        sample(of(int32, 9), dtype=bool_),
        sample(of(bool_, 9), dtype=float32),
        sample(f32(2, 30), dtype=float8_e4m3fn, low=-600.0, high=600.0, gradient=False),
        sample(f32(2, 30), dtype=float8_e5m2, low=-7e4, high=7e4, gradient=False, saturate=False),
        sample(of(float16, 60), dtype=float8_e4m3fnuz, low=-300.0, high=300.0, gradient=False, saturate=False),
        sample(f32(60), dtype=float8_e5m2fnuz, low=-7e4, high=7e4, gradient=False),
        sample(f32(60), dtype=float8_e8m0fnu, low=-1.0, high=9.0, gradient=False),
        sample(f32(60), dtype=float4_e2m1fn, low=-7.0, high=7.0, gradient=False),
        sample(of(float8_e4m3fn, 9), dtype=float32),
        sample(of(float8_e8m0fnu, 9), dtype=float16, integers=(0, 9)),
    )

    def infer(self, x: Type, dtype: DType, saturate: bool = True) -> Type:
        if not isinstance(dtype, DType) or TOKEN.dtype in (dtype, x.dtype):
            raise GraphTypeError(f"cast takes an array and the dtype of another, not {x} and {dtype!r}.")
        if not (saturate is True or (saturate is False and dtype.is_low)):
            raise GraphTypeError(f"A cast to {dtype!r} takes no saturate={saturate!r}; to a low dtype true or false.")
        return x.with_dtype(dtype)

    def numpy(self, x: Array, dtype: DType, saturate: bool = True) -> Array:
        if dtype.is_low:
            return as_low(x, dtype, saturate)
        if dtype is float32:
            return in_float32(x)
        with np.errstate(over="ignore"):
            return x.astype(dtype.numpy)

    def xla(self, jax: Any, x: Array, dtype: DType, saturate: bool = True) -> Any:
        """A bool selects a number: of a product with a converted one XLA makes a selection, in which inf * 0 is 0."""
        if x.dtype == bool:
            return jax.numpy.where(x, np.ones((), dtype.numpy), np.zeros((), dtype.numpy))
        if x.dtype == np.float64 and dtype is float16:
            x = _rounded_to_odd(jax, x)
        if dtype.is_low:
            return rounded_in_xla(jax, x.astype(np.float32), dtype, saturate)
        return x.astype(dtype.numpy)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, dtype: DType, saturate: bool = True) -> Any:
        is_flat = any(kind is bool_ or kind.is_low for kind in (dtype, x.type.dtype))
        return None if is_flat else e.cast(g, dtype=x.type.dtype)

    def onnx(self, e: Emitter, x: str, dtype: DType, saturate: bool = True) -> str:
        source = e.in_types[0].dtype
        if dtype.is_low:
            return rounded(e, x if source is float32 else e.cast(x, float32), dtype, saturate)
        if source is float64 and dtype is float16:
            return _rounded_once(e, x)
        return e.cast(x, dtype)


def _rounded_to_odd(jax: Any, x: Array) -> Any:
    """A float64 as a float32 whose last bit is 1 where it is inexact: rounding that once more is rounding x once."""
    single = x.astype(np.float32)
    is_inexact = single.astype(np.float64) != x
    bits = jax.lax.bitcast_convert_type(single, np.int32)
    bits = (bits - (abs(single) > abs(x))) | is_inexact
    return jax.lax.bitcast_convert_type(bits, np.float32)


def _rounded_once(e: Emitter, x: str) -> str:
    """A float64 as a float16, rounded once; the runtime's own Cast goes through float32 and rounds twice.

    Where the float32 lies halfway between two float16, the remainder that float32 lost decides the side of x.
    Numbers above 1 are scaled so that the neighbour of the largest float16 is finite.
    """
    is_large = e.Greater(e.Abs(x), e.const(1.0, float64))
    x = e.Mul(x, e.Where(is_large, e.const(0.25, float64), e.const(1.0, float64)))
    single = e.cast(x, float32)
    remainder = e.Sub(x, e.cast(single, float64))
    nearest = e.cast(e.cast(single, float16), float32)
    distance = e.Sub(single, nearest)
    other = e.Add(nearest, e.Add(distance, distance))
    zero = e.const(0.0, float64)
    is_other = e.Equal(e.cast(e.cast(other, float16), float32), other)
    above, below = e.And(is_other, e.Greater(remainder, zero)), e.And(is_other, e.Less(remainder, zero))
    rounded = e.Where(above, e.Max(nearest, other), e.Where(below, e.Min(nearest, other), nearest))
    unscaled = e.Mul(rounded, e.Where(is_large, e.const(4.0, float32), e.const(1.0, float32)))
    return e.cast(unscaled, float16)


class FakeQuantize(FloatElementwise):
    """x rounded to `steps` + 1 numbers from `low` to `high`, which broadcast and are shifted so that 0 is one of them.

    The result of QuantizeLinear and DequantizeLinear with the scale (high - low) / steps, or 1 where that is not above
    0, and the zero point -low / scale, rounded. The gradient passes straight through inside of the range; that of an
    element outside goes to the nearer end of the range (as in TensorFlow's fake_quant_with_min_max_vars).
    """

    samples = (
        sample(f32(2, 3), f32(), f32(), gradient=False),
        sample(f32(2, 3), f32(2, 1), f32(2, 1), gradient=False, steps=254),
        sample(of(float64, 5), of(float64), of(float64), gradient=False, steps=15),
        sample(f32(0, 2), f32(), f32(), gradient=False),
    )

    def infer(self, *types: Type, steps: int = 255) -> Type:
        return super().infer(*types)

    def numpy(self, x: Array, low: Array, high: Array, steps: int = 255) -> Any:
        with np.errstate(all="ignore"):
            scale = (high - low) / x.dtype.type(steps)
            scale = np.where(scale > 0, scale, np.ones((), x.dtype))
            return _quantized(np, x, low, scale, steps)

    def xla(self, jax: Any, x: Array, low: Array, high: Array, steps: int = 255) -> Any:
        """Quotients that differ by their last bit may round to another step."""
        width = high - low
        scale = width / as_wide(jax, width, x.dtype.type(steps))
        scale = as_wide(jax, x, jax.numpy.where(scale > 0, scale, np.ones((), x.dtype)))
        return _quantized(jax.numpy, x, jax.numpy.broadcast_to(low, scale.shape), scale, steps)

    def vjp(self, e: Builder, g: Value, x: Value, low: Value, high: Value, y: Value, steps: int = 255) -> Any:
        width = e.div(e.sub(high, low), e.constant(steps, x.type.dtype))
        scale = e.where(e.greater(width, 0.0), width, e.constant(1, x.type.dtype))
        zero = e.minimum(e.maximum(e.round(e.div(e.neg(low), scale)), 0.0), float(steps))
        below = e.less(x, e.neg(e.mul(zero, scale)))
        above = e.greater(x, e.mul(e.sub(e.constant(steps, x.type.dtype), zero), scale))
        none = e.constant(0, g.type.dtype)
        inside = e.where(e.logical_or(below, above), none, g)
        return inside, e.where(below, g, none), e.where(above, g, none)

    def onnx(self, e: Emitter, x: str, low: str, high: str, steps: int = 255) -> str:
        dtype = e.in_types[0].dtype
        none, most, one = (e.const(number, dtype) for number in (0, steps, 1))
        width = e.Div(e.Sub(high, low), most)
        scale = e.Where(e.Greater(width, none), width, one)
        zero = e.Min(e.Max(e.Round(e.Div(e.Neg(low), scale)), none), most)
        quantized = e.Min(e.Max(e.Add(e.Round(e.Div(x, scale)), zero), none), most)
        return e.Mul(e.Sub(quantized, zero), scale)


def _quantized(xp: Any, x: Array, low: Array, scale: Array, steps: int) -> Any:
    zero = xp.clip(xp.rint(-low / scale), 0, steps)
    return (xp.clip(xp.rint(x / scale) + zero, 0, steps) - zero) * scale
