"""Loops: primitives that run a region a fixed number of times, or while a condition holds; sums over iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_
from graphls.primitives.control import region
from graphls.primitives.emitter import Emitter
from graphls.primitives.faults import listed
from graphls.primitives.primitive import Array, Primitive, normalise_axes, require_float
from graphls.primitives.reduction import reduced_shape, require_numbers

Run = Callable[[int, tuple[Any, ...]], tuple[Any, ...]]


class Scan(Primitive):
    """Runs the region `length` times along the first axis of arrays, with values carried from one run to the next.

    The first `carries` operands are the initial carried values, the others arrays with `length` elements. The region
    takes the carried values and one element of each array, and yields the next carried values and one element of each
    result array; the results are the last carried values, then these arrays. With `reverse`, it begins at the end of
    all arrays. Where `length` is None, the arrays are stacks, one or more, and it runs once for each of their
    elements, possibly never.
    """

    half = "native"
    flops_per_element = 0
    is_loop = True
    region_names = ("body",)

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        carries, length = attrs["carries"], attrs["length"]
        carried, arrays = types[:carries], types[carries:]
        elements = _of_stacks(arrays) if length is None else _of_arrays(arrays, length)
        yields = _checked("scan", regions, 1, (*carried, *elements))[0]
        if yields[:carries] != carried:
            raise GraphTypeError(f"The region of scan carries {listed(carried)} and yields {listed(yields)}.")
        return (*carried, *_stacks("scan", yields[carries:], length))

    def run_regions(
        self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Run
    ) -> tuple[Any, ...]:
        carries = attrs["carries"]
        carried, elements = arrays[:carries], arrays[carries:]
        length = _common_length(elements) if attrs["length"] is None else attrs["length"]
        stacks = [np.empty((length, *_element(t).shape), t.dtype.numpy) for t in types[carries:]]
        for i in reversed(range(length)) if attrs.get("reverse") else range(length):
            results = run(0, (*carried, *(np.asarray(x[i]) for x in elements)))
            carried = results[:carries]
            for stack, y in zip(stacks, results[carries:], strict=True):
                stack[i] = y
        return (*carried, *stacks)

    def xla_regions(
        self, jax: Any, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Any
    ) -> tuple[tuple[Any, ...], Any]:
        carries = attrs["carries"]

        def body(state: Any, elements: tuple[Any, ...]) -> Any:
            results, holds = run(0, (*state[0], *elements))
            return (results[:carries], state[1] & holds), results[carries:]

        state, reverse = (arrays[:carries], np.array(True)), attrs.get("reverse", False)
        (carried, holds), stacks = jax.lax.scan(body, state, arrays[carries:], attrs["length"], reverse)
        return (*carried, *stacks), holds

    def vjp(self, e: Builder, g: Any, *values: Value, **attrs: Any) -> Any:
        raise AssertionError("the gradient pass differentiates the region of scan itself")

    def onnx(self, e: Emitter, *names: str, carries: int, length: int | None, reverse: bool = False) -> tuple[str, ...]:
        return e.scan(names)

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """The length, or 1 for stacks, whose length is known only at run time."""
        return (attrs["length"] or 1,)


class WhileLoop(Primitive):
    """Replaces the operands by the results of the second region as long as the first one yields true for them.

    Further results of the second region become stacks, with one element for each iteration.
    """

    half = "native"
    flops_per_element = 0
    is_loop = True
    region_names = ("while", "body")

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        condition, yields = _checked("while_loop", regions, 2, types)
        if condition != (Type(bool_),):
            raise GraphTypeError(f"The condition of while_loop is one bool[], not {listed(condition)}.")
        if yields[: len(types)] != types:
            raise GraphTypeError(f"The region of while_loop carries {listed(types)} and yields {listed(yields)}.")
        return (*types, *_stacks("while_loop", yields[len(types) :], None))

    def run_regions(
        self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Run
    ) -> tuple[Any, ...]:
        carries = len(arrays)
        iterations: list[list[Array]] = [[] for _ in types[carries:]]
        while run(0, arrays)[0]:
            results = run(1, arrays)
            arrays = results[:carries]
            for elements, y in zip(iterations, results[carries:], strict=True):
                elements.append(y)
        return (*arrays, *(_stacked(*pair) for pair in zip(iterations, types[carries:], strict=True)))

    def xla_regions(
        self, jax: Any, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Any
    ) -> tuple[tuple[Any, ...], Any]:
        """Without stacks, whose lengths XLA cannot have. A test of indices that fails ends the loop."""

        def with_condition(values: tuple[Any, ...], holds: Any) -> Any:
            (goes_on,), of_condition = run(0, values)
            return values, goes_on, holds & of_condition

        def body(state: Any) -> Any:
            return with_condition(*run(1, state[0]))

        first = with_condition(arrays, np.array(True))
        results, _, holds = jax.lax.while_loop(lambda state: state[1] & state[2], body, first)
        return results, holds

    def vjp(self, e: Builder, g: Any, *values: Value, **attrs: Any) -> Any:
        raise AssertionError("the gradient pass differentiates the region of while_loop itself")

    def onnx(self, e: Emitter, *names: str) -> tuple[str, ...]:
        return e.while_loop(names)

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """Once, as the number of iterations is known only at run time."""
        return 1, 1


def _of_arrays(arrays: tuple[Type, ...], length: int) -> tuple[Type, ...]:
    """The types of the elements of arrays of that length."""
    if length < 1:
        raise GraphValueError(f"scan runs once or more, not {length} times.")
    for array in arrays:
        if array.stacked or not array.rank or array.shape[0] != length:
            raise GraphValueError(f"scan of length {length} takes arrays of that length, not {array}.")
    return tuple(t.with_shape(t.shape[1:]) for t in arrays)


def _of_stacks(arrays: tuple[Type, ...]) -> tuple[Type, ...]:
    """The types of the elements of stacks."""
    if not arrays or not all(t.stacked for t in arrays):
        raise GraphTypeError(f"scan without a length takes stacks, one or more, not {listed(arrays)}.")
    return tuple(t.element for t in arrays)


def _stacks(name: str, types: tuple[Type, ...], length: int | None) -> tuple[Type, ...]:
    """The types of arrays or stacks with one element of these types for each iteration."""
    if any(t.stacked for t in types):
        raise GraphTypeError(f"{name} stacks no stacks, whose lengths may differ; its region yields {listed(types)}.")
    return tuple(t.stack if length is None else t.with_shape((length, *t.shape)) for t in types)


def _element(kind: Type) -> Type:
    return kind.element if kind.stacked else kind.with_shape(kind.shape[1:])


def _stacked(elements: list[Array], kind: Type) -> Array:
    return np.stack(elements) if elements else np.empty((0, *kind.shape), kind.dtype.numpy)


def _common_length(stacks: tuple[Array, ...]) -> int:
    lengths = sorted({len(stack) for stack in stacks})
    if len(lengths) > 1:
        raise GraphValueError(f"scan takes stacks of one length, not of {' and '.join(map(str, lengths))}.")
    return lengths[0]


def _checked(name: str, regions: tuple[Any, ...], count: int, inputs: tuple[Type, ...]) -> list[tuple[Type, ...]]:
    """The result types of each region; raises GraphTypeError for a wrong number of regions or wrong parameters."""
    if len(regions) != count:
        raise GraphTypeError(f"{name} takes {count} region{'s' if count > 1 else ''}, not {len(regions)}.")
    for body in regions:
        parameters = tuple(v.type for v in body.inputs)
        if parameters != inputs:
            raise GraphTypeError(f"A region of {name} takes {listed(inputs)}, not {listed(parameters)}.")
    return [tuple(v.type for v in body.outputs) for body in regions]


def each_iteration(e: Builder, function: Callable[..., Value], *stacks: Value) -> Value:
    """Map a function over the elements of stacks, as a scan; its first argument is a builder for its nodes."""
    inner = Builder(e.names)
    inner.follow(e)
    elements = tuple(Value(e.names.fresh(v.name), v.type.element) for v in stacks)
    result = function(inner, *elements)
    body = region("region", elements, inner.nodes, (result,))
    return e.emit("scan", stacks, {"carries": 0, "length": None, "reverse": False}, regions=(body,))[0]


class SumOfRounds(Primitive):
    """The sum of the elements of a stack over all iterations, and along axes of each; 0 without iterations."""

    takes_stacks = True

    def infer(self, x: Type, axis: tuple[int, ...] = ()) -> Type:
        _require_stacks(self.name, x)
        require_numbers(self.name, x)
        return x.element.with_shape(reduced_shape(x.element, axis, keepdims=False))

    def numpy(self, x: Array, axis: tuple[int, ...] = ()) -> Array:
        return np.sum(x, axis=(0, *(i + 1 for i in normalise_axes(axis, x.ndim - 1))), dtype=x.dtype)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, axis: tuple[int, ...] = ()) -> Any:
        shape = reduced_shape(x.type.element, axis, keepdims=True)
        share = e.broadcast_to(e.reshape(g, shape=shape), shape=x.type.shape)
        return each_iteration(e, lambda e, element: e.depend(share), x)

    def onnx(self, e: Emitter, x: str, axis: tuple[int, ...] = ()) -> str:
        axes = (0, *(i + 1 for i in normalise_axes(axis, e.in_types[0].rank)))
        return e.if_iterations(x, lambda: e.ReduceSum(x, e.ints(axes), keepdims=0))


class ProductOfRounds(Primitive):
    """The sum of `transpose(a) @ b` over all iterations, for stacks of matrices; 0 without iterations."""

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
            each_iteration(e, lambda e, element: e.matmul(element, g, transpose_b=True), b),
            each_iteration(e, lambda e, element: e.matmul(element, g), a),
        )

    def onnx(self, e: Emitter, a: str, b: str) -> str:
        if 0 in e.in_types[0].shape or 0 in e.in_types[1].shape:
            return e.const(np.zeros(e.out_types[0].shape), e.out_types[0].dtype)
        shapes = [e.ints((-1, t.shape[1])) for t in e.in_types]
        return e.if_iterations(a, lambda: e.Gemm(e.Reshape(a, shapes[0]), e.Reshape(b, shapes[1]), transA=1))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """The operations of one iteration, as their number is unknown."""
        return 2 * outputs[0].size * inputs[0].shape[0]


def _require_stacks(name: str, *types: Type) -> None:
    if not all(t.stacked for t in types):
        raise GraphTypeError(f"{name} takes stacks, not {' and '.join(map(str, types))}.")


def _rows(stack: Array) -> Array:
    return stack.reshape(prod(stack.shape[:-1]), stack.shape[-1])
