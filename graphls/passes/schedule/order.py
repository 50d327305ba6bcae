"""The order pass: drops implied control edges, and proves which states are updated in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphls.ir.aliases import Aliases
from graphls.ir.graph import Graph, Node, Value, definers, uses
from graphls.ir.reachability import Reachability, waits_for
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import schedule


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
    proves_writes = True

    def run(self, graph: Graph) -> Graph:
        """The graph with its remaining edges and its writes marked."""
        proven, edges = read_before_write(graph)
        nodes = tuple(replace(n, after=(*n.after, *edges[n])) if n in edges else n for n in graph.nodes)
        nodes = tuple(reduce_edges(schedule(nodes)))
        writes = tuple(replace(w, in_place=w.state in proven) for w in graph.writes)
        return graph.replace(nodes=nodes, writes=writes)


def reduce_edges(nodes: Sequence[Node]) -> list[Node]:
    """Drop control edges that other paths imply, and those that come from no node or from a constant."""
    definer = definers(nodes)
    sources = [definer[v] for n in nodes for v in n.after if v in definer]
    if not sources:
        return [replace(n, after=()) if n.after else n for n in nodes]
    reach = Reachability(nodes, sources, waits_for)
    return [replace(n, after=_remaining_edges(n, definer, reach)) if n.after else n for n in nodes]


def _remaining_edges(node: Node, definer: dict[Value, Node], reach: Reachability) -> tuple[Value, ...]:
    data = {definer[v] for v in uses(node) if v in definer}
    control = {definer[v]: v for v in node.after if v in definer}
    implied = 0
    for earlier in (*data, *control):
        implied |= reach.before[earlier]
    for earlier in data:
        implied |= reach.until(earlier)
    return tuple(v for n, v in control.items() if not (reach.bit[n] & implied or n.primitive.is_constant))


def read_before_write(graph: Graph) -> tuple[set[Value], dict[Node, tuple[Value, ...]]]:
    """The states that may be updated in place, and for the others the edges that order their readers.

    An edge follows the schedule that the nodes are in, so that edges never form a cycle.
    """
    aliases = Aliases(graph.nodes)
    leaving = (*graph.outputs, *(w.value for w in graph.writes))
    leaving_roots = {root for value in leaving for root in aliases.of(value)}
    block = _Block(graph.nodes, {w.state: w.value for w in graph.writes}, aliases, leaving)
    position = {node: i for i, node in enumerate(graph.nodes)}
    edges: dict[Node, tuple[Value, ...]] = {}
    for state in block.targets:
        for writer in filter(None, block.writers(state).values()):
            readers = block.unordered_readers(state, writer)
            earlier = (n.outputs[0] for n in readers if position[n] < position[writer])
            edges[writer] = (*edges.get(writer, ()), *earlier)
    return block.proven() - leaving_roots, {node: values for node, values in edges.items() if values}


class _Block:
    """The nodes of a graph or region, with the states whose new values they compute."""

    def __init__(
        self, nodes: Sequence[Node], targets: Mapping[Value, Value], aliases: Aliases, leaving: Sequence[Value],
    ) -> None:  # fmt: skip
        self.targets = targets
        self.aliases = aliases
        self.times_used = Counter(leaving)
        for node in nodes:
            self.times_used.update(dict.fromkeys(uses(node), 1))
        self.readers: dict[Value, list[Node]] = {}
        for node in nodes:
            for state in dict.fromkeys(root for v in uses(node) for root in aliases.of(v)):
                if state in targets:
                    self.readers.setdefault(state, []).append(node)
        self.reach = Reachability(nodes, (n for readers in self.readers.values() for n in readers))

    def writers(self, state: Value) -> dict[Value, Node | None]:
        """The aliases of the new value of a state, each with the node that defines it; None for values from outside."""
        return {root: self.reach.definer.get(root) for root in self.aliases.of(self.targets[state])}

    def unordered_readers(self, state: Value, writer: Node) -> list[Node]:
        """The readers of the old state that data edges do not put before its writer."""
        before = self.reach.before[writer]
        return [n for n in self.readers.get(state, ()) if n is not writer and not self.reach.bit[n] & before]

    def proven(self) -> set[Value]:
        """The states whose new value may overwrite the old one."""
        safe: set[Value] = set()
        inner: dict[Node, dict[Value, Value]] = {}
        for state, value in self.targets.items():
            writers = self.writers(state)
            nodes = [node for node in writers.values() if node is not None and not self.unordered_readers(state, node)]
            # A value with several possible aliases must be safe for each of them.
            if value is state:  # a region that passes the state on copies it onto itself
                safe.add(state)
            elif len(nodes) < len(writers):
                continue
            elif len(nodes) == 1 and nodes[0].primitive.is_branch:
                inner.setdefault(nodes[0], {})[state] = next(iter(writers))
            elif not any(node.primitive.is_branch or self.mixes(node, state) for node in nodes):
                safe.add(state)
        for node, targets in inner.items():
            safe |= self.proven_inside(node, targets)
        return safe

    def reads(self, node: Node, state: Value) -> bool:
        """Whether a node reads the old state: directly, in its regions or through an alias."""
        return any(state in self.aliases.of(v) for v in uses(node))

    def mixes(self, writer: Node, state: Value) -> bool:
        """Whether one kernel may compute elements of the new value from other elements of the old one.

        A runtime fuses a node with nodes that only it reads: a matrix product with transpositions or factors of its
        operands, and with the activation of its result.
        """
        moves = {writer: not _elementwise(writer, state)}
        fused = [writer]
        for node in fused:
            if moves[node] and self.reads(node, state):
                return True
            for earlier in filter(None, (self.only_for(v, state) for v in node.inputs)):
                if earlier not in moves:
                    fused.append(earlier)
                    moves[earlier] = moves[node] or not _elementwise(earlier, state)
        return False

    def only_for(self, value: Value, state: Value) -> Node | None:
        """The node that computes a value of the state's size, if only one node reads that."""
        if value.type.size != state.type.size or self.times_used[value] != 1:
            return None
        return self.reach.definer.get(value)

    def proven_inside(self, node: Node, targets: Mapping[Value, Value]) -> set[Value]:
        """The proven states among those whose new value every region of a `cond` computes."""
        index_of = {value: at for at, value in enumerate(node.outputs)}
        positions = {state: index_of[value] for state, value in targets.items()}
        safe = set(targets)
        for region in node.regions:
            aliases = Aliases(region.nodes, self.aliases)
            yielded = {state: region.outputs[at] for state, at in positions.items()}
            passed = [(root, i) for i, v in enumerate(region.outputs) for root in aliases.of(v)]
            elsewhere = {v for v, i in passed if positions.get(v, i) != i}
            safe &= _Block(region.nodes, yielded, aliases, region.outputs).proven() - elsewhere
        return safe


def _elementwise(node: Node, state: Value) -> bool:
    return node.primitive.elementwise and node.output.type == state.type
