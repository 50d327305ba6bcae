"""From when to when each value of a graph is alive, if its nodes run in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphls.ir.graph import Graph, Node, Value, uses

Delayed = Callable[[Sequence[Node], Iterable[Value]], Mapping[Value, Node]]
"""Which nodes of a block that yields some values are not computed where they stand; see backends/onnx/finite.py."""


@dataclass(slots=True)
class Span:
    """The node that makes a value, and the first and the last tick at which the value is alive."""

    node: Node
    first: int
    last: int


class Lifetimes:
    """The spans of the values that take memory of their own.

    Each node has a tick, in the order of execution: one with regions before those in its regions. Its operands, results
    and captured values are alive until its last region has ended, what a region makes until it is used there last. What
    a branch yields is in the memory of the node's result, what is written to a state in that of the state. Inputs,
    states, constants and what the host draws are always there and have no span; nor has a delayed value, whose
    operands are kept in its stead.
    """

    def __init__(self, graph: Graph, delayed: Delayed) -> None:
        self.delayed = delayed
        self.ticks: list[Node] = []
        self.spans: dict[Value, Span] = {}
        self._owners: dict[Value, Value] = {}
        self._waiting: dict[Value, Node] = {}
        self._block(graph.nodes, (*graph.outputs, *(w.value for w in graph.writes)))
        self._use(graph.outputs)
        for write in graph.writes:
            self.spans.pop(self._owner(write.value), None)

    def _block(self, nodes: Sequence[Node], kept: Iterable[Value]) -> None:
        self._waiting.update(self.delayed(nodes, kept))
        for node in nodes:
            if not (node.outputs and node.outputs[0] in self._waiting):
                self._run(node)

    def _run(self, node: Node) -> None:
        tick = len(self.ticks)
        self.ticks.append(node)
        if node.primitive.is_view and not node.regions:
            for value, operand in zip(node.outputs, node.inputs, strict=False):
                self._owners.setdefault(value, operand)
        elif not is_held(node):
            self._make(node, node.outputs, tick)
        for region in node.regions:
            self._region(node, region, tick)
        self._use((*uses(node), *node.outputs))

    def _region(self, node: Node, region: Graph, tick: int) -> None:
        self._make(node, region.inputs, tick)
        if node.primitive.is_branch:
            made = {value for inner in region.nodes for value in inner.outputs}
            results = zip(region.outputs, node.outputs, strict=True)
            self._owners.update((value, result) for value, result in results if value in made)
        self._block(region.nodes, region.outputs)
        self._use(region.outputs)

    def _make(self, node: Node, values: Iterable[Value], tick: int) -> None:
        self.spans.update((v, Span(node, tick, tick)) for v in values if v not in self._owners)

    def _use(self, values: Iterable[Value]) -> None:
        """Keep values until the present tick."""
        for value in values:
            owner = self._owner(value)
            if owner in self._waiting:
                self._use(self._waiting[owner].inputs)
            elif owner in self.spans:
                self.spans[owner].last = len(self.ticks) - 1

    def _owner(self, value: Value) -> Value:
        while value in self._owners:
            value = self._owners[value]
        return value


def is_held(node: Node) -> bool:
    """Whether the results of a node are there before a step begins."""
    return node.primitive.is_constant or node.primitive.on_host
