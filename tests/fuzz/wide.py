"""A graph in float64, with or without noise in the last digit of each result: how far rounding may carry a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Node, Value, uses
from graphls.ir.types import DType, Type, bfloat16, float16, float64

Array = np.ndarray[Any, Any]

LAST_DIGIT = {float16: 2.0**-11, bfloat16: 2.0**-8}
"""The relative error of one rounding; 2 ** -24 for all others, as the runtime computes some functions of float64 so."""

RANGE = {float16: (6e-8, 65000.0), bfloat16: (1e-37, 3e38)}
"""The absolute values that a dtype holds; of float64, those of float32."""


class Wide:
    """One run of a graph in which every float is a float64.

    `noise` draws the error of each result, as large as one rounding in the dtype that the graph has there; with
    `rounds` each result is rounded to that dtype, which may make it zero. `results` are the outputs and then the
    written states. `decisions` are, by value, all integers and truth values that it had, and `lost` the values that do
    not fit their dtype, so that rounding may change them by any factor.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Sequence[Array],
        states: Mapping[str, Array],
        noise: np.random.Generator | None = None,
        rounds: bool = False,
    ) -> None:
        self.noise = noise
        self.rounds = rounds
        self.decisions: dict[Value, list[Array]] = {}
        self.lost: set[Value] = set()
        self.env: dict[Value, Array] = {}
        for value, array in zip(graph.inputs, inputs, strict=True):
            self.keep(value, array, is_exact=False)
        for value in graph.states:
            self.keep(value, states[value.name], is_exact=False)
        with np.errstate(all="ignore"):
            self.run(graph.nodes)
        self.results = [self.env[v] for v in (*graph.outputs, *(w.value for w in graph.writes))]

    def keep(self, value: Value, array: Any, is_exact: bool) -> None:
        array = np.asarray(array)
        if not value.type.dtype.is_float:
            self.env[value] = array.astype(value.type.dtype.numpy, copy=False)
            self.decisions.setdefault(value, []).append(self.env[value])
            return
        array = array.astype(np.float64, copy=False)
        if not is_exact:
            array = self.rounded(array, value.type.dtype)
        smallest, largest = RANGE.get(value.type.dtype, (1e-37, 3e38))
        sizes = np.abs(array[np.isfinite(array)])
        if sizes.size and (sizes.max() > largest or ((sizes < smallest) & (sizes > 0)).any()):
            self.lost.add(value)
        self.env[value] = array

    def rounded(self, array: Array, dtype: DType) -> Array:
        if self.rounds:
            return array.astype(dtype.numpy).astype(np.float64)
        if self.noise is None:
            return array
        smallest = 6e-8 if dtype is float16 else 0.0
        size = 2 * LAST_DIGIT.get(dtype, 2.0**-24) * np.abs(array) + smallest * (array != 0)
        return np.asarray(array + size * self.noise.uniform(-1, 1, array.shape))

    def run(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            primitive: Any = node.primitive
            is_exact = primitive.half != "rounded" and primitive.name != "cast"
            for value, array in zip(node.outputs, self.evaluated(node), strict=True):
                if value.type.dtype.kind != "token":
                    self.keep(value, array, is_exact)

    def evaluated(self, node: Node) -> Sequence[Any]:
        arrays = tuple(self.env.get(value) for value in node.inputs)
        primitive: Any = node.primitive
        if node.regions:
            types = tuple(_widened(v.type) for v in node.outputs)
            return list(primitive.run_regions(arrays, node.attrs, types, partial(self.run_region, node)))
        if primitive.name == "cast" and node.output.type.dtype.is_float:
            return [arrays[0]]
        result = primitive.numpy(*arrays, **node.attrs)
        return result if isinstance(result, tuple) else (result,)

    def run_region(self, node: Node, number: int, arrays: Sequence[Array]) -> tuple[Array, ...]:
        region = node.regions[number]
        for value, array in zip(region.inputs, arrays, strict=True):
            self.keep(value, array, is_exact=True)
        self.run(region.nodes)
        return tuple(self.env[value] for value in region.outputs)


def _widened(kind: Type) -> Type:
    return kind.with_dtype(float64) if kind.dtype.is_float else kind


def unreliable(graph: Graph, exact: Wide, noisy: Sequence[Wide]) -> set[Value]:
    """The values that depend on a decision which noise changes, or on a number that its dtype does not hold."""
    start = set(exact.lost).union(*(run.lost for run in noisy))
    for value, arrays in exact.decisions.items():
        if not all(_are_equal(arrays, run.decisions.get(value, [])) for run in noisy):
            start.add(value)
    _spread(graph.nodes, start)
    return start


def _are_equal(first: Sequence[Array], second: Sequence[Array]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def _spread(nodes: Sequence[Node], found: set[Value]) -> None:
    """Add what is computed of values that are found."""
    for node in nodes:
        reached = not found.isdisjoint(uses(node))
        for region in node.regions:
            if reached:
                found.update(region.inputs)
            _spread(region.nodes, found)
            reached = reached or any(not found.isdisjoint(inner.outputs) for inner in region.nodes)
        if reached:
            found.update(node.outputs)
