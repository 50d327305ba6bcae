"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float64
from graphls.primitives.elementary import exponential
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import Array, Primitive, f32, normalise_axis, require_float, sample
from graphls.primitives.reduction import reduced

_SAMPLES = (
    sample(f32(4, 5), axis=-1),
    sample(f32(2, 3, 4), axis=1),
    sample(f32(0, 3), axis=1),
    sample(f32(3, 0), axis=-1),
    sample(f32(3, 4), axis=0, low=-80.0, high=80.0, gradient=False),
)


class AlongAxis(Primitive, abstract=True):
    """A float function of all elements along one axis."""

    samples = _SAMPLES
    flops_per_element = 5
    """The maximum, a difference, the exponential, the sum, and a quotient or another difference."""

    def infer(self, x: Type, axis: int) -> Type:
        require_float(self.name, x)
        normalise_axis(axis, x.rank)
        return x


def _shifted(x: Array, axis: int) -> Any:
    return x - x.max(axis=axis, keepdims=True, initial=-np.inf)


class Softmax(AlongAxis):
    """exp(x) divided by its sum along an axis, without overflow."""

    session_from = 1 << 18

    widened_at = ("auto",)

    def numpy(self, x: Array, axis: int) -> Any:
        y = namespace(x).exp(_shifted(x, axis))
        return y / y.sum(axis=axis, keepdims=True)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, axis: int) -> Any:
        gy = e.mul(g, y)
        return e.sub(gy, e.mul(y, e.sum(gy, axis=(axis,), keepdims=True)))

    def onnx(self, e: Emitter, x: str, axis: int) -> str:
        """By the definition in float64, where kernels lose nan and -inf."""
        if e.in_types[0].dtype is not float64:
            return e.Softmax(x, axis=axis)
        y = exponential(e, _minus_maximum(e, x, axis))
        return e.Div(y, _total(e, y, axis))


class LogSoftmax(AlongAxis):
    """The logarithm of the softmax along an axis, exact where the softmax is tiny."""

    session_from = 1 << 18

    widened_at = ("auto",)

    def numpy(self, x: Array, axis: int) -> Any:
        xp, shifted = namespace(x), _shifted(x, axis)
        return shifted - xp.log(xp.exp(shifted).sum(axis=axis, keepdims=True))

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, axis: int) -> Any:
        return e.sub(g, e.mul(e.exp(y), e.sum(g, axis=(axis,), keepdims=True)))

    def onnx(self, e: Emitter, x: str, axis: int) -> str:
        """By the definition in float64, where kernels lose nan."""
        if e.in_types[0].dtype is not float64:
            return e.LogSoftmax(x, axis=axis)
        shifted = _minus_maximum(e, x, axis)
        return e.Sub(shifted, e.Log(_total(e, exponential(e, shifted), axis)))


def _minus_maximum(e: Emitter, x: str, axis: int) -> str:
    return e.Sub(x, reduced(e, "ReduceMax", x, [axis], keepdims=True))


def _total(e: Emitter, x: str, axis: int) -> str:
    return e.ReduceSum(x, e.ints([axis]), keepdims=1)
