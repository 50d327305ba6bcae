"""Two numbers of float4 in a byte, and back, as ONNX and safetensors store them: the first in the lower half."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.types import Type, float4_e2m1fn, float32, int32, int64, uint8
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Primitive, no_gradient, of, sample


class Pack(Primitive):
    """Pairs of float4_e2m1fn along the last axis as uint8; the last element of an odd number has 0 beside it."""

    half = "exact"
    flops_per_element = 0
    samples = (
        sample(of(float4_e2m1fn, 3, 4), gradient=False, integers=(-6, 7)),
        sample(of(float4_e2m1fn, 5), gradient=False, integers=(-6, 7)),
        sample(of(float4_e2m1fn, 2, 1), gradient=False, integers=(-6, 7)),
    )
    vjp = no_gradient

    def infer(self, x: Type) -> Type:
        if x.dtype is not float4_e2m1fn or not x.rank:
            raise GraphTypeError(f"pack takes arrays of float4_e2m1fn with an axis, not {x}.")
        return Type(uint8, (*x.shape[:-1], -(-x.shape[-1] // 2)))

    def numpy(self, x: Array) -> Any:
        return _pairs(np, np.ascontiguousarray(x).view(np.uint8).reshape(x.shape) & np.uint8(15))

    def xla(self, jax: Any, x: Array) -> Any:
        return _pairs(jax.numpy, jax.lax.bitcast_convert_type(x, jax.numpy.uint4).astype(np.uint8))

    def onnx(self, e: Emitter, x: str) -> str:
        """The codes of 0, 0.5, 1, 1.5, 2, 3, 4, 6 are the least of three lines; a reciprocal has the sign of -0."""
        size = e.in_types[0].shape[-1]
        one, two, four, eight = (e.const(float(number), float32) for number in (1, 2, 4, 8))
        magnitude = e.Abs(x)
        lines = e.Mul(magnitude, two), e.Add(magnitude, two), e.Add(e.Div(magnitude, two), four)
        sign = e.cast(e.Less(e.Div(one, x), e.const(0.0, float32)), float32)
        codes = e.Add(e.Min(e.Min(*lines[:2]), lines[2]), e.Mul(sign, eight))
        first, second = (e.Slice(codes, *_every_second(e, start, size)) for start in (0, 1))
        if size % 2:
            pads = [0] * (2 * e.in_types[0].rank)
            pads[-1] = 1
            second = e.Pad(second, e.ints(pads), e.const(0.0, float32))
        return e.cast(e.Add(first, e.Mul(second, e.const(16.0, float32))), e.out_types[0].dtype)


class Unpack(Primitive):
    """The `size` numbers of float4_e2m1fn that `pack` made bytes of along the last axis."""

    half = "exact"
    flops_per_element = 0
    samples = (
        sample(of(uint8, 3, 4), gradient=False, integers=(0, 256), size=8),
        sample(of(uint8, 5), gradient=False, integers=(0, 256), size=9),
    )
    vjp = no_gradient

    def infer(self, x: Type, size: int) -> Type:
        if x.dtype is not uint8 or not x.rank:
            raise GraphTypeError(f"unpack takes arrays of uint8 with an axis, not {x}.")
        if -(-size // 2) != x.shape[-1]:
            raise GraphValueError(f"unpack makes {2 * x.shape[-1]} numbers of {x}, or one less, not {size}.")
        return Type(float4_e2m1fn, (*x.shape[:-1], size))

    def numpy(self, x: Array, size: int) -> Array:
        return np.ascontiguousarray(_codes(np, x, size)).view(float4_e2m1fn.numpy)

    def xla(self, jax: Any, x: Array, size: int) -> Any:
        codes = _codes(jax.numpy, x, size).astype(jax.numpy.uint4)
        return jax.lax.bitcast_convert_type(codes, float4_e2m1fn.numpy)

    def onnx(self, e: Emitter, x: str, size: int) -> str:
        shape = e.in_types[0].shape
        wide, sixteen = e.cast(x, int32), e.const(16, int32)
        last = e.ints([len(shape)])
        both = [e.Unsqueeze(half, last) for half in (e.Mod(wide, sixteen), e.Div(wide, sixteen))]
        codes = e.Reshape(e.Concat(*both, axis=len(shape)), e.ints((*shape[:-1], 2 * shape[-1])))
        if size % 2:
            codes = e.Slice(codes, e.ints([0]), e.ints([size]), e.ints([len(shape) - 1]))
        table = np.arange(16, dtype=np.uint8).view(float4_e2m1fn.numpy).astype(np.float32)
        return e.Gather(e.const(table), e.cast(codes, int64), axis=0)


def _every_second(e: Emitter, start: int, size: int) -> tuple[str, str, str, str]:
    axis = e.ints([e.in_types[0].rank - 1])
    return e.ints([start]), e.ints([size]), axis, e.ints([2])


def _pairs(xp: Any, codes: Array) -> Any:
    """The bytes of numbers below 16."""
    first, second = codes[..., 0::2], codes[..., 1::2]
    if first.shape != second.shape:
        second = xp.concatenate([second, xp.zeros((*codes.shape[:-1], 1), np.uint8)], axis=-1)
    return first | second << np.uint8(4)


def _codes(xp: Any, x: Array, size: int) -> Any:
    """The numbers below 16 in bytes."""
    both = xp.stack([x & np.uint8(15), x >> np.uint8(4)], axis=-1)
    return both.reshape(*x.shape[:-1], 2 * x.shape[-1])[..., :size]
