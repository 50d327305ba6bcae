"""Reductions along axes: sum, mean, product, any and all; and running sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_, float32, float64, int8, int32, int64, uint8
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import (
    Array,
    Primitive,
    f32,
    float_elements,
    no_gradient,
    normalise_axes,
    normalise_axis,
    of,
    require_float,
    sample,
)
from graphls.primitives.shape import by_halves, reshaped

Axes = tuple[int, ...] | None

AXES_AS_OPERAND = 18
"""The first opset in which reductions take their axes as an operand."""

FULL = (
    sample(f32(2, 3, 4)),
    sample(f32(2, 3, 4), axis=(1,)),
    sample(f32(2, 3, 4), axis=(-1, 0), keepdims=True),
    sample(f32(2, 3), axis=()),
    sample(f32()),
    sample(f32(0, 3), axis=(1,)),
)
EMPTY = (sample(f32(0, 3), gradient=False), sample(f32(2, 0), axis=(-1,), keepdims=True, gradient=False))
INTEGERS = (sample(of(int32, 2, 3), axis=(0,)), sample(of(int64, 5)), sample(of(int8, 5)))


class Reduction(Primitive, abstract=True):
    """A reduction of all elements along some axes, which are removed or, with `keepdims`, get size 1."""

    may_be_operand = True
    """Over no axes, as for a scalar, the result is the operand."""

    def infer(self, x: Type, axis: Axes = None, keepdims: bool = False) -> Type:
        return x.with_shape(reduced_shape(x, axis, keepdims))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """One for each float among the operands."""
        return float_elements(*inputs)


def reduced_shape(x: Type, axis: Axes, keepdims: bool) -> tuple[int, ...]:
    axes = normalise_axes(axis, x.rank)
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return tuple(n for i, n in enumerate(x.shape) if i not in axes)


def _count(x: Type, axis: Axes) -> int:
    return prod(x.shape[i] for i in normalise_axes(axis, x.rank))


def require_elements(name: str, x: Type, axis: Axes) -> None:
    if _count(x, axis) == 0:
        raise GraphValueError(f"{name} over no elements is not defined: {x} is empty along the axes {axis}.")


def restored(e: Builder, y: Value, x: Value, axis: Axes) -> Value:
    """A reduction's result, or its gradient, with the removed axes as axes of size 1."""
    shape = reduced_shape(x.type, axis, keepdims=True)
    return y if y.type.shape == shape else e.reshape(y, shape=shape)


def reduce(e: Emitter, operator: str, x: str, axis: Axes, keepdims: bool) -> str:
    axes = normalise_axes(axis, e.in_types[0].rank)
    return reduced(e, operator, x, axes, keepdims) if axes else e.Identity(x)


def reduced(e: Emitter, operator: str, x: str, axes: Sequence[int], keepdims: bool) -> str:
    """A reduction operator over axes, which are an attribute before opset 18 except for ReduceSum."""
    if e.opset < AXES_AS_OPERAND and operator != "ReduceSum":
        return e.operator(operator, [x], {"axes": tuple(axes), "keepdims": int(keepdims)})
    return e.operator(operator, [x, e.ints(axes)], {"keepdims": int(keepdims)})


def folded(e: Emitter, combine: Callable[[str, str], str], x: str, axis: Axes) -> str:
    """A reduction by an operator of two operands, where the kernel of the reduction is missing or wrong."""
    kind = e.in_types[0]
    axes = normalise_axes(axis, kind.rank)
    order = [*(i for i in range(kind.rank) if i not in axes), *axes]
    count = prod(kind.shape[i] for i in axes)
    x = reshaped(e, e.Transpose(x, perm=order), (kind.size // count, count))
    return reshaped(e, by_halves(e, combine, x, count), e.out_types[0].shape)


def require_numbers(name: str, x: Type) -> None:
    if x.dtype is bool_:
        raise GraphTypeError(f"{name} takes numbers, not {x}; cast it first.")


class Sum(Reduction):
    """The sum along axes, 0 over none; any numbers, integers wrap."""

    integer_gradient = "whole"
    samples = FULL + EMPTY + INTEGERS

    def infer(self, x: Type, axis: Axes = None, keepdims: bool = False) -> Type:
        require_numbers(self.name, x)
        return super().infer(x, axis, keepdims)

    def numpy(self, x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
        return x.sum(axis=axis, keepdims=keepdims, dtype=x.dtype)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, axis: Axes = None, keepdims: bool = False) -> Any:
        return e.broadcast_to(restored(e, g, x, axis), shape=x.type.shape)

    def onnx(self, e: Emitter, x: str, axis: Axes = None, keepdims: bool = False) -> str:
        """Kernels of int32 saturate in ONNX Runtime 1.31."""
        dtype = e.in_types[0].dtype
        if dtype.is_float or e.is_right("ReduceSum"):
            return reduce(e, "ReduceSum", x, axis, keepdims)
        if dtype is int32 and e.is_right("ReduceSum", int64):
            return e.cast(reduce(e, "ReduceSum", e.cast(x, int64), axis, keepdims), int32)
        return folded(e, e.Add, x, axis)


class Mean(Reduction):
    """The mean of floats along axes, nan over none."""

    samples = FULL + EMPTY

    def infer(self, x: Type, axis: Axes = None, keepdims: bool = False) -> Type:
        require_float(self.name, x)
        return super().infer(x, axis, keepdims)

    def numpy(self, x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
        total = x.sum(axis=axis, keepdims=keepdims)
        return total / np.array(x.size // max(1, total.size) if x.size else 0, x.dtype)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, axis: Axes = None, keepdims: bool = False) -> Any:
        part = restored(e, _scaled(e, g, 1 / max(1, _count(x.type, axis))), x, axis)
        return e.broadcast_to(part, shape=x.type.shape)

    def onnx(self, e: Emitter, x: str, axis: Axes = None, keepdims: bool = False) -> str:
        return reduce(e, "ReduceMean", x, axis, keepdims)


def _scaled(e: Builder, g: Value, factor: float) -> Any:
    """g times a number that may be below the range of a 16-bit float."""
    dtype = g.type.dtype
    if not dtype.is_half:
        return e.mul(g, factor)
    return e.cast(e.mul(e.cast(g, dtype=float32), factor), dtype=dtype)


def any_true(e: Emitter, x: str, axis: Axes, keepdims: bool) -> str:
    kind = uint8 if e.has_kernel("ReduceMax", uint8) else int32
    return e.cast(reduce(e, "ReduceMax", e.cast(x, kind), axis, keepdims), bool_)


class LogicalReduction(Reduction, abstract=True):
    """A reduction of bools along some axes."""

    half = "exact"
    samples = (
        sample(of(bool_, 2, 3)),
        sample(of(bool_, 4, 3), axis=(-1,), keepdims=True),
        sample(of(bool_, 4), axis=()),
        sample(of(bool_, 2, 0), axis=(1,)),
    )
    vjp = no_gradient

    def infer(self, x: Type, axis: Axes = None, keepdims: bool = False) -> Type:
        if x.dtype is not bool_:
            raise GraphTypeError(f"{self.name} takes bools, not {x}; compare it with 0 first.")
        return super().infer(x, axis, keepdims)


class Any_(LogicalReduction):
    """True where any bool along axes is true; false over none."""

    name = "any"

    def numpy(self, x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
        return x.any(axis=axis, keepdims=keepdims)

    def onnx(self, e: Emitter, x: str, axis: Axes = None, keepdims: bool = False) -> str:
        if not e.in_types[0].size:
            return e.const(np.zeros(e.out_types[0].shape, bool))
        return any_true(e, x, axis, keepdims)


class All(LogicalReduction):
    """True where every bool along axes is true; true over none."""

    def numpy(self, x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
        return x.all(axis=axis, keepdims=keepdims)

    def onnx(self, e: Emitter, x: str, axis: Axes = None, keepdims: bool = False) -> str:
        if not e.in_types[0].size:
            return e.const(np.ones(e.out_types[0].shape, bool))
        return e.Not(any_true(e, e.Not(x), axis, keepdims))


class Prod(Reduction):
    """The product along axes, 1 over none; any numbers, integers wrap. Gradients are correct at 0, too."""

    widened_at = ("auto",)
    integer_gradient = "whole"
    samples = (
        sample(f32(2, 3, 4), axis=(1,)),
        sample(f32(2, 3), low=0.5, high=1.5, keepdims=True),
        sample(f32(2, 3, 5), axis=(0, -1)),
        sample(f32(3, 2), axis=(1,), low=0.0, high=0.0),
        sample(f32(2, 3), axis=()),
        sample(of(float64, 2, 3, 7), axis=(0, -1)),
        sample(of(float64, 2, 4)),
        sample(of(float64, 2, 0), axis=(1,), gradient=False),
        *EMPTY,
        *INTEGERS,
    )

    def infer(self, x: Type, axis: Axes = None, keepdims: bool = False) -> Type:
        require_numbers(self.name, x)
        return super().infer(x, axis, keepdims)

    def numpy(self, x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
        return x.prod(axis=axis, keepdims=keepdims, dtype=x.dtype)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, axis: Axes = None, keepdims: bool = False) -> Any:
        if not x.type.size:
            return None
        axes = normalise_axes(axis, x.type.rank)
        order = (*(i for i in range(x.type.rank) if i not in axes), *axes)
        rows = e.transpose(x, permutation=order)
        others = e.reshape(_products_of_others(e, e.reshape(rows, shape=(y.type.size, -1))), shape=rows.type.shape)
        others = e.transpose(others, permutation=tuple(int(i) for i in np.argsort(order)))
        return e.mul(restored(e, g, x, axis), others)

    def onnx(self, e: Emitter, x: str, axis: Axes = None, keepdims: bool = False) -> str:
        """By halves where there is no kernel, as for float64, or a wrong one: those of integers saturate in 1.31."""
        dtype = e.in_types[0].dtype
        if dtype is not float64 and e.has_kernel("ReduceProd") and (dtype.is_float or e.is_right("ReduceProd")):
            return reduce(e, "ReduceProd", x, axis, keepdims)
        return folded(e, e.Mul, x, axis)


def _products_of_others(e: Builder, rows: Value) -> Value:
    """For each element of each row, the product of the others in its row, without a division, so correct at 0.

    Each element of the first half is multiplied by one of the second. A recursion over these pairs gives the product of
    all other pairs; an element's result is that times its partner.
    """
    count = rows.type.shape[1]
    if count == 1:
        return e.fill(np.ones((), rows.type.dtype.numpy), rows.type.shape)
    half = count // 2
    first, second = _columns(e, rows, 0, half), _columns(e, rows, half, 2 * half)
    pairs = e.mul(first, second)
    if count % 2:
        pairs = e.concat(pairs, _columns(e, rows, 2 * half, count), axis=1)
    outside = _products_of_others(e, pairs)
    of_pairs = _columns(e, outside, 0, half)
    parts = [e.mul(of_pairs, second), e.mul(of_pairs, first)]
    if count % 2:
        parts.append(_columns(e, outside, half, half + 1))
    result: Value = e.concat(*parts, axis=1)
    return result


def _columns(e: Builder, rows: Value, start: int, stop: int) -> Any:
    return e.slice(rows, starts=(0, start), stops=(rows.type.shape[0], stop), steps=(1, 1))


class Cumsum(Primitive):
    """Cumulative sums along an axis, including each element or, with `exclusive`, without it; any numbers.

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
        xp, before = namespace(x), (slice(None),) * (axis % x.ndim)
        first, others = (*before, slice(1)), (*before, slice(-1))
        x = xp.flip(x, axis) if reverse else x
        y = x.cumsum(axis, dtype=x.dtype)
        if exclusive:
            y = xp.concatenate((xp.zeros_like(y[first]), y[others]), axis)
        return xp.flip(y, axis) if reverse else y

    def vjp(
        self, e: Builder, g: Value, x: Value, y: Value, axis: int, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        return e.cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse)

    def onnx(self, e: Emitter, x: str, axis: int, exclusive: bool = False, reverse: bool = False) -> str:
        return e.CumSum(x, e.const(axis, int64), exclusive=int(exclusive), reverse=int(reverse))
