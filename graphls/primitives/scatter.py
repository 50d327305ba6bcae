"""Scatter with a reduction: products and extremes of all updates for one index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_, float32, int32, int64
from graphls.primitives.emitter import Emitter
from graphls.primitives.indexing import require_indices, require_same_others
from graphls.primitives.primitive import Array, Primitive, f32, float_elements, normalise_axis, of, same_dtype, sample

_placed = partial(sample, low=0.5, high=1.5, integers=(-4, 4))


class Scatter(Primitive, abstract=True):
    """x with the elements of `updates` combined into those at `indices` along an axis.

    Indices and updates have one shape, which is that of x except for the axis. Indices count as in `gather`.
    """

    takes_indices = True
    may_be_operand = True
    """Without updates, the result is x itself."""

    reduction: str
    ufunc: Any
    samples = (
        _placed(f32(4, 3), of(int64, 6, 3), f32(6, 3), axis=0),
        _placed(f32(2, 4), of(int32, 2, 3), f32(2, 3), axis=-1),
        _placed(f32(4), of(int64, 0), f32(0), axis=0),
        _placed(f32(0, 4), of(int64, 0, 2), f32(0, 2), axis=1),
        _placed(of(int32, 4), of(int64, 9), of(int32, 9), axis=0),
        _placed(of(int64, 4), of(int64, 9), of(int64, 9), axis=0),
    )

    def infer(self, x: Type, indices: Type, updates: Type, axis: int) -> Type:
        require_indices(self.name, indices)
        if same_dtype(self.name, x, updates) is bool_:
            raise GraphTypeError(f"{self.name} takes numbers, not {x}; cast them first.")
        require_same_others(self.name, x, indices, normalise_axis(axis, x.rank))
        if updates.shape != indices.shape:
            raise GraphValueError(f"{self.name} of {updates} takes indices of that shape, not {indices}.")
        return x

    def numpy(self, x: Array, indices: Array, updates: Array, axis: int) -> Array:
        result = x.copy()
        places = list(np.ogrid[tuple(map(slice, indices.shape))])
        places[axis] = indices
        type(self).ufunc.at(result, tuple(places), updates)
        return result

    def onnx(self, e: Emitter, x: str, indices: str, updates: str, axis: int) -> str:
        """Halves are combined in float32; nans, which the kernels of extremes lose, are restored."""
        if not e.in_types[2].size:
            return e.Identity(x)
        dtype = e.out_types[0].dtype
        operands = [e.cast(name, float32) if dtype.is_half else name for name in (x, updates)]
        result = e.ScatterElements(operands[0], indices, operands[1], axis=axis, reduction=self.reduction)
        result = e.cast(result, dtype) if dtype.is_half else result
        loses_nans = self.reduction != "mul" and dtype.is_float
        return _with_nans(e, result, x, indices, updates, axis) if loses_nans else result

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """One for each float among the updates."""
        return float_elements(inputs[2])


def _with_nans(e: Emitter, result: str, x: str, indices: str, updates: str, axis: int) -> str:
    before, new = (e.cast(e.IsNaN(name), int32) for name in (x, updates))
    is_nan = e.cast(e.ScatterElements(before, indices, new, axis=axis, reduction="max"), bool_)
    return e.Where(is_nan, e.const(np.nan, e.out_types[0].dtype), result)


class ScatterExtreme(Scatter, abstract=True):
    """The largest or smallest of an element and its updates; equal ones share the gradient."""

    half = "exact"

    def vjp(self, e: Builder, g: Value, x: Value, indices: Value, updates: Value, y: Value, axis: int) -> Any:
        dtype, size = g.type.dtype, x.type.shape[axis]
        own_wins = e.cast(e.equal(x, y), dtype=dtype)
        update_wins = e.cast(e.equal(updates, e.gather_elements(y, indices, axis=axis)), dtype=dtype)
        count = e.add(own_wins, e.gather_elements_gradient(update_wins, indices, axis=axis, size=size))
        share = e.div(g, count)
        return e.mul(share, own_wins), None, e.mul(e.gather_elements(share, indices, axis=axis), update_wins)


class ScatterMax(ScatterExtreme):
    """The largest of the element of x and of the updates for its index, nan where one is."""

    reduction, ufunc = "max", np.maximum


class ScatterMin(ScatterExtreme):
    """The smallest of the element of x and of the updates for its index, nan where one is."""

    reduction, ufunc = "min", np.minimum


class ScatterMul(Scatter):
    """The product of the element of x and of the updates for its index.

    First and second derivatives are correct where updates are 0; a third one needs all of them to differ from 0.
    """

    reduction, ufunc = "mul", np.multiply

    def vjp(self, e: Builder, g: Value, x: Value, indices: Value, updates: Value, y: Value, axis: int) -> Any:
        """The product of the other factors: that of the nonzero updates, times that of the other zeros.

        With one other zero, a sum in place of the product keeps its derivative; with two, the derivative is 0 as well.
        """
        dtype, size = g.type.dtype, x.type.shape[axis]
        zero, one = e.constant(0.0, dtype), e.constant(1.0, dtype)
        ones = e.broadcast_to(one, shape=x.type.shape)
        is_zero = e.equal(updates, zero)
        nonzero, zero_updates = e.where(is_zero, one, updates), e.where(is_zero, updates, zero)
        zeros = e.cast(is_zero, dtype=dtype)
        sums = (e.gather_elements_gradient(v, indices, axis=axis, size=size) for v in (zeros, zero_updates))
        others, other = (
            e.sub(e.gather_elements(v, indices, axis=axis), own)
            for v, own in zip(sums, (zeros, zero_updates), strict=True)
        )
        product = e.mul(g, e.scatter_mul(x, indices, nonzero, axis=axis))
        quotient = e.div(e.gather_elements(product, indices, axis=axis), nonzero)
        factors = e.scatter_mul(ones, indices, updates, axis=axis)
        of_zeros = e.where(e.equal(others, zero), one, e.where(e.equal(others, one), other, zero))
        return e.mul(g, factors), None, e.mul(quotient, of_zeros)
