"""Primitives that run a region again and again: a fixed number of times, or while a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_
from graphls.primitives.primitive import Array, Primitive

Run = Callable[[int, tuple[Any, ...]], tuple[Any, ...]]


class Scan(Primitive):
    """The region, run `length` times along the first axis of arrays, with values carried from each time to the next.

    The first `carries` operands are what is carried, the others arrays with `length` elements. The region takes
    what is carried and one element of each array, and yields what is carried on and elements of the arrays that
    come out behind the last of what is carried. With `reverse`, it begins at the end of all arrays.
    """

    half = "native"
    flops_per_element = 0

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        carries, length = attrs["carries"], attrs["length"]
        if length < 1:
            raise GraphValueError(f"scan runs once or more, not {length} times.")
        carried, arrays = types[:carries], types[carries:]
        for array in arrays:
            if not array.rank or array.shape[0] != length:
                raise GraphValueError(f"scan of length {length} takes arrays of that length, not {array}.")
        expected = (*carried, *(t.with_shape(t.shape[1:]) for t in arrays))
        yields = _checked("scan", regions, 1, expected)[0]
        if yields[:carries] != carried:
            raise GraphTypeError(f"The region of scan carries {_listed(carried)} and yields {_listed(yields)}.")
        return (*carried, *(t.with_shape((length, *t.shape)) for t in yields[carries:]))

    def run_regions(
        self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Run
    ) -> tuple[Any, ...]:
        carries, length = attrs["carries"], attrs["length"]
        carried, elements = arrays[:carries], arrays[carries:]
        stacks = [np.empty(t.shape, t.dtype.numpy) for t in types[carries:]]
        for i in reversed(range(length)) if attrs.get("reverse") else range(length):
            results = run(0, (*carried, *(np.asarray(x[i]) for x in elements)))
            carried = results[:carries]
            for stack, y in zip(stacks, results[carries:], strict=True):
                stack[i] = y
        return (*carried, *stacks)

    def vjp(self, e: Builder, g: Any, *values: Value, **attrs: Any) -> Any:
        raise AssertionError("the gradient pass differentiates the region of scan itself")

    def onnx(self, e: Any, *names: str, **attrs: Any) -> Any:
        return e.scan(names)

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        return (attrs["length"],)


class WhileLoop(Primitive):
    """The operands, exchanged for what the second region yields as long as the first one yields true for them."""

    half = "native"
    flops_per_element = 0

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        condition, yields = _checked("while_loop", regions, 2, types)
        if condition != (Type(bool_),):
            raise GraphTypeError(f"The condition of while_loop is one bool[], not {_listed(condition)}.")
        if yields != types:
            raise GraphTypeError(f"The region of while_loop carries {_listed(types)} and yields {_listed(yields)}.")
        return types

    def run_regions(
        self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Run
    ) -> tuple[Any, ...]:
        while run(0, arrays)[0]:
            arrays = run(1, arrays)
        return arrays

    def onnx(self, e: Any, *names: str) -> Any:
        return e.while_loop(names)

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """How often it runs is known only when it does, so it counts as running once."""
        return 1, 1


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
