"""Rounding to dtypes of eight bits and fewer for XLA, from the bits of float32 to those of the low dtype.

Conversions of XLA differ from those of `ml_dtypes` with some of its compilers for a CPU: 496 becomes a zero of
float8_e4m3fn, and numbers that become -0 a nan of the fnuz dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.types import DType
from graphls.primitives.low_precision import FORMATS
from graphls.primitives.primitive import Array

SIGN, INFINITE, FIRST, NAN = 0x80000000, 0x7F800000, 0x00800000, 255
"""Bits of float32: the sign, infinity, and the smallest normal number; and nan of float8_e8m0fnu."""


def rounded_in_xla(jax: Any, x: Array, dtype: DType, saturate: bool) -> Any:
    """Numbers of float32 as those of a low dtype."""
    bits = jax.lax.bitcast_convert_type(x, np.uint32)
    magnitude, is_negative = bits & np.uint32(SIGN - 1), bits >= np.uint32(SIGN)
    codes_of = _codes if FORMATS[dtype].is_signed else _exponents
    codes = codes_of(jax, magnitude, is_negative, dtype, saturate)
    words = jax.numpy.uint8 if FORMATS[dtype].bits == 8 else jax.numpy.uint4
    return jax.lax.bitcast_convert_type(codes.astype(words), dtype.numpy)


def _codes(jax: Any, magnitude: Array, is_negative: Array, dtype: DType, saturate: bool) -> Any:
    """The bits of a dtype with a sign."""
    xp, form = jax.numpy, FORMATS[dtype]
    codes = _nearest(jax, magnitude, dtype)
    most, beyond = _code(form.most, dtype), _code(form.most if saturate else form.beyond, dtype)
    codes = xp.where(codes > most, beyond, codes)
    is_nan = magnitude > np.uint32(INFINITE)
    codes = xp.where(is_nan, _code(np.nan, dtype) if form.has_nan else np.uint32(0), codes)
    is_negative = is_negative if form.has_nan else is_negative | is_nan
    sign = xp.where(is_negative, np.uint32(2 ** (form.bits - 1)), np.uint32(0))
    return codes | sign if form.has_negative_zero else xp.where(codes == 0, codes, codes | sign)


def _nearest(jax: Any, magnitude: Array, dtype: DType) -> Any:
    """Magnitudes rounded to the nearest, ties to even, in a range without an end."""
    form = FORMATS[dtype]
    dropped = 23 - form.mantissa
    last = (magnitude >> np.uint32(dropped)) & np.uint32(1)
    normal = (magnitude + np.uint32(2 ** (dropped - 1) - 1) + last) >> np.uint32(dropped)
    least = _bits(form.least)
    normal = normal - np.uint32((int(least) >> dropped) - 2**form.mantissa)
    large = np.float32(1.5 * 2.0**dropped * form.least)
    sums = jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(magnitude, np.float32) + large, np.uint32)
    return jax.numpy.where(magnitude < least, sums - _bits(large), normal)


def _exponents(jax: Any, magnitude: Array, is_negative: Array, dtype: DType, saturate: bool) -> Any:
    """The numbers that float8_e8m0fnu stores for float32: below 2 ** -126, which is 1, all up to 2 ** -127 are 0."""
    xp, least = jax.numpy, np.uint32(FIRST // 2)
    small = xp.where(magnitude <= least, np.uint32(0), np.uint32(1))
    codes = xp.where(magnitude < np.uint32(FIRST), small, (magnitude + least) >> np.uint32(23))
    codes = xp.where(codes == NAN, np.uint32(NAN - saturate), codes)
    is_nan = (magnitude > np.uint32(INFINITE)) | (is_negative & (magnitude > 0))
    return xp.where(is_nan if saturate else is_nan | (magnitude == 0), np.uint32(NAN), codes)


def _bits(number: Any) -> Any:
    return np.float32(number).view(np.uint32)


def _code(number: float, dtype: DType) -> Any:
    return np.uint32(np.array(number, dtype.numpy).view(np.uint8))
