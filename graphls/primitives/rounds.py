"""Sums over all rounds of a loop, of what stacks hold of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.types import Type
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Primitive, normalise_axes, require_float
from graphls.primitives.reduction import reduced_shape, require_numbers


def each_round(e: Builder, function: Callable[..., Value], *stacks: Value) -> Value:
    """The stack of what a function of the elements of these stacks gives, and of a builder for its nodes."""
    inner = Builder(e.names)
    inner.phase, inner.scope, inner.loc = e.phase, e.scope, e.loc
    elements = tuple(Value(e.names.fresh(v.name), v.type.element) for v in stacks)
    result = function(inner, *elements)
    region = Graph("region", elements, (), tuple(inner.nodes), (), (result,))
    return e.emit("scan", stacks, {"carries": 0, "length": None, "reverse": False}, regions=(region,))[0]


class SumOfRounds(Primitive):
    """The sum over all rounds of a stack, and along axes of what it holds of each; 0 where there are none."""

    takes_stacks = True

    def infer(self, x: Type, axis: tuple[int, ...] = ()) -> Type:
        _require_stacks(self.name, x)
        require_numbers(self.name, x)
        return x.element.with_shape(reduced_shape(x.element, axis, keepdims=False))

    def numpy(self, x: Array, axis: tuple[int, ...] = ()) -> Array:
        return np.sum(x, axis=(0, *(i + 1 for i in normalise_axes(axis, x.ndim - 1))), dtype=x.dtype)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, axis: tuple[int, ...] = ()) -> Any:
        kept = reduced_shape(x.type.element, axis, keepdims=True)
        share = e.broadcast_to(e.reshape(g, shape=kept), shape=x.type.shape)
        return each_round(e, lambda e, element: e.depend(share), x)

    def onnx(self, e: Emitter, x: str, axis: tuple[int, ...] = ()) -> str:
        axes = (0, *(i + 1 for i in normalise_axes(axis, e.in_types[0].rank)))
        return e.if_iterations(x, lambda: e.ReduceSum(x, e.ints(axes), keepdims=0))


class ProductOfRounds(Primitive):
    """The sum over all rounds of `transpose(a) @ b`, for stacks of matrices; 0 where there are none."""

    takes_stacks = True

    def infer(self, a: Type, b: Type) -> Type:
        _require_stacks(self.name, a, b)
        dtype = require_float(self.name, a, b)
        if a.rank != 2 or b.rank != 2 or a.shape[0] != b.shape[0]:
            raise GraphValueError(f"{self.name} takes stacks of matrices with as many rows, not {a} and {b}.")
        return Type(dtype, (a.shape[1], b.shape[1]))

    def numpy(self, a: Array, b: Array) -> Array:
        return np.asarray(np.matmul(_rows(a).T, _rows(b)))

    def vjp(self, e: Builder, g: Value, a: Value, b: Value, y: Value) -> Any:
        return (
            each_round(e, lambda e, element: e.matmul(element, g, transpose_b=True), b),
            each_round(e, lambda e, element: e.matmul(element, g), a),
        )

    def onnx(self, e: Emitter, a: str, b: str) -> str:
        if 0 in e.in_types[0].shape or 0 in e.in_types[1].shape:
            return e.const(np.zeros(e.out_types[0].shape), e.out_types[0].dtype)
        shapes = [e.ints((-1, t.shape[1])) for t in e.in_types]
        return e.if_iterations(a, lambda: e.Gemm(e.Reshape(a, shapes[0]), e.Reshape(b, shapes[1]), transA=1))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """Those of one round, as nobody knows how many there are."""
        return 2 * outputs[0].size * inputs[0].shape[0]


def _require_stacks(name: str, *types: Type) -> None:
    if not all(t.stacked for t in types):
        raise GraphTypeError(f"{name} takes stacks, not {' and '.join(map(str, types))}.")


def _rows(stack: Array) -> Array:
    return stack.reshape(prod(stack.shape[:-1]), stack.shape[-1])
