"""Activation functions that are exact only as one primitive."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import float64
from graphls.primitives.elementary import exponential, log_of_one_plus
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, FloatElementwise, f32, of, sample


class Softplus(FloatElementwise):
    """log(1 + exp(x)), which does not overflow and is exact where it is tiny; its gradient is 1/2 at 0."""

    widened_at = ("auto",)
    session_from = 1 << 16
    samples = (
        sample(f32(2, 3)),
        sample(f32(0, 2)),
        sample(f32(2, 3), low=-30.0, high=-10.0),
        sample(of(float64, 5), low=10.0, high=800.0),
    )

    def numpy(self, x: Array) -> Array:
        return np.asarray(np.logaddexp(x, np.zeros((), x.dtype)))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value) -> Any:
        return e.mul(g, e.sigmoid(x))

    def onnx(self, e: Emitter, x: str) -> str:
        """max(x, 0) + log1p(exp(-abs(x))): the runtime's own kernel is 0 below -17."""
        return e.Add(e.Relu(x), log_of_one_plus(e, exponential(e, e.Neg(e.Abs(x)))))
