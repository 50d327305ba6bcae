"""The order pass: which control edges remain, and which states may be updated in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphls.ir.graph import Graph, Node, Value, Write, uses
from graphls.passes.manager import register_pass
from graphls.passes.rewrite import schedule


@register_pass
@dataclass(frozen=True)
class Order:
    """Keep the control edges that order something, and prove which states can be updated in place.

    Before:

        %y = mul(%x, @w) : f32[4]  // forward
        %g = mul(%x, %y) : f32[4]  // backward
        %d = depend(%g) after(%y, %g, %c) : f32[4]  // backward
        %new = sub(@w, %d) : f32[4]  // update
        @w <- %new

    After (`%y` and `%g` come before `%d` anyway, `%c` is a constant, every reader of `@w` before `%new`):

        %y = mul(%x, @w) : f32[4]  // forward
        %g = mul(%x, %y) : f32[4]  // backward
        %d = depend(%g) : f32[4]  // backward
        %new = sub(@w, %d) : f32[4]  // update
        @w <- %new in place

    Where a reader of the old state is not before its writer by data, a control edge puts it there and the
    state keeps two buffers, because a backend may follow data edges alone. Edges that data or other edges
    imply are dropped (the transitive reduction, which is unique for a graph without cycles).
    """

    name = "order"

    def run(self, graph: Graph) -> Graph:
        """The graph with its remaining edges and its writes marked."""
        proven, edges = _read_before_write(graph)
        nodes = tuple(replace(n, after=(*n.after, *edges[n])) if n in edges else n for n in graph.nodes)
        nodes = tuple(reduce_edges(schedule(nodes)))
        writes = tuple(replace(w, in_place=w.state in proven) for w in graph.writes)
        return graph.replace(nodes=nodes, writes=writes)


class Reachability:
    """Which of some marked nodes come before each node, as one integer of bits per node."""

    def __init__(self, nodes: Sequence[Node], marked: Iterable[Node], control: bool) -> None:
        self.bit = {node: 1 << i for i, node in enumerate(dict.fromkeys(marked))}
        self.control = control
        self.definer: dict[Value, Node] = {}
        self.before: dict[Node, int] = {}
        for node in nodes:
            bits = 0
            for earlier in self.predecessors(node):
                bits |= self.until(earlier)
            self.before[node] = bits
            self.definer.update((value, node) for value in node.outputs)

    def predecessors(self, node: Node) -> list[Node]:
        values = (*uses(node), *node.after) if self.control else uses(node)
        return list(dict.fromkeys(self.definer[v] for v in values if v in self.definer))

    def until(self, node: Node) -> int:
        """The marked nodes before `node`, itself included."""
        return self.before[node] | self.bit.get(node, 0)


def reduce_edges(nodes: Sequence[Node]) -> list[Node]:
    """Drop control edges that other paths imply, and those that come from no node or from a constant."""
    definer = {value: node for node in nodes for value in node.outputs}
    sources = [definer[v] for n in nodes for v in n.after if v in definer]
    if not sources:
        return [replace(n, after=()) if n.after else n for n in nodes]
    reach = Reachability(nodes, sources, control=True)
    return [replace(n, after=_needed(n, definer, reach)) if n.after else n for n in nodes]


def _needed(node: Node, definer: dict[Value, Node], reach: Reachability) -> tuple[Value, ...]:
    data = {definer[v] for v in uses(node) if v in definer}
    control = {definer[v]: v for v in node.after if v in definer}
    implied = 0
    for earlier in (*data, *control):
        implied |= reach.before[earlier]
    for earlier in data:
        implied |= reach.until(earlier)
    return tuple(
        v for n, v in control.items() if not reach.bit[n] & implied and n.primitive.name != "constant"
    )


def _read_before_write(graph: Graph) -> tuple[set[Value], dict[Node, tuple[Value, ...]]]:
    """The states that may be updated in place, and for the others the edges that order their readers.

    An edge follows the schedule that the nodes are in, so that edges never form a cycle.
    """
    definer = {value: node for node in graph.nodes for value in node.outputs}
    place = {node: i for i, node in enumerate(graph.nodes)}
    readers = _readers(graph)
    candidates = [w for w in graph.writes if w.value in definer and not _kept(graph, w)]
    marked = (n for w in candidates for n in readers.get(w.state, ()))
    reach = Reachability(graph.nodes, marked, control=False)
    proven: set[Value] = set()
    edges: dict[Node, tuple[Value, ...]] = {}
    for write in candidates:
        writer = definer[write.value]
        late = [n for n in readers.get(write.state, ()) if n is not writer and not reach.bit[n] & reach.before[writer]]
        if not late and _writes_safely(writer, write):
            proven.add(write.state)
        earlier = tuple(n.outputs[0] for n in late if place[n] < place[writer])
        if earlier:
            edges[writer] = (*edges.get(writer, ()), *earlier)
    return proven, edges


def _readers(graph: Graph) -> dict[Value, list[Node]]:
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in uses(node):
            if value.is_state:
                readers.setdefault(value, []).append(node)
    return readers


def _kept(graph: Graph, write: Write) -> bool:
    """Whether the old value itself leaves the step, as an output or into another state."""
    return write.state in graph.outputs or any(w.value is write.state for w in graph.writes)


def _writes_safely(writer: Node, write: Write) -> bool:
    """Whether a node may put its result where the old state is, which it may read itself."""
    at = writer.outputs.index(write.value)
    if writer.regions:
        return all(_region_writes_safely(region, region.outputs[at], at, write.state) for region in writer.regions)
    return write.state not in writer.inputs or _elementwise(writer, write.state)


def _elementwise(node: Node, state: Value) -> bool:
    primitive: Any = node.primitive
    return bool(getattr(primitive, "elementwise", False)) and node.output.type == state.type


def _region_writes_safely(region: Graph, value: Value, at: int, state: Value) -> bool:
    """The same inside a branch: every reader of the old state comes before its new value there."""
    if any(v is state for i, v in enumerate(region.outputs) if i != at):
        return False
    readers = [n for n in region.nodes if state in uses(n)]
    writer = next((n for n in region.nodes if value in n.outputs), None)
    if writer is None:
        return value is state or not readers
    reach = Reachability(region.nodes, readers, control=False)
    if any(n is not writer and not reach.bit[n] & reach.before[writer] for n in readers):
        return False
    return _writes_safely(writer, Write(state, value))
