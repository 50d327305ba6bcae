"""Numbers on the grid that integers of few bits make of a range."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float64
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, FloatElementwise, f32, of, sample


class FakeQuantize(FloatElementwise):
    """x rounded to `steps` + 1 numbers from `low` to `high`, which broadcast and are moved a little so that 0 is one.

    What QuantizeLinear and DequantizeLinear give for the scale (high - low) / steps, of which 1 is taken where it is
    not above 0, and the zero point -low / scale, rounded. The gradient passes straight through inside of the range;
    that of an element outside goes to the end of the range which it is beyond (as in TensorFlow's
    fake_quant_with_min_max_vars).
    """

    samples = (
        sample(f32(2, 3), f32(), f32(), gradient=False),
        sample(f32(2, 3), f32(2, 1), f32(2, 1), gradient=False, steps=254),
        sample(of(float64, 5), of(float64), of(float64), gradient=False, steps=15),
        sample(f32(0, 2), f32(), f32(), gradient=False),
    )

    def infer(self, *types: Type, steps: int = 255) -> Type:
        return super().infer(*types)

    def numpy(self, x: Array, low: Array, high: Array, steps: int = 255) -> Array:
        with np.errstate(all="ignore"):
            scale = (high - low) / x.dtype.type(steps)
            scale = np.where(scale > 0, scale, np.ones((), x.dtype))
            zero = np.clip(np.rint(-low / scale), 0, steps)
            return np.asarray((np.clip(np.rint(x / scale) + zero, 0, steps) - zero) * scale)

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
        whole = e.Min(e.Max(e.Add(e.Round(e.Div(x, scale)), zero), none), most)
        return e.Mul(e.Sub(whole, zero), scale)
