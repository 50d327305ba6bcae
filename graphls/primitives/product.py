"""The product along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float64
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, f32, normalise_axes, of, sample
from graphls.primitives.reduction import EMPTY, INTEGERS, Axes, Reduction, folded, reduce, require_numbers, restored


class Prod(Reduction):
    """The product along axes, 1 over none; any numbers, integers wrap. Gradients are right at 0, too."""

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

    def numpy(self, x: Array, axis: Axes = None, keepdims: bool = False) -> Array:
        return np.asarray(np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype))

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
        """In halves where there is no kernel, as of float64, or it is wrong: those of integers saturate in 1.31."""
        dtype = e.in_types[0].dtype
        if dtype is not float64 and e.has_kernel("ReduceProd") and (dtype.is_float or e.is_right("ReduceProd")):
            return reduce(e, "ReduceProd", x, axis, keepdims)
        return folded(e, e.Mul, x, axis)


def _products_of_others(e: Builder, rows: Value) -> Value:
    """For each element of each row, the product of the others in its row: no division, so right at 0.

    Each element of the first half is multiplied by one of the second. What the others of such a pair make is known from
    the products of the pairs alone; an element of the pair has its partner beside them.
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
