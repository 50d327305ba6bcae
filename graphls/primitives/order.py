"""Reversed order, and the k largest or smallest elements in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_, float32, float64, int32, int64, uint8
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import (
    Array,
    Primitive,
    f32,
    float_elements,
    normalise_axes,
    normalise_axis,
    of,
    sample,
)

Axes = tuple[int, ...]

_LEAST = -(2**63)


class Reverse(Primitive):
    """The elements in reverse order along some axes."""

    half = "exact"
    flops_per_element = 0
    moves = True
    integer_gradient = "whole"
    samples = (
        sample(f32(3, 4), axes=(0,)),
        sample(f32(2, 3, 4), axes=(-1, 0)),
        sample(f32(2, 3), axes=()),
        sample(f32(0, 3), axes=(0,)),
        sample(of(int32, 4), axes=(0,)),
        sample(of(bool_, 2, 4), axes=(1,)),
    )

    def infer(self, x: Type, axes: Axes) -> Type:
        normalise_axes(axes, x.rank)
        return x

    def numpy(self, x: Array, axes: Axes) -> Any:
        return namespace(x).flip(x, axes)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, axes: Axes) -> Any:
        return e.reverse(g, axes=axes)

    def onnx(self, e: Emitter, x: str, axes: Axes) -> str:
        if not axes:
            return e.Identity(x)
        starts, stops, steps = (e.ints([n] * len(axes)) for n in (-1, _LEAST, -1))
        return e.Slice(x, starts, stops, e.ints(axes), steps)


class TopK(Primitive):
    """The k largest or smallest numbers along an axis, in order, and their int64 positions.

    Equal numbers keep their order. A nan counts as an infinity, and stays a nan.
    """

    half = "exact"
    gives_positions = True
    samples = (
        sample(f32(4, 5), k=2, axis=-1, largest=True),
        sample(f32(3, 4, 2), k=4, axis=1, largest=False),
        sample(f32(5), k=0, axis=0, largest=True),
        sample(f32(0, 3), k=2, axis=1, largest=True),
        sample(of(int32, 3, 9), k=7, axis=1, largest=True, integers=(0, 3)),
        sample(of(int64, 9), k=9, axis=0, largest=False, integers=(0, 3)),
        sample(of(uint8, 9), k=9, axis=0, largest=True, integers=(0, 3)),
    )

    def infer(self, x: Type, k: int, axis: int, largest: bool) -> tuple[Type, Type]:
        if x.dtype is bool_:
            raise GraphTypeError(f"{self.name} takes numbers, not {x}; cast it first.")
        along = normalise_axis(axis, x.rank)
        if not 0 <= k <= x.shape[along]:
            raise GraphValueError(f"{self.name} cannot take {k} elements of {x} along axis {axis}.")
        shape = (*x.shape[:along], k, *x.shape[along + 1 :])
        return x.with_shape(shape), Type(int64, shape)

    def numpy(self, x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
        xp = namespace(x)
        key = xp.where(x != x, np.inf, x) if x.dtype.kind == "f" else x
        order = _falling(key, axis) if largest else _rising(key, axis)
        positions = order.take(np.arange(k), axis)
        return xp.take_along_axis(x, positions, axis), positions

    def vjp(
        self, e: Builder, g: Any, x: Value, values: Value, positions: Value, k: int, axis: int, largest: bool
    ) -> Any:
        if g[0] is None:
            return None
        return e.gather_elements_gradient(g[0], positions, axis=axis, size=x.type.shape[axis])

    def onnx(self, e: Emitter, x: str, k: int, axis: int, largest: bool) -> tuple[str, ...]:
        dtype, options = e.in_types[0].dtype, {"axis": axis, "largest": int(largest)}
        if not dtype.is_float:
            return e.results("TopK", [x, e.ints([k])], options, 2)
        key, key_dtype = (e.cast(x, float32), float32) if dtype.is_half else (x, dtype)
        key = e.Where(e.IsNaN(key), e.const(np.inf, key_dtype), key)
        if not e.is_right("TopK", key_dtype):
            key = _finite(e, key)
        _, positions = e.results("TopK", [key, e.ints([k])], options, 2)
        return e.GatherElements(x, positions, axis=axis), positions

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """One for each float among the operands."""
        return float_elements(*inputs)


def _rising(x: Array, axis: int) -> Any:
    """A stable argsort, which others than NumPy make by default."""
    return x.argsort(axis, kind="stable") if namespace(x) is np else x.argsort(axis)


def _falling(x: Array, axis: int) -> Any:
    """A stable argsort from the largest to the smallest."""
    xp = namespace(x)
    reverse = _rising(xp.flip(x, axis), axis)
    return xp.flip(x.shape[axis] - 1 - reverse, axis)


def _finite(e: Emitter, key: str) -> str:
    """A finite key in the same order: a GPU's kernel loses positions of infinities, and float64 has larger numbers."""
    least, most = (e.const(sign * float(np.finfo(np.float64).max), float64) for sign in (-1, 1))
    return e.Max(e.Min(e.cast(key, float64), most), least)
