"""The power of two that the numbers of a block share, from their maximum."""

from __future__ import annotations

from math import frexp
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.ir.types import Type, float8_e8m0fnu, float32, float64
from graphls.primitives.emitter import Emitter
from graphls.primitives.low_precision import first_place
from graphls.primitives.primitive import Array, Primitive, f32, no_gradient, require_float, sample

NAN, MANTISSA = 255, 0x7FFFFF
"""nan of float8_e8m0fnu, and the bits of float32 behind the first digit."""


class SharedPower(Primitive):
    """The greatest power of two p with p * q not above x in float32, in float8_e8m0fnu, as the scale of an MX block.

    q is the greatest power of two that is not above `largest`, the largest number of a format. With `rounds_up` it is
    the least p with p * `largest` not below x, by which no number of the block saturates. Of numbers below 2 ** -126 it
    is 2 ** -127, of inf and nan nan. No gradient passes. Sources: OCP Microscaling Formats v1.0, section 6.3; Mishra et
    al., "Recipes for Pre-training LLMs with MXFP8" (arXiv 2506.08027), algorithm 1.
    """

    half = "native"
    flops_per_element = 1
    elementwise = True
    vjp = no_gradient
    samples = (
        sample(f32(4, 3), largest=448.0, rounds_up=True, gradient=False),
        sample(f32(7), largest=6.0, rounds_up=False, low=0.0, high=1e30, gradient=False),
        sample(f32(), largest=1.0, rounds_up=False, low=0.0, high=9.0, gradient=False),
    )

    def infer(self, x: Type, largest: float, rounds_up: bool) -> Type:
        require_float(self.name, x)
        if largest < 1 + rounds_up:
            text = f"{self.name} divides by the largest number of a format, which is {1 + rounds_up} or more"
            raise GraphValueError(f"{text}, not {largest}.")
        return x.with_dtype(float8_e8m0fnu)

    def numpy(self, x: Array, largest: float, rounds_up: bool) -> Any:
        with np.errstate(over="ignore"):
            bits = np.asarray(x).astype(np.float32).view(np.uint32)
        return _codes(np, bits, largest, rounds_up).astype(np.uint8).view(float8_e8m0fnu.numpy)

    def xla(self, jax: Any, x: Array, largest: float, rounds_up: bool) -> Any:
        bits = jax.lax.bitcast_convert_type(x.astype(np.float32), np.uint32)
        codes = _codes(jax.numpy, bits, largest, rounds_up)
        return jax.lax.bitcast_convert_type(codes.astype(np.uint8), float8_e8m0fnu.numpy)

    def onnx(self, e: Emitter, x: str, largest: float, rounds_up: bool) -> str:
        """The first digit of a quotient in float64, which is at least the next power of two where a number is beyond.

        A quotient just at `largest` is less by 2 ** -40, a float32 beyond it more by 2 ** -24.
        """
        digits, power = frexp(largest)
        divisor = digits * (1 + 2.0**-40) * 2.0**power / 2 if rounds_up else 2.0 ** (power - 1)
        single = x if e.in_types[0].dtype is float32 else e.cast(x, float32)
        quotient = e.Mul(e.cast(single, float64), e.const(1 / divisor, float64))
        return e.cast(e.Max(first_place(e, quotient, float64), e.const(2.0**-127, float64)), float32)


def _codes(xp: Any, bits: Array, largest: float, rounds_up: bool) -> Any:
    """The biased exponents, from the bits of float32."""
    exponent, mantissa = (bits >> np.uint32(23)).astype(np.int32), bits & np.uint32(MANTISSA)
    edge = int(np.float32(largest).view(np.uint32))
    codes = exponent - np.int32((edge >> 23) - 127)
    if rounds_up:
        codes = codes + (mantissa > np.uint32(edge & MANTISSA))
    codes = xp.clip(codes, 0, NAN - 1)
    codes = xp.where((exponent == 0) | (exponent > NAN), np.int32(0), codes)
    return xp.where(exponent % 256 == NAN, np.int32(NAN), codes)
