"""A graph with an index of its nodes and values, for the comparison with another one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from graphls.ir.compare import attributes_key
from graphls.ir.graph import Graph, Node, Value, definers


class IndexedGraph:
    """A graph with its regions, indexed; `holder` maps each node to the node and the region number that contain it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.holder: dict[Node, tuple[Node, int] | None] = dict(_holders(graph, None))
        self.nodes = list(self.holder)
        self.definer = definers(self.nodes)
        self.users: dict[Value, list[tuple[Node, int]]] = {}
        for node in self.nodes:
            for slot, value in enumerate(node.inputs):
                self.users.setdefault(value, []).append((node, slot))
        self.leaving: dict[Value, tuple[Hashable, ...]] = {}
        for position, value in (*enumerate(graph.outputs), *((w.state.name, w.value) for w in graph.writes)):
            self.leaving[value] = (*self.leaving.get(value, ()), position)

    def usage(self, value: Value) -> Hashable:
        """A key that tells a result or a parameter from the others of its node: its end, and its readers."""
        return self.end(value), tuple(sorted((node.primitive.name, slot) for node, slot in self.users.get(value, ())))

    def end(self, value: Value) -> Hashable:
        """The type of a value, and the outputs and states of the graph that it becomes."""
        return value.type, self.leaving.get(value, ())


def _holders(graph: Graph, holder: tuple[Node, int] | None) -> Iterator[tuple[Node, tuple[Node, int] | None]]:
    for node in graph.nodes:
        yield node, holder
        for number, region in enumerate(node.regions):
            yield from _holders(region, (node, number))


def is_first(before: IndexedGraph, after: IndexedGraph) -> bool:
    """Whether `before` comes first in an order without names, by which graphs are always compared in one direction."""
    for a, b in zip(_description(before), _description(after), strict=False):
        if a != b:
            return repr(a) < repr(b)
    return True


def _description(indexed: IndexedGraph) -> Iterator[Any]:
    number: dict[Value, int] = {}
    yield len(indexed.nodes)
    for node in indexed.nodes:
        number.update((v, len(number) + i) for i, v in enumerate(node.outputs))
        yield node.primitive.name, node.phase, node.scope, [str(v.type) for v in node.outputs]
        yield [number.get(v, -1) for v in (*node.inputs, *node.after)]
        yield attributes_key(node.attrs)


Values = tuple[Value, ...]


def corresponding(first: Values, before: IndexedGraph, second: Values, after: IndexedGraph) -> list[tuple[int, int]]:
    """The numbers of the results, or parameters, of two nodes that correspond.

    Identical objects correspond; else all in order, where the types are the same; else those with the same usage, and
    then those with the same end.
    """
    numbers = {value: j for j, value in enumerate(second)}
    shared = [(i, numbers[value]) for i, value in enumerate(first) if value in numbers]
    if shared:
        return shared
    if [v.type for v in first] == [v.type for v in second]:
        return [(i, i) for i in range(len(first))]
    pairs: dict[int, int] = {}
    for keys in (
        ([before.usage(v) for v in first], [after.usage(v) for v in second]),
        ([before.end(v) for v in first], [after.end(v) for v in second]),
    ):
        free: dict[Hashable, list[int]] = {}
        for j in sorted({*range(len(second))} - {*pairs.values()}, reverse=True):
            free.setdefault(keys[1][j], []).append(j)
        for i in sorted({*range(len(first))} - {*pairs}):
            if free.get(keys[0][i]):
                pairs[i] = free[keys[0][i]].pop()
    return list(pairs.items()) or [(0, 0)][: min(len(first), len(second))]


def ends(before: Graph, after: Graph) -> tuple[list[tuple[Value, Value]], list[tuple[Value, Value]]]:
    """The pairs of inputs and states of two graphs that correspond, and the pairs of outputs and writes.

    Inputs and outputs correspond by position (inputs that are the same object come first), states by name.
    """
    shared = set(before.inputs) & set(after.inputs)
    rest = [[v for v in graph.inputs if v not in shared] for graph in (before, after)]
    states = {v.name: v for v in after.states}
    coming = [(v, v) for v in before.inputs if v in shared] + list(zip(*rest, strict=False))
    coming += [(v, states[v.name]) for v in before.states if v.name in states]
    written = {write.state.name: write.value for write in after.writes}
    leaving = list(zip(before.outputs, after.outputs, strict=False))
    leaving += [(w.value, written[w.state.name]) for w in before.writes if w.state.name in written]
    return coming, leaving
