"""A copy of a graph whose names are numbers, for tools that cannot spell every name."""

from __future__ import annotations

from dataclasses import replace

from graphls.ir.graph import Graph, Node, Value, walk


class PlainCopy:
    """A copy of a graph without cell paths, in which every value is called by a number.

    `values` has the copy of each value, `nodes` the node of the original for each node of the copy.
    """

    def __init__(self, graph: Graph) -> None:
        self.values: dict[Value, Value] = {}
        self.graph = self._graph(graph)
        self.nodes: dict[Node, Node] = dict(zip(walk(self.graph), walk(graph), strict=True))

    def _graph(self, graph: Graph) -> Graph:
        return Graph(
            "graph",
            self._made(graph.inputs),
            self._made(graph.states),
            tuple(map(self._node, graph.nodes)),
            tuple(replace(w, state=self.values[w.state], value=self.values[w.value]) for w in graph.writes),
            self._used(graph.outputs),
        )

    def _node(self, node: Node) -> Node:
        regions = tuple(map(self._graph, node.regions))
        inputs, after = self._used(node.inputs), self._used(node.after)
        outputs = self._made(node.outputs)
        return replace(node, inputs=inputs, outputs=outputs, after=after, regions=regions, scope="")

    def _made(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        for value in values:
            self.values[value] = Value(f"v{len(self.values)}", value.type, value.is_state)
        return self._used(values)

    def _used(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.values[value] for value in values)
