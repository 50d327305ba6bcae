"""The dce pass: what nobody needs goes away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphls.ir.graph import Graph, Node, Value, needs, walk
from graphls.passes.dce_loops import without_dead_parts
from graphls.passes.manager import register_pass
from graphls.passes.rewrite import LOOPS, definers


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

    A control edge orders and keeps nothing alive. Where its node goes away, the edge leads to what that node
    itself had to wait for, so that no order between the nodes that stay is lost. Inputs and states stay.
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
    for node in reversed(nodes):
        if not live.isdisjoint(node.outputs):
            node = without_dead_parts(node, live, sweep) if node.primitive.name in LOOPS else _trimmed(node, live)
            live.update(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))


def _trimmed(node: Node, live: set[Value]) -> Node:
    """A node without its dead regions' nodes and, for `cond`, without the outputs that nobody uses."""
    if not node.regions:
        return node
    used = [v in live or node.primitive.name != "cond" for v in node.outputs]
    regions = tuple(_region(r, used, live) for r in node.regions)
    if all(used) and regions == node.regions:
        return node
    return replace(node, regions=regions, outputs=_picked(node.outputs, used))


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
        self.kept = definers(walk(graph.replace(nodes=nodes)))
        self.gone = {v: node for v, node in definers(walk(graph)).items() if v not in self.kept}

    def repaired(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(map(self.repair, nodes)) if self.gone else nodes

    def repair(self, node: Node) -> Node:
        regions = tuple(r.replace(nodes=self.repaired(r.nodes)) for r in node.regions)
        after = node.after
        if not self.gone.keys().isdisjoint(after):
            ahead = dict.fromkeys(w for v in after for w in self.instead(v))
            after = tuple(v for v in ahead if v not in node.inputs)
        return replace(node, regions=regions, after=after) if regions or after is not node.after else node

    def instead(self, value: Value) -> Iterator[Value]:
        """The value itself where it stays, else the values nearest before it that do, constants left out."""
        if value not in self.gone:
            yield value
        seen, waiting = {value}, [value] if value in self.gone else []
        while waiting:
            node = self.gone[waiting.pop()]
            partly = [v for v in node.outputs if v in self.kept]
            for before in dict.fromkeys(partly[:1] or needs(node)):
                if before in self.kept and self.kept[before].primitive.name != "constant":
                    yield before
                elif before in self.gone and before not in seen:
                    seen.add(before)
                    waiting.append(before)
