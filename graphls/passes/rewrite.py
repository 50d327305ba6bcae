"""What passes share: a stable schedule, who uses what, and one sweep in which values are exchanged."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace

from graphls.ir.build import Builder, Names, substitute
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import Graph, Node, Value, needs
from graphls.ir.verify import find_cycle

LOOPS = ("scan", "while_loop")
"""Primitives whose last region runs again and again, with what it yields first as its next operands."""

class Rewriter:
    """One sweep over a graph and its regions, in their order; a subclass says in `visit` what changes.

    Later operands, captures, control edges, writes and outputs follow what was exchanged, all in linear
    time. New nodes are emitted with the Builder `e` and stand before the node that is visited, with its
    phase, scope and line. `definer` finds the node of every value that the sweep has put in place.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = Names.of(graph)
        self.mapping: dict[Value, Value] = {}
        self.definer: dict[Value, Node] = {}
        self.e = Builder(self.names)

    def visit(self, node: Node) -> Node | Sequence[Value]:
        """The node that stays (this one, or another with the same outputs) or values in place of its outputs.

        Operands and regions of `node` have been exchanged already.
        """
        return node

    def run(self) -> Graph:
        """The graph after the sweep."""
        nodes = self.block(self.graph.nodes)
        writes = tuple(replace(w, value=self.mapping.get(w.value, w.value)) for w in self.graph.writes)
        return self.graph.replace(nodes=nodes, writes=writes, outputs=self.current(self.graph.outputs))

    def current(self, values: Iterable[Value]) -> tuple[Value, ...]:
        """What stands in the place of these values by now."""
        return tuple(self.mapping.get(v, v) for v in values)

    def block(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """The nodes of a graph or of a region after the sweep."""
        outer, self.e = self.e, Builder(self.names)
        for node in nodes:
            self._step(node)
        inner, self.e = self.e, outer
        return tuple(inner.nodes)

    def region(self, region: Graph) -> Graph:
        """A region after the sweep; the same object where nothing changes."""
        nodes, outputs = self.block(region.nodes), self.current(region.outputs)
        if nodes == region.nodes and outputs == region.outputs:
            return region
        return region.replace(nodes=nodes, outputs=outputs)

    def _step(self, node: Node) -> None:
        node = self.exchanged(node)
        start = len(self.e.nodes)
        with self.e.at(node):
            result = self.visit(node)
        if isinstance(result, Node):
            self.e.append(result)
        else:
            self.mapping.update(zip(node.outputs, result, strict=True))
        for new in self.e.nodes[start:]:
            self.define(new)

    def define(self, node: Node) -> None:
        """Take note of a node that has been put in place."""
        self.definer.update((value, node) for value in node.outputs)

    def exchanged(self, node: Node) -> Node:
        """The node with operands, regions and control edges as they are by now."""
        if not node.regions:
            return substitute(node, self.mapping)
        regions = tuple(self.region(r) for r in node.regions)
        inputs, after = self.current(node.inputs), tuple(dict.fromkeys(self.current(node.after)))
        if (inputs, after, regions) == (node.inputs, node.after, node.regions):
            return node
        return replace(node, inputs=inputs, after=after, regions=regions)


def definers(nodes: Iterable[Node]) -> dict[Value, Node]:
    """The node that defines each value."""
    return {value: node for node in nodes for value in node.outputs}


def users(nodes: Iterable[Node]) -> dict[Value, list[Node]]:
    """The nodes of a block that need each value: as operand, capture or control edge; in order."""
    found: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in dict.fromkeys(needs(node)):
            found.setdefault(value, []).append(node)
    return found


def schedule(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes in an order that data and control edges allow, as near to the given one as they let it be.

    Always the first node of the given order whose predecessors have all run comes next. Raises
    GraphValueError, which names the values, where the edges form a cycle.
    """
    nodes = tuple(nodes)
    position = {node: i for i, node in enumerate(nodes)}
    waiting, followers = _edges(nodes, position)
    ready = [i for i, count in enumerate(waiting) if not count]
    done = []
    while ready:
        at = heapq.heappop(ready)
        done.append(nodes[at])
        for follower in followers[at]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    if len(done) < len(nodes):
        raise GraphValueError(f"Data and control edges form a cycle: {' -> '.join(find_cycle(nodes))}.")
    return tuple(done)


def _edges(nodes: Sequence[Node], position: dict[Node, int]) -> tuple[list[int], list[list[int]]]:
    """How many nodes each one waits for, and which ones wait for it, by position."""
    definer = definers(nodes)
    waiting: list[int] = []
    followers: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        earlier = {position[definer[v]] for v in needs(node) if v in definer}
        waiting.append(len(earlier))
        for at in earlier:
            followers[at].append(i)
    return waiting, followers
