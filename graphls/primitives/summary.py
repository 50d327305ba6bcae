"""What the diagnosis of overflows wants to know of a value. A plain `import graphls` leaves this file alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float64
from graphls.primitives.primitive import Array, Primitive, f32, require_float, sample


class Summary(Primitive):
    """Four numbers about a float, f64[4]: infinities, nans, and the least and the greatest finite element.

    Without a finite element the least is inf and the greatest -inf.
    """

    half = "exact"
    samples = (
        sample(f32(2, 3), gradient=False),
        sample(f32(), gradient=False),
        sample(f32(40), low=-1e39, high=1e39, gradient=False),
        sample(f32(3), low=1e39, high=1e40, gradient=False),
    )

    def infer(self, x: Type) -> Type:
        require_float(self.name, x)
        return Type(float64, (4,))

    def numpy(self, x: Array) -> Array:
        finite = np.isfinite(x)
        least = np.min(x, where=finite, initial=math.inf)
        greatest = np.max(x, where=finite, initial=-math.inf)
        return np.array([np.isinf(x).sum(), np.isnan(x).sum(), least, greatest], np.float64)

    def vjp(self, e: Builder, g: Any, x: Value, out: Value) -> Any:
        return None

    def onnx(self, e: Any, x: str) -> Any:
        """Comparisons with nan are false, and the runtime has no test for infinities on every device."""
        if not e.in_types[0].size:
            return e.const([0.0, 0.0, math.inf, -math.inf], float64)
        infinity = e.scalar(math.inf)
        is_infinite, is_nan = e.Equal(e.Abs(x), infinity), e.Not(e.Equal(x, x))
        is_finite = e.Less(e.Abs(x), infinity)
        least = e.ReduceMin(e.Where(is_finite, x, infinity), keepdims=0)
        greatest = e.ReduceMax(e.Where(is_finite, x, e.scalar(-math.inf)), keepdims=0)
        counts = [e.ReduceSum(e.cast(flags, float64), keepdims=0) for flags in (is_infinite, is_nan)]
        numbers = [*counts, e.cast(least, float64), e.cast(greatest, float64)]
        return e.Concat(*(e.Reshape(n, e.ints((1,))) for n in numbers), axis=0)
