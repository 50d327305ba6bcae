"""Segments of a plan: nodes in the region of a node, with copies of the constants and names for their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from graphls.ir.build import Names, copy_nodes, substitute
from graphls.ir.graph import Graph, Node, Value, filtered, inside, uses, walk, with_edges
from graphls.ir.registry import lookup
from graphls.ir.types import TOKEN


class Segments:
    """The nodes of a graph that segments run; constants and tokens are copied to where they are used.

    `boundary_values` are the values of the plan for results of nodes, `passed` those for what a segment passes on.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = Names.of(graph)
        # They are drawn before the first segment, and wait for none.
        self.host_random = [replace(node, after=()) for node in walk(graph) if node.primitive.on_host]
        self.nodes = filtered(graph.nodes, lambda node: not node.primitive.on_host)
        self.free = {v: node for node in self.nodes if is_free(node) for v in node.outputs}
        self.boundary_values: dict[Value, Value] = {}
        self.passed: dict[Value, Value] = {}

    def outside(self, value: Value) -> Value:
        """The value outside of its segment."""
        return self.passed.get(value, self.boundary_values.get(value, value))

    def segment(
        self, engine: str, nodes: Sequence[Node], required: set[Value], loose: Iterable[Value], **attrs: object
    ) -> Node:
        """One segment: its nodes with copies of the constants that they need, and names for its results outside."""
        results = [v for node in nodes for v in node.outputs if v in required and v.type != TOKEN]
        copies: dict[Value, Value] = {}
        # The window of a token has been proven for the complete graph; its copy orders nothing.
        free = [replace(node, after=()) for node in self.free_before((*read(nodes), *loose))]
        constants = copy_nodes(free, copies, self.names)
        inner = self.boundary_values | copies
        # The order of segments replaces control edges between them.
        own = {v for node in nodes for n in chain(inside(node), (node,)) for v in n.outputs}
        contents = [with_edges(n, own.__contains__) for n in (*constants, *(substitute(node, inner) for node in nodes))]
        yields = (*results, *(inner.get(v, v) for v in loose))
        region = Graph("segment", (), (), tuple(contents), (), yields)
        outputs = tuple(Value(self.names.fresh(v.name), v.type) for v in (*results, *loose))
        self.boundary_values.update(zip(results, outputs, strict=False))
        self.passed.update(zip(loose, outputs[len(results) :], strict=True))
        phase, loc = (nodes[-1].phase, nodes[-1].loc) if nodes else ("update", None)
        return Node(lookup("segment"), (), outputs, {"engine": engine, **attrs}, (), (region,), phase, "", loc)

    def free_before(self, values: Iterable[Value]) -> list[Node]:
        """The constants and tokens among values, and their own dependencies, in order."""
        nodes: dict[Node, None] = {}
        for value in values:
            if value in self.free and self.free[value] not in nodes:
                for node in self.free_before(self.free[value].inputs):
                    nodes.setdefault(node)
                nodes.setdefault(self.free[value])
        return list(nodes)


def is_free(node: Node) -> bool:
    """Whether each segment gets a copy: constants, and tokens of windows, whose order that of the segments keeps."""
    is_token = any(v.type == TOKEN for v in node.outputs) and not node.primitive.calls_python
    return node.primitive.is_constant or is_token


def read(nodes: Iterable[Node]) -> list[Value]:
    """All values that nodes read."""
    return [v for node in nodes for v in uses(node)]
