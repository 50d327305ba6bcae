"""The dce pass: dead code elimination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from graphls.ir.graph import Graph, Node, Value, definers, needs, walk, with_blocks, with_regions
from graphls.ir.reachability import reached
from graphls.passes.manager import register_pass
from graphls.passes.rewrite import carries


@register_pass
@dataclass(frozen=True)
class Dce:
    """Remove what no output and no write needs: nodes, and results of `cond` and of loops (dead code elimination).

    Before:

        %a = exp(%x) : f32[4]  // forward
        %b = neg(%a) : f32[4]  // forward
        %y = depend(%x) after(%b) : f32[4]  // forward
        return %y

    After:

        %y = depend(%x) : f32[4]  // forward
        return %y

    What has an effect stays. A control edge orders and keeps nothing alive. Where its node goes away, the edge leads to
    what that node itself had to wait for, so that no order between the nodes that stay is lost. Inputs and states stay.
    """

    name = "dce"

    def run(self, graph: Graph) -> Graph:
        """The graph without dead nodes."""
        live = {*graph.outputs, *(w.value for w in graph.writes)}
        nodes = sweep(graph.nodes, live)
        return graph.replace(nodes=_Edges(graph, nodes).repaired(nodes))


def sweep(nodes: Sequence[Node], live: set[Value]) -> tuple[Node, ...]:
    """The nodes that `live` needs; whatever they need in turn is added to it."""
    kept = []
    # Backwards, so that whatever needs a value is known before the node that makes it comes.
    for node in reversed(nodes):
        if node.primitive.has_effect or not live.isdisjoint(node.outputs):
            node = without_dead_parts(node, live, sweep) if node.primitive.is_loop else _trimmed(node, live)
            live.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))


def _trimmed(node: Node, live: set[Value]) -> Node:
    """A node without its dead regions' nodes and, for `cond`, without the outputs that nobody uses."""
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
    return tuple(v for v, wanted in zip(values, used, strict=True) if wanted)


class _Edges:
    """Leads control edges to nodes that went away on to what those nodes waited for."""

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
        """The value itself where it stays, else the values nearest before it that do, constants left out."""
        if value not in self.gone:
            return (value,)
        # An edge over a node that went away still orders what stood before that node.
        kept = (v for v in reached([value], self.ahead) if v in self.remaining)
        return (v for v in kept if not self.remaining[v].primitive.is_constant)

    def ahead(self, value: Value) -> Iterable[Value]:
        """The control operands of the node of a removed value; a remaining result of that node does as well."""
        if value not in self.gone:
            return ()
        node = self.gone[value]
        return [v for v in node.outputs if v in self.remaining][:1] or needs(node)


Sweep = Callable[[Sequence[Node], set[Value]], tuple[Node, ...]]
"""The nodes that the live values need; what they need in turn is added to the live ones."""


def without_dead_parts(node: Node, live: set[Value], sweep: Sweep) -> Node:
    """A loop with what is needed of it; what its regions need is added to `live`.

    What is carried is needed where its last value is, or where a region needs it for anything that is, as the condition
    of a while loop always is.
    """
    count = carries(node)
    *tests, region = node.regions
    used = [v in live for v in node.outputs]
    # What a region defines nobody needs outside, so that each begins with nothing: a copy of `live` would be quadratic.
    tested = {v for test in tests for v in test.outputs}
    nodes = [sweep(test.nodes, tested) for test in tests]
    for test in tests:
        used[:count] = [w or v in tested for v, w in zip(test.inputs, used[:count], strict=True)]
    # What is carried may be needed for what else is carried, in a later iteration only: so until nothing is added.
    while True:
        seen = {v for v, wanted in zip(region.outputs, used, strict=True) if wanted}
        kept = sweep(region.nodes, seen)
        seen.update(v for n in walk(region.replace(nodes=kept)) for v in n.after if v in region.inputs)
        more = [w or v in seen for v, w in zip(region.inputs, used[:count], strict=False)]
        if more == used[:count]:
            break
        used[:count] = more
    live |= tested | seen
    taken = [*used[:count], *(v in seen for v in region.inputs[count:])]
    if not any(taken[count:]) and node.attrs.get("length", 0) is None:
        taken[count] = True  # A stack says how often the loop runs, whatever it holds.
    nodes.append(kept)
    if all((*used, *taken)) and all(n == r.nodes for n, r in zip(nodes, node.regions, strict=True)):
        return node
    return _with_parts(node, nodes, used, taken)


def _with_parts(node: Node, nodes: Sequence[tuple[Node, ...]], used: Sequence[bool], taken: Sequence[bool]) -> Node:
    *tests, region = (r.replace(nodes=n) for r, n in zip(node.regions, nodes, strict=True))
    tests = [test.replace(inputs=_picked(test.inputs, taken)) for test in tests]
    region = region.replace(inputs=_picked(region.inputs, taken), outputs=_picked(region.outputs, used))
    attrs = dict(node.attrs)
    if "carries" in attrs:
        attrs["carries"] = sum(used[: attrs["carries"]])
    return replace(
        node, inputs=_picked(node.inputs, taken), outputs=_picked(node.outputs, used), attrs=attrs,
        regions=(*tests, region),
    )  # fmt: skip
