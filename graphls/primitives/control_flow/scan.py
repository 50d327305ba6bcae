"""Running sums along an axis; other running values are made of slices (`graphls.ops.math.reductions`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, int32, int64
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Primitive, f32, normalise_axis, of, sample
from graphls.primitives.reduction import require_numbers


class Cumsum(Primitive):
    """The sums of all elements up to each along an axis, with it or, where `exclusive`, without; any numbers.

    `reverse` sums from the end.
    """

    widened_at = ("auto",)
    integer_gradient = "whole"
    samples = (
        sample(f32(2, 3, 4), axis=1),
        sample(f32(5), axis=-1, exclusive=True),
        sample(f32(4, 3), axis=0, reverse=True),
        sample(f32(4, 3), axis=0, exclusive=True, reverse=True),
        sample(f32(0, 3), axis=0),
        sample(of(int32, 9), axis=0, exclusive=True),
        sample(of(int64, 2, 4), axis=1),
    )

    def infer(self, x: Type, axis: int, exclusive: bool = False, reverse: bool = False) -> Type:
        require_numbers(self.name, x)
        normalise_axis(axis, x.rank)
        return x

    def numpy(self, x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
        x = np.flip(x, axis) if reverse else x
        y = np.cumsum(x, axis, dtype=x.dtype)
        y = np.roll(y, 1, axis) if exclusive else y
        if exclusive and y.size:
            y[(slice(None),) * (axis % x.ndim) + (0,)] = 0
        return np.flip(y, axis) if reverse else y

    def vjp(
        self, e: Builder, g: Value, x: Value, y: Value, axis: int, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        return e.cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse)

    def onnx(self, e: Emitter, x: str, axis: int, exclusive: bool = False, reverse: bool = False) -> str:
        return e.CumSum(x, e.const(axis, int64), exclusive=int(exclusive), reverse=int(reverse))
