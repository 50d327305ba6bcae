"""The dce pass: dead code elimination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from graphls.ir.graph import Graph, Node, Value, definers, needs, walk, with_blocks, with_regions
from graphls.ir.reachability import reached
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import carries


@register_pass
@dataclass(frozen=True)
class Dce:
    """Remove dead code: nodes, and results of `cond` and of loops, on which no output and no write depends.

    Before:

        %a = exp(%x) : f32[4]  // forward
        %b = neg(%a) : f32[4]  // forward
        %y = depend(%x) after(%b) : f32[4]  // forward
        return %y

    After:

        %y = depend(%x) : f32[4]  // forward
        return %y

    Nodes with effects stay. Control edges keep no node alive: an edge from a removed node is redirected to the operands
    and control edges of that node, so that the remaining nodes keep their order. Inputs and states stay.
    """

    name = "dce"

    def run(self, graph: Graph) -> Graph:
        """The graph without dead nodes."""
        live = {*graph.outputs, *(w.value for w in graph.writes)}
        nodes = sweep(graph.nodes, live)
        return graph.replace(nodes=_Edges(graph, nodes).repaired(nodes))


def sweep(nodes: Sequence[Node], live: set[Value]) -> tuple[Node, ...]:
    """The nodes that `live` depends on; their own dependencies are added to it."""
    live_nodes = []
    # Backwards, so that all readers of a value come before the node that defines it.
    for node in reversed(nodes):
        if node.primitive.has_effect or not live.isdisjoint(node.outputs):
            node = without_dead_parts(node, live, sweep) if node.primitive.is_loop else _trimmed(node, live)
            live.update(node.inputs)
            live_nodes.append(node)
    return tuple(reversed(live_nodes))


def _trimmed(node: Node, live: set[Value]) -> Node:
    """A node without dead nodes in its regions and, for `cond`, without unused outputs."""
    if not node.regions:
        return node
    used = [v in live or not node.primitive.is_branch for v in node.outputs]
    node = with_regions(node, lambda region: _region(region, used, live))
    return node if all(used) else replace(node, outputs=_picked(node.outputs, used))


def _region(region: Graph, used: Sequence[bool], live: set[Value]) -> Graph:
    outputs = _picked(region.outputs, used) if len(used) == len(region.outputs) else region.outputs
    live.update(outputs)
    nodes = sweep(region.nodes, live)
    if nodes == region.nodes and outputs == region.outputs:
        return region
    return region.replace(nodes=nodes, outputs=outputs)


def _picked(values: Sequence[Value], used: Sequence[bool]) -> tuple[Value, ...]:
    return tuple(v for v, is_used in zip(values, used, strict=True) if is_used)


class _Edges:
    """Redirects control edges from removed nodes to the operands of those nodes."""

    def __init__(self, graph: Graph, nodes: tuple[Node, ...]) -> None:
        self.remaining = definers(walk(graph.replace(nodes=nodes)))
        self.gone = {v: node for v, node in definers(walk(graph)).items() if v not in self.remaining}

    def repaired(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(map(self.repair, nodes)) if self.gone else nodes

    def repair(self, node: Node) -> Node:
        node = with_blocks(node, self.repaired)
        if self.gone.keys().isdisjoint(node.after):
            return node
        ahead = dict.fromkeys(w for v in node.after for w in self.instead(v))
        return replace(node, after=tuple(v for v in ahead if v not in node.inputs))

    def instead(self, value: Value) -> Iterable[Value]:
        """The value itself where it remains, else the nearest remaining values before it, without constants."""
        if value not in self.gone:
            return (value,)
        # An edge from a removed node still orders the nodes before that node.
        nearest = (v for v in reached([value], self.ahead) if v in self.remaining)
        return (v for v in nearest if not self.remaining[v].primitive.is_constant)

    def ahead(self, value: Value) -> Iterable[Value]:
        """The operands and control edges of the node of a removed value, or a remaining result of that node."""
        if value not in self.gone:
            return ()
        node = self.gone[value]
        return [v for v in node.outputs if v in self.remaining][:1] or needs(node)


Sweep = Callable[[Sequence[Node], set[Value]], tuple[Node, ...]]
"""A function as `sweep`: the nodes that the live values depend on; their dependencies become live, too."""


def without_dead_parts(node: Node, live: set[Value], sweep: Sweep) -> Node:
    """A loop without dead parts; the dependencies of its regions are added to `live`.

    A carried value is live where its last value is, or where a region needs it for something live, such as the
    condition of a while loop.
    """
    count = carries(node)
    *tests, region = node.regions
    used = [v in live for v in node.outputs]
    # Values of a region are not read outside, so each starts with an empty set: a copy of `live` would be quadratic.
    tested = {v for test in tests for v in test.outputs}
    nodes = [sweep(test.nodes, tested) for test in tests]
    for test in tests:
        used[:count] = [w or v in tested for v, w in zip(test.inputs, used[:count], strict=True)]
    # A carried value may be needed for another one in a later iteration only: so until nothing is added.
    while True:
        seen = {v for v, is_used in zip(region.outputs, used, strict=True) if is_used}
        live_nodes = sweep(region.nodes, seen)
        seen.update(v for n in walk(region.replace(nodes=live_nodes)) for v in n.after if v in region.inputs)
        more = [w or v in seen for v, w in zip(region.inputs, used[:count], strict=False)]
        if more == used[:count]:
            break
        used[:count] = more
    live |= tested | seen
    takes = [*used[:count], *(v in seen for v in region.inputs[count:])]
    if not any(takes[count:]) and node.attrs.get("length", 0) is None:
        takes[count] = True  # Any stack gives the number of iterations.
    nodes.append(live_nodes)
    if all((*used, *takes)) and all(n == r.nodes for n, r in zip(nodes, node.regions, strict=True)):
        return node
    return _with_parts(node, nodes, used, takes)


def _with_parts(node: Node, nodes: Sequence[tuple[Node, ...]], used: Sequence[bool], takes: Sequence[bool]) -> Node:
    *tests, region = (r.replace(nodes=n) for r, n in zip(node.regions, nodes, strict=True))
    tests = [test.replace(inputs=_picked(test.inputs, takes)) for test in tests]
    region = region.replace(inputs=_picked(region.inputs, takes), outputs=_picked(region.outputs, used))
    attrs = dict(node.attrs)
    if "carries" in attrs:
        attrs["carries"] = sum(used[: attrs["carries"]])
    return replace(
        node, inputs=_picked(node.inputs, takes), outputs=_picked(node.outputs, used), attrs=attrs,
        regions=(*tests, region),
    )  # fmt: skip
