"""Primitives that run a region again and again: a fixed number of times, or while a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Primitive

Run = Callable[[int, tuple[Any, ...]], tuple[Any, ...]]


class Scan(Primitive):
    """The region, run `length` times along the first axis of arrays, with values carried from one to the next.

    The first `carries` operands are what is carried, the others arrays with `length` elements. The region takes
    what is carried and one element of each array, and yields what is carried on and elements of the arrays that
    come out behind the last of what is carried. With `reverse`, it begins at the end of all arrays. Where `length` is
    None, the arrays are stacks, one or more, and it runs as often as those have elements, which may be never.
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
            raise GraphTypeError(f"The region of scan carries {_listed(carried)} and yields {_listed(yields)}.")
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

    def vjp(self, e: Builder, g: Any, *values: Value, **attrs: Any) -> Any:
        raise AssertionError("the gradient pass differentiates the region of scan itself")

    def onnx(self, e: Emitter, *names: str, carries: int, length: int | None, reverse: bool = False) -> tuple[str, ...]:
        return e.scan(names)

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """How long stacks are is known only when it runs, so it counts as running once."""
        return (attrs["length"] or 1,)


class WhileLoop(Primitive):
    """The operands, exchanged for what the second region yields as long as the first one yields true for them.

    What the second region yields beyond that comes out as stacks, with one element for each iteration.
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
            raise GraphTypeError(f"The condition of while_loop is one bool[], not {_listed(condition)}.")
        if yields[: len(types)] != types:
            raise GraphTypeError(f"The region of while_loop carries {_listed(types)} and yields {_listed(yields)}.")
        return (*types, *_stacks("while_loop", yields[len(types) :], None))

    def run_regions(
        self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Run
    ) -> tuple[Any, ...]:
        carries = len(arrays)
        rounds: list[list[Array]] = [[] for _ in types[carries:]]
        while run(0, arrays)[0]:
            results = run(1, arrays)
            arrays = results[:carries]
            for elements, y in zip(rounds, results[carries:], strict=True):
                elements.append(y)
        return (*arrays, *(_stacked(*pair) for pair in zip(rounds, types[carries:], strict=True)))

    def vjp(self, e: Builder, g: Any, *values: Value, **attrs: Any) -> Any:
        raise AssertionError("the gradient pass differentiates the region of while_loop itself")

    def onnx(self, e: Emitter, *names: str) -> tuple[str, ...]:
        return e.while_loop(names)

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """How often it runs is known only when it does, so it counts as running once."""
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
        raise GraphTypeError(f"scan without a length takes stacks, one or more, not {_listed(arrays)}.")
    return tuple(t.element for t in arrays)


def _stacks(name: str, types: tuple[Type, ...], length: int | None) -> tuple[Type, ...]:
    """The types of what comes out of a loop with one of these for each iteration."""
    if any(t.stacked for t in types):
        raise GraphTypeError(f"{name} stacks no stacks, whose lengths may differ; its region yields {_listed(types)}.")
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
    """What each region yields; raises GraphTypeError for another number of regions, or other parameters of them."""
    if len(regions) != count:
        raise GraphTypeError(f"{name} takes {count} region{'s' if count > 1 else ''}, not {len(regions)}.")
    for region in regions:
        given = tuple(v.type for v in region.inputs)
        if given != inputs:
            raise GraphTypeError(f"A region of {name} takes {_listed(inputs)}, not {_listed(given)}.")
    return [tuple(v.type for v in region.outputs) for region in regions]


def _listed(types: tuple[Type, ...]) -> str:
    return ", ".join(map(str, types)) or "nothing"
