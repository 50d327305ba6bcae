"""Host side effects, such as prints, that run after a step has completed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.sharing.storage import array_in
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import Type
from graphls.passes.schedule.host_calls import last_effects, without

Array = np.ndarray[Any, Any]


class HostEffects:
    """The last effects of a step, such as prints, and the `graph` of all the rest.

    So they cut nothing and keep no runtime waiting: their operands are outputs of that graph, behind its own.
    """

    def __init__(self, graph: Graph) -> None:
        self.effects = last_effects(graph)
        self.count = len(graph.outputs)
        known = {node.output: node.attrs["value"] for node in graph.nodes if node.primitive.is_constant}
        self.known: dict[Value, Array] = known if self.effects else {}
        shown = dict.fromkeys(v for node in self.effects for v in node.inputs if v not in self.known)
        self.shown = tuple(shown)
        outputs = (*graph.outputs, *self.shown)
        self.graph = without(graph, self.effects).replace(outputs=outputs) if self.effects else graph

    def __call__(self, shown: Sequence[Any]) -> None:
        """Run the effects on what the step gave for the values behind its own outputs."""
        if self.effects:
            arrays = [_array(result, value.type) for value, result in zip(self.shown, shown, strict=True)]
            self.show(dict(zip(self.shown, arrays, strict=True)))

    def each(self, results: Sequence[Any], count: int) -> Sequence[Any]:
        """The same for the results of that many steps in one call, stacked; the values of each are shown in order."""
        if not self.effects:
            return results
        stacks = [_array(r, v.type) for v, r in zip(self.shown, results[self.count :], strict=True)]
        for i in range(count):
            self.show(dict(zip(self.shown, (stack[i] for stack in stacks), strict=True)))
        return results[: self.count]

    def show(self, arrays: dict[Value, Array]) -> None:
        """Run the effects on the values that they read."""
        arrays = {**self.known, **arrays}
        for node in self.effects:
            _run(node, tuple(arrays[value] for value in node.inputs))


def _run(node: Node, arrays: tuple[Array, ...]) -> None:
    node.primitive.evaluate(arrays, node.attrs, tuple(v.type for v in node.outputs))


def _array(result: Any, type: Type) -> Array:
    return array_in(result).astype(type.dtype.numpy, copy=False)
