"""Conversion between dtypes."""

from __future__ import annotations

from typing import Any

from graphls.base.errors import GraphTypeError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import TOKEN, DType, Type, bool_, float16, float32, float64, int32, int64
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Primitive, f32, of, sample


class Cast(Primitive):
    """The operand in another dtype, rounded to the nearest once; floats become integers towards zero.

    A float beyond the range of an integer dtype becomes some integer; which one is not said. A float64 becomes a
    bfloat16 by way of float32.
    """

    half = "native"
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
    )

    def infer(self, x: Type, dtype: DType) -> Type:
        if not isinstance(dtype, DType) or TOKEN.dtype in (dtype, x.dtype):
            raise GraphTypeError(f"cast takes an array and the dtype of another, not {x} and {dtype!r}.")
        return x.with_dtype(dtype)

    def numpy(self, x: Array, dtype: DType) -> Array:
        return x.astype(dtype.numpy)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, dtype: DType) -> Any:
        return None if bool_ in (dtype, x.type.dtype) else e.cast(g, dtype=x.type.dtype)

    def onnx(self, e: Emitter, x: str, dtype: DType) -> str:
        if e.in_types[0].dtype is float64 and dtype is float16:
            return _rounded_once(e, x)
        return e.cast(x, dtype)


def _rounded_once(e: Emitter, x: str) -> str:
    """A float64 as a float16, where the runtime goes through float32 and so rounds twice.

    Where the float32 lies halfway between two float16, the rest that float32 lost says to which side
    x belongs. Numbers above 1 are scaled so that the neighbour of the largest float16 is finite.
    """
    is_large = e.Greater(e.Abs(x), e.const(1.0, float64))
    x = e.Mul(x, e.Where(is_large, e.const(0.25, float64), e.const(1.0, float64)))
    single = e.cast(x, float32)
    rest = e.Sub(x, e.cast(single, float64))
    nearest = e.cast(e.cast(single, float16), float32)
    distance = e.Sub(single, nearest)
    other = e.Add(nearest, e.Add(distance, distance))
    zero = e.const(0.0, float64)
    is_other = e.Equal(e.cast(e.cast(other, float16), float32), other)
    above, below = e.And(is_other, e.Greater(rest, zero)), e.And(is_other, e.Less(rest, zero))
    rounded = e.Where(above, e.Max(nearest, other), e.Where(below, e.Min(nearest, other), nearest))
    unscaled = e.Mul(rounded, e.Where(is_large, e.const(4.0, float32), e.const(1.0, float32)))
    return e.cast(unscaled, float16)
