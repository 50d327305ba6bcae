"""Where the largest and the smallest elements are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.ir.types import Type, float32, int32, int64, uint8
from graphls.primitives.emitter import Emitter
from graphls.primitives.extremes import extreme_along
from graphls.primitives.primitive import Array, Primitive, f32, float_elements, no_gradient, normalise_axis, of, sample
from graphls.primitives.reduction import reduced, reduced_shape, require_elements, require_numbers


class Position(Primitive, abstract=True):
    """The int64 position of one element along an axis, the first nan where there is one."""

    half = "exact"
    samples = (
        sample(f32(4, 5), axis=-1, gradient=False),
        sample(f32(2, 3, 4), axis=1, keepdims=True, gradient=False),
        sample(of(int32, 3, 9), axis=1, integers=(0, 3)),
        sample(of(int64, 9), axis=0, integers=(0, 3)),
        sample(of(uint8, 9), axis=0, integers=(0, 3)),
        sample(f32(0, 3), axis=1),
    )
    vjp = no_gradient

    def infer(self, x: Type, axis: int, keepdims: bool = False) -> Type:
        require_numbers(self.name, x)
        axes = (normalise_axis(axis, x.rank),)
        require_elements(self.name, x, axes)
        return Type(int64, reduced_shape(x, axes, keepdims))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """One for each float among the operands."""
        return float_elements(*inputs)


def _position(e: Emitter, operator: str, x: str, axis: int, keepdims: bool) -> str:
    """The runtime has no kernel for int64, and a GPU hardly any, but they have those of the extremes."""
    dtype = e.in_types[0].dtype
    if dtype is int64 or not e.has_kernel(operator):
        extreme = extreme_along(e, operator.replace("Arg", "Reduce"), x, (axis,), True)
        found = _first(e, e.Equal(x, extreme), axis, keepdims)
    else:
        found = e.operator(operator, [x], {"axis": axis, "keepdims": int(keepdims)})
    if not dtype.is_float:
        return str(found)
    is_nan = e.IsNaN(x)
    first_nan = _first(e, is_nan, axis, True)
    has_nan = e.GatherElements(is_nan, first_nan, axis=axis)
    if not keepdims:
        first_nan, has_nan = (e.Squeeze(name, e.ints([axis])) for name in (first_nan, has_nan))
    return e.Where(has_nan, first_nan, found)


def _first(e: Emitter, is_it: str, axis: int, keepdims: bool) -> str:
    """The position of the first true bool along an axis, some position where none is."""
    if e.has_kernel("ArgMax", float32):
        return e.ArgMax(e.cast(is_it, float32), axis=axis, keepdims=int(keepdims))
    shape = e.in_types[0].shape
    last = shape[axis] - 1
    places = np.arange(last + 1).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    return reduced(e, "ReduceMin", e.Where(is_it, e.const(places), e.ints([last])), [axis], keepdims)


class Argmax(Position):
    """The position of the largest number along an axis, the first of equal ones or of nans, as int64."""

    def numpy(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims))

    def onnx(self, e: Emitter, x: str, axis: int, keepdims: bool = False) -> str:
        return _position(e, "ArgMax", x, axis, keepdims)


class Argmin(Position):
    """The position of the smallest number along an axis, the first of equal ones or of nans, as int64."""

    def numpy(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        return np.asarray(np.argmin(x, axis=axis, keepdims=keepdims))

    def onnx(self, e: Emitter, x: str, axis: int, keepdims: bool = False) -> str:
        return _position(e, "ArgMin", x, axis, keepdims)
