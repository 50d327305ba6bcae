"""Gather and scatter by integer indices: selection, its gradients, which add, and products and extremes by index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Node, Value
from graphls.ir.types import DType, Type, bool_, float32, int32, int64
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import IN_BOUNDS, combined_at, namespace
from graphls.primitives.primitive import (
    Array,
    Primitive,
    f32,
    float_elements,
    no_gradient,
    normalise_axis,
    of,
    same_dtype,
    sample,
)
from graphls.primitives.shape import reshaped

Shape = tuple[int, ...]

_picked = partial(sample, integers=(-4, 4))


def require_indices(name: str, indices: Type) -> None:
    """Raise GraphTypeError for any other dtype than int32 and int64."""
    if indices.dtype not in (int32, int64):
        raise GraphTypeError(f"{name} takes int32 or int64 indices, not {indices}; cast them first.")


def axis_size(node: Node) -> int:
    """The size of the axis that the second operand of a node indexes."""
    size: int = node.attrs.get("size") or node.inputs[0].type.shape[node.attrs["axis"]]
    return size


class OneHot(Primitive):
    """1 at the position of each index along a new axis of size `depth`, 0 elsewhere.

    The new axis is at `axis` of the result. An index outside of range(depth) gives zeros only.
    """

    half = "exact"
    flops_per_element = 0
    samples = (
        sample(of(int64, 5), depth=3, dtype=float32),
        sample(of(int32, 2, 3), depth=4, axis=0, dtype=float32),
        sample(of(int32, 2, 3), depth=4, axis=-2, dtype=int32),
        sample(of(int64), depth=4, dtype=float32, integers=(2, 3)),
    )
    vjp = no_gradient

    def infer(self, indices: Type, depth: int, dtype: DType, axis: int = -1) -> Type:
        require_indices(self.name, indices)
        if depth < 0:
            raise GraphValueError(f"one_hot takes a depth of 0 or more, not {depth}.")
        at = normalise_axis(axis, indices.rank + 1)
        return Type(dtype, (*indices.shape[:at], depth, *indices.shape[at:]))

    def numpy(self, indices: Array, depth: int, dtype: DType, axis: int = -1) -> Array:
        expanded = namespace(indices).expand_dims(indices, axis)
        result: Array = (expanded == self._positions(indices.ndim + 1, depth, axis)).astype(_computed(dtype))
        return result

    def _positions(self, rank: int, depth: int, axis: int) -> Array:
        return np.arange(depth).reshape([depth if i == axis % rank else 1 for i in range(rank)])

    def onnx(self, e: Emitter, indices: str, depth: int, dtype: DType, axis: int = -1) -> str:
        kind = e.in_types[0]
        expanded = e.Unsqueeze(indices, e.ints([axis]))
        positions = e.const(self._positions(kind.rank + 1, depth, axis), kind.dtype)
        return e.cast(e.Equal(expanded, positions), e.out_types[0].dtype)


def _computed(dtype: DType) -> Any:
    return np.float32 if dtype.is_half else dtype.numpy


class Gather(Primitive):
    """The slices of x at the indices along an axis; the axes of the indices replace that axis.

    Negative indices count from the end. One outside of the axis raises an error in NumPy and on the CPU; on an
    accelerator the result is unspecified.
    """

    half = "native"
    flops_per_element = 0
    integer_gradient = "whole"
    takes_indices = True
    samples = (
        _picked(f32(4, 3), of(int64, 5), axis=0),
        _picked(f32(2, 4, 3), of(int32, 2, 2), axis=-2),
        _picked(f32(2, 4), of(int64), axis=1),
        _picked(f32(4, 3), of(int64, 0), axis=0),
        _picked(of(int32, 4), of(int64, 3), axis=0),
    )

    def infer(self, x: Type, indices: Type, axis: int) -> Type:
        require_indices(self.name, indices)
        at = normalise_axis(axis, x.rank)
        return x.with_shape((*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))

    def numpy(self, x: Array, indices: Array, axis: int) -> Array:
        return np.asarray(np.take(x, indices, axis))

    def xla(self, jax: Any, x: Any, indices: Any, axis: int) -> Any:
        places: Any = (*[slice(None)] * (axis % x.ndim), indices)
        return jax.numpy.asarray(x).at[places].get(mode=IN_BOUNDS)

    def vjp(self, e: Builder, g: Value, x: Value, indices: Value, y: Value, axis: int) -> Any:
        return e.gather_gradient(g, indices, axis=axis, size=x.type.shape[axis]), None

    def onnx(self, e: Emitter, x: str, indices: str, axis: int) -> str:
        return e.Gather(x, indices, axis=axis)


class GatherGradient(Primitive):
    """Zeros with `size` slices along an axis, to which the slices of g are added by index.

    The adjoint of `gather` with the same axis and indices: slices of g with the same index add up.
    """

    integer_gradient = "whole"
    is_bounded = True
    takes_indices = True
    samples = (
        _picked(f32(5, 3), of(int64, 5), axis=0, size=4),
        _picked(f32(2, 2, 2, 3), of(int32, 2, 2), axis=-2, size=4),
        _picked(f32(2), of(int64), axis=1, size=4),
        _picked(f32(0, 3), of(int64, 0), axis=0, size=4),
        _picked(f32(20), of(int64, 20), axis=0, size=4),
    )

    def infer(self, g: Type, indices: Type, axis: int, size: int) -> Type:
        require_indices(self.name, indices)
        at = normalise_axis(axis, g.rank - indices.rank + 1)
        if g.shape[at : at + indices.rank] != indices.shape:
            raise GraphValueError(f"gather_gradient of {g} along axis {axis} does not fit the indices {indices}.")
        return g.with_shape((*g.shape[:at], size, *g.shape[at + indices.rank :]))

    def numpy(self, g: Array, indices: Array, axis: int, size: int) -> Array:
        at = normalise_axis(axis, g.ndim - indices.ndim + 1)
        before, after = g.shape[:at], g.shape[at + indices.ndim :]
        xp = namespace(g, indices)
        zeros = xp.zeros((size, *before, *after), g.dtype)
        flat = xp.moveaxis(g.reshape(*before, indices.size, *after), at, 0)
        result: Array = xp.moveaxis(combined_at(zeros, (indices.reshape(-1),), flat, np.add), 0, at)
        return result

    def vjp(self, e: Builder, gg: Value, g: Value, indices: Value, y: Value, axis: int, size: int) -> Any:
        return e.gather(gg, indices, axis=axis), None

    def onnx(self, e: Emitter, g: str, indices: str, axis: int, size: int) -> str:
        """Adds by ScatterElements, because ScatterND adds repeated indices with a data race."""
        source, picked = e.in_types
        at = normalise_axis(axis, source.rank - picked.rank + 1)
        before, after = source.shape[:at], source.shape[at + picked.rank :]
        shape = (*before, prod(picked.shape), *after)
        column = reshaped(e, indices, (*[1] * len(before), prod(picked.shape), *[1] * len(after)))
        return _added(e, reshaped(e, g, shape), e.Expand(column, e.ints(shape)), at)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """One for each added float."""
        return float_elements(inputs[0])


def _added(e: Emitter, g: str, indices: str, axis: int) -> str:
    """Zeros to which the elements of g are added along an axis."""
    zeros = e.Expand(e.scalar(0), e.ints(e.out_types[0].shape))
    return e.ScatterElements(zeros, indices, g, axis=axis, reduction="add")


class GatherElements(Primitive):
    """The elements of x at the indices along an axis; the other sizes of both are equal.

    Indices count as in `gather`.
    """

    half = "native"
    flops_per_element = 0
    integer_gradient = "whole"
    takes_indices = True
    samples = (
        _picked(f32(3, 4), of(int64, 3, 1), axis=1),
        _picked(f32(4, 2, 3), of(int32, 5, 2, 3), axis=-3),
        _picked(f32(3, 4), of(int64, 3, 0), axis=1),
    )

    def infer(self, x: Type, indices: Type, axis: int) -> Type:
        require_indices(self.name, indices)
        require_same_others(self.name, x, indices, normalise_axis(axis, x.rank))
        return x.with_shape(indices.shape)

    def numpy(self, x: Array, indices: Array, axis: int) -> Array:
        result: Array = namespace(x, indices).take_along_axis(x, indices.astype(np.int64), axis)
        return result

    def vjp(self, e: Builder, g: Value, x: Value, indices: Value, y: Value, axis: int) -> Any:
        return e.gather_elements_gradient(g, indices, axis=axis, size=x.type.shape[axis]), None

    def onnx(self, e: Emitter, x: str, indices: str, axis: int) -> str:
        return e.GatherElements(x, indices, axis=axis)


def require_same_others(name: str, x: Type, indices: Type, axis: int) -> None:
    """Raise GraphValueError unless both have the same sizes along all axes except one."""
    others = [t.shape[:axis] + t.shape[axis + 1 :] for t in (x, indices)]
    if x.rank != indices.rank or others[0] != others[1]:
        raise GraphValueError(f"{name} of {x} does not fit the indices {indices}: sizes off axis {axis} differ.")


class GatherElementsGradient(Primitive):
    """Zeros of `size` along an axis, to which the elements of g are added by index.

    The adjoint of `gather_elements`.
    """

    integer_gradient = "whole"
    takes_indices = True
    samples = (
        _picked(f32(3, 1), of(int64, 3, 1), axis=1, size=4),
        _picked(f32(5, 2, 3), of(int32, 5, 2, 3), axis=-3, size=4),
        _picked(f32(3, 0), of(int64, 3, 0), axis=1, size=4),
    )

    def infer(self, g: Type, indices: Type, axis: int, size: int) -> Type:
        require_indices(self.name, indices)
        if g.shape != indices.shape:
            raise GraphValueError(f"{self.name} of {g} takes indices of that shape, not {indices}.")
        along = normalise_axis(axis, g.rank)
        return g.with_shape((*g.shape[:along], size, *g.shape[along + 1 :]))

    def numpy(self, g: Array, indices: Array, axis: int, size: int) -> Array:
        along = normalise_axis(axis, g.ndim)
        zeros = namespace(g, indices).zeros((*g.shape[:along], size, *g.shape[along + 1 :]), g.dtype)
        places = list(np.ogrid[tuple(map(slice, g.shape))])
        places[along] = indices
        result: Array = combined_at(zeros, tuple(places), g, np.add)
        return result

    def vjp(self, e: Builder, gg: Value, g: Value, indices: Value, y: Value, axis: int, size: int) -> Any:
        return e.gather_elements(gg, indices, axis=axis), None

    def onnx(self, e: Emitter, g: str, indices: str, axis: int, size: int) -> str:
        return _added(e, g, indices, axis)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """One for each added float."""
        return float_elements(inputs[0])


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
        places = list(np.ogrid[tuple(map(slice, indices.shape))])
        places[axis] = indices
        result: Array = combined_at(x.copy(), tuple(places), updates, type(self).ufunc)
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
