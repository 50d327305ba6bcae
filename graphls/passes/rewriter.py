"""Base class of graph rewrites, a stable topological sort, and the uses of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphls.base.errors import GraphValueError
from graphls.ir.build import Builder, Names
from graphls.ir.graph import Graph, Node, Value, needs, walk, with_regions
from graphls.ir.reachability import predecessors, stable_order
from graphls.ir.verify import find_cycle


class Rewriter:
    """One sweep over a graph and its regions, in schedule order; subclasses override `visit`.

    Later operands, captures, control edges, writes and outputs read the replacements, all in linear
    time. New nodes are emitted with the Builder `e` and stand before the node that is visited, with its
    phase, scope, line and stage. `definer` finds the node of every value that the sweep has put in place.
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
        """The current replacements of these values."""
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
        e = self.e
        start = len(e.nodes)
        e.follow(node)
        result = self.visit(node)
        if isinstance(result, Node):
            e.nodes.append(result)
        else:
            self.mapping.update(zip(node.outputs, result, strict=True))
        for new in e.nodes[start:]:
            self.define(new)

    def define(self, node: Node) -> None:
        """Take note of a node that has been put in place."""
        self.definer.update((value, node) for value in node.outputs)

    def exchanged(self, node: Node) -> Node:
        """The node with operands, regions and control edges as they are by now."""
        node = with_regions(node, self.region)
        if not self.mapping:
            return node
        inputs, after = self.current(node.inputs), tuple(dict.fromkeys(self.current(node.after)))
        if inputs == node.inputs and after == node.after:
            return node
        return replace(node, inputs=inputs, after=after)


@dataclass(frozen=True)
class Rewritten:
    """A graph that stands for another one; `origins` maps each new node to the node of the latter that it computes."""

    graph: Graph
    origins: Mapping[Node, Node] = field(default_factory=dict)

    def origin(self, node: Node) -> Node:
        """The node that a node computes: itself, where it is not new."""
        return self.origins.get(node, node)


class TracedRewriter(Rewriter):
    """A rewriter that knows which node each new node stands for, as a profile needs it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.owners: dict[tuple[Value, ...], Node] = {}

    def _step(self, node: Node) -> None:
        start = len(self.e.nodes)
        super()._step(node)
        self.owners.update((new.outputs, node) for new in self.e.nodes[start:])

    def rewritten(self, simplify: Callable[[Graph], Graph] = lambda graph: graph) -> Rewritten:
        """The graph after the sweep and a pass that drops nodes, with the origins of its nodes."""
        graph = simplify(self.run())
        return Rewritten(graph, {node: self.owners[node.outputs] for node in walk(graph) if node.outputs})


def gradient_nodes(graph: Graph) -> Iterator[Node]:
    """The remaining `gradient` nodes of a graph, for which equal values may not be merged."""
    return (node for node in walk(graph) if node.primitive.name == "gradient")


def carries(node: Node) -> int:
    """The number of operands that a loop carries from one iteration to the next; they come first."""
    count: int = node.attrs.get("carries", len(node.inputs))
    return count


def users(nodes: Iterable[Node]) -> dict[Value, list[Node]]:
    """The nodes of a block that need each value: as operand, capture or control edge; in order."""
    result: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in dict.fromkeys(needs(node)):
            result.setdefault(value, []).append(node)
    return result


def schedule(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """A stable topological sort of nodes by data and control edges.

    The next node is always the first one of the given order whose predecessors have all run. Raises
    GraphValueError, which names the values, where the edges form a cycle.
    """
    nodes = tuple(nodes)
    order = stable_order(predecessors(nodes, needs))
    if len(order) < len(nodes):
        raise GraphValueError(f"Data and control edges form a cycle: {' -> '.join(find_cycle(nodes))}.")
    return tuple(nodes[number] for number in order)
