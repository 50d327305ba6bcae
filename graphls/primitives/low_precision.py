"""Rounding to dtypes of eight bits and fewer: ranges, and the rule in arithmetic of wider floats for ONNX.

A model holds numbers of a low dtype as float32. ONNX's Cast to float8 is no help: few runtimes have all kernels of it,
ONNX Runtime (1.32) none for float4, and those that it has take three times as long as this arithmetic on a CPU. A model
for other tools may have the Cast (`Target.native_low`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from graphls.ir.types import (
    DType,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
)
from graphls.primitives.emitter import Emitter

Array = np.ndarray[Any, Any]

DIGITS = {float32: 23, float64: 52}
"""The bits of a mantissa."""

_HUGE = 2.0**100


@dataclass(frozen=True)
class Format:
    """The numbers of a low dtype.

    `mantissa` bits follow the first digit, `least` is the smallest normal number and `most` the largest finite one,
    and `beyond` is what a number beyond it becomes where a cast does not saturate.
    """

    mantissa: int
    least: float
    most: float
    beyond: float
    is_signed: bool = True
    has_negative_zero: bool = True
    has_nan: bool = True
    bits: int = 8

    @property
    def lowest(self) -> float:
        """The smallest number."""
        return -self.most if self.is_signed else self.least


FORMATS: dict[DType, Format] = {
    float8_e4m3fn: Format(3, 2.0**-6, 448.0, np.nan),
    float8_e4m3fnuz: Format(3, 2.0**-7, 240.0, np.nan, has_negative_zero=False),
    float8_e5m2: Format(2, 2.0**-14, 57344.0, np.inf),
    float8_e5m2fnuz: Format(2, 2.0**-15, 57344.0, np.nan, has_negative_zero=False),
    float8_e8m0fnu: Format(0, 2.0**-127, 2.0**127, np.nan, is_signed=False, has_negative_zero=False),
    float4_e2m1fn: Format(1, 1.0, 6.0, 6.0, has_nan=False, bits=4),
}
"""The formats: OCP's 8-bit floating point and microscaling specifications, and the fnuz ones of Noune et al. (2022)."""


_LOW = frozenset(dtype.numpy for dtype in FORMATS)

CHUNK = 1 << 15
"""Elements that the host rounds at a time, so that what it computes of them stays in the second-level cache."""


def as_low(x: Array, dtype: DType, saturate: bool = True) -> Array:
    """Numbers of any dtype in a low one, by way of float32, rounded as `ml_dtypes` does it, in a twelfth of its time.

    The upper 16 bits of a float32 with a 1 behind them, where a lower bit is set, round to the same number, as all low
    dtypes have fewer digits (rounding to odd: Boldo and Melquiond, 2008). So a table of 65,536 numbers has them all.
    """
    bits = np.ascontiguousarray(x, np.float32).reshape(-1).view(np.uint32)
    result, table = np.empty(bits.size, np.uint8), _table(dtype, saturate)
    for start in range(0, bits.size, CHUNK):
        some = bits[start : start + CHUNK]
        upper = (some >> 16).astype(np.uint16)
        upper |= some.astype(np.uint16) != 0
        table.take(upper, out=result[start : start + CHUNK], mode="clip")  # which needs no buffer, as "raise" does
    return result.view(dtype.numpy).reshape(x.shape)


def in_float32(x: Array) -> Array:
    """An array in float32; on the host, those of a low dtype by a table of all their numbers."""
    if isinstance(x, np.ndarray) and x.dtype in _LOW:
        return _numbers(x.dtype).take(x.view(np.uint8))
    return x.astype(np.float32)


@cache
def _numbers(dtype: np.dtype[Any]) -> Array:
    """All numbers of a low dtype, by their bits; those that a float4 has no bits for as NumPy reads them."""
    return np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)


@cache
def _table(dtype: DType, saturate: bool) -> Array:
    """The bits of the low number for each upper half of a float32."""
    numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        return _rounded_by_library(numbers, dtype, saturate).view(np.uint8)


def _rounded_by_library(x: Array, dtype: DType, saturate: bool) -> Array:
    """Numbers of float32 in a low dtype, rounded by `ml_dtypes`."""
    form = FORMATS[dtype]
    if saturate:
        bounded = np.clip(x, np.float32(form.lowest), np.float32(form.most))
        x = bounded if form.is_signed else np.where(x >= 0, bounded, x)
    if not form.has_nan:
        x = np.where(np.isnan(x), np.float32(np.nan), x)  # of which `ml_dtypes` makes -0, of one with a sign 0
    return x.astype(dtype.numpy)


def rounded(e: Emitter, x: str, dtype: DType, saturate: bool) -> str:
    """Numbers of float32 rounded to those of a low dtype, in the dtype in which the result is computed."""
    if e.out_types[0].dtype is dtype:
        return e.cast(x, dtype, saturate)
    form = FORMATS[dtype]
    if not form.is_signed:
        return _as_powers(e, x, form, saturate)
    if saturate and is_quick(e, form):
        return _saturated(e, x, form)
    if form.has_negative_zero:
        return with_signs(e, x, form, _bound(form, saturate), partial(_magnitudes, e, form, saturate))
    bound = e.const(_bound(form, saturate), float32)
    result = _nearest(e, e.Max(e.Min(x, bound), e.Neg(bound)), form)
    return result if saturate else _beyond(e, result, e.Abs(result), form)


def _saturated(e: Emitter, x: str, form: Format) -> str:
    """The form that takes ONNX Runtime 0.6 of the time of the others on a CPU: 0.6 nanoseconds an element.

    x + d - d rounds x to the last place of d. A magnitude with 11 digits, shifted by the digits that are to go, is such
    a d: where it is rounded to the next power of two, so is x. Below the smallest normal number all have its last
    place; 1.5 times that keeps d - |x| above a power of two.
    """
    has_signs = form.has_negative_zero and e.has_signs and e.has_negative
    x, huge = finite(e, x, form) if has_signs else (without_nan(e, x, form), 0.0)
    magnitude = e.Abs(x) if e.has_negative else x
    digits = between(e, e.cast(e.cast(magnitude, float16), float32), 1.5 * form.least, np.inf)
    large = e.Mul(digits, e.const(2.0 ** (DIGITS[float32] - form.mantissa), float32))
    if not has_signs:
        return e.Sub(e.Add(x, large), large)
    return e.Mul(e.Sub(e.Add(magnitude, large), large), sign_of(e, x, huge))


def is_quick(e: Emitter, form: Format) -> bool:
    """Whether the runtime has right kernels of what takes its processors the least time."""
    is_right = e.runs_as_written and e.is_right("Clip", float32)
    return is_right and (form.has_nan or e.is_right("ThresholdedRelu", float32))


def finite(e: Emitter, x: str, form: Format) -> tuple[str, float]:
    """Numbers in the range, and a factor for their signs: negative ones, of which nan is 0, where a format has no nan.

    A nan becomes -0.
    """
    return (without_nan(e, x, form), _HUGE) if form.has_nan else (without_nan(e, e.Neg(x), form), -_HUGE)


def without_nan(e: Emitter, x: str, form: Format) -> str:
    """Numbers in the range, with 0 for nan where a format has none.

    ThresholdedRelu takes a quarter of the time of a selection, whose condition is an array as well.
    """
    x = between(e, x, -form.most, form.most)
    return x if form.has_nan or e.may_be_nan else e.operator("ThresholdedRelu", [x], {"alpha": -2 * form.most})


def sign_of(e: Emitter, x: str, huge: float) -> str:
    """1 or -1, or a number with the sign where it is tiny, of the products with a large factor."""
    return between(e, e.Mul(x, e.const(huge, float32)), -1.0, 1.0)


def between(e: Emitter, x: str, least: float, most: float) -> str:
    """Numbers from the least to the most, and nans; the kernel takes half of the time of Max and Min."""
    return e.operator("Clip", [x, e.const(least, float32), e.const(most, float32)])


def _bound(form: Format, saturate: bool) -> float:
    """A bound of finite numbers, beyond which all become the same."""
    return form.most if saturate else 4 * form.most


def _beyond(e: Emitter, x: str, magnitude: str, form: Format) -> str:
    """The numbers, with those beyond the largest finite one replaced."""
    return e.Where(e.Greater(magnitude, e.const(form.most, float32)), e.const(form.beyond, float32), x)


def _magnitudes(e: Emitter, form: Format, saturate: bool, x: str) -> str:
    result = _nearest(e, x, form)
    return result if saturate else _beyond(e, result, result, form)


def _nearest(e: Emitter, x: str, form: Format) -> str:
    """Finite numbers, or magnitudes of a format with -0, rounded to the mantissa, ties to even; -0 becomes 0.

    Adding 1.5 times a power of two, and subtracting it, rounds to a unit that is a fixed part of that power.
    """
    place = first_place(e, x, float32)
    unit = e.Max(place if form.has_negative_zero else e.Abs(place), e.const(form.least, float32))
    large = e.Mul(unit, e.const(1.5 * 2.0 ** (DIGITS[float32] - form.mantissa), float32))
    return e.Sub(e.Add(x, large), large)


def first_place(e: Emitter, x: str, wide: DType, factor: float = 1.0) -> str:
    """The power of two of the first digit, with the sign of the number, times a power of two.

    Algorithm 3.6 of Rump, Ogita and Oishi, Accurate Floating-Point Summation I (2008). ONNX Runtime (1.32) takes the
    float64 before 1 for 1, and would drop a product with it.
    """
    digits = DIGITS[wide]
    scaled, rest = e.Mul(x, e.const((2.0**digits + 1) * factor, wide)), 2.0 ** (-digits - 1)
    if wide is float64:
        return e.Sub(scaled, e.Sub(scaled, e.Mul(scaled, e.const(rest, wide))))
    return e.Sub(scaled, e.Mul(scaled, e.const(1 - rest, wide)))


def with_signs(e: Emitter, x: str, form: Format, bound: float, function: Callable[[str], str]) -> str:
    """A function of the magnitudes up to a bound, times the signs: a selection of the runtime would lose that of -0."""
    magnitude = e.Abs(x)
    if form.has_nan:
        sign = _sign(e, x)
    else:
        is_nan = e.IsNaN(x)
        magnitude, sign = e.Where(is_nan, e.const(0.0, float32), magnitude), _sign_or_minus(e, x, is_nan)
    result = function(e.Min(magnitude, e.const(bound, float32)))
    if form.has_negative_zero:
        return e.Mul(result, sign)
    zero = e.const(0.0, float32)
    return e.Where(e.Equal(result, zero), zero, e.Mul(result, sign))


def _sign(e: Emitter, x: str) -> str:
    """1 or -1, or for numbers that become 0, a number with their sign, -0 for -0."""
    one = e.const(1.0, float32)
    return e.Max(e.Min(e.Mul(x, e.const(2.0**60, float32)), one), e.Neg(one))


def _sign_or_minus(e: Emitter, x: str, is_nan: str) -> str:
    """1 or -1, the latter for -0 and nan: a reciprocal has the sign of a zero, and survives a selection."""
    one, minus, large = (e.const(number, float32) for number in (1.0, -1.0, 8.0))
    inverse = e.Div(large, e.Max(e.Min(x, large), e.Neg(large)))
    return e.Max(e.Min(e.Where(is_nan, minus, inverse), one), minus)


def _as_powers(e: Emitter, x: str, form: Format, saturate: bool) -> str:
    """The nearest powers of two, the larger one of two, by way of float64, of which none of them is subnormal.

    All numbers between the least two become the larger one, as in `ml_dtypes` and XLA.
    """
    x = e.cast(x, float64)
    none, nan, most = (e.const(number, float64) for number in (0.0, np.nan, form.most))
    bounded = e.Max(e.Min(x, e.const(_bound(form, saturate), float64)), e.const(form.least, float64))
    second = e.Max(bounded, e.const(2 * form.least, float64))
    bounded = e.Where(e.Greater(bounded, e.const(form.least, float64)), second, bounded)
    half = e.Mul(first_place(e, bounded, float64), e.const(0.5, float64))
    power = first_place(e, e.Add(bounded, half), float64)
    if saturate:
        return e.cast(e.Where(e.Less(x, none), nan, power), float32)
    return e.cast(e.Where(e.Greater(x, none), e.Where(e.Greater(power, most), nan, power), nan), float32)
