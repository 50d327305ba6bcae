"""A graph as a tree of groups: phases, then cells, then nodes with their regions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from graphls.inspect.viz.split import split
from graphls.inspect.viz.states import reached, served
from graphls.ir.graph import Graph, Node, Value, blocks, inside, needs
from graphls.passes.windows import windows as windows_of

MOST_LOOSE = 40
"""The most nodes of its own that a group shows; more are divided by the states that they serve."""
MOST_UNCHANGED = 3
"""The most states that a region yields unchanged and that are not folded."""
DEEPEST = 40
"""The most parts of a scope or of a state's name that become groups; the rest is one part."""


@dataclass(frozen=True, eq=False)
class Port:
    """An entry or exit of a value: "input" and "output" of the graph, "parameter" and "yield" of a region."""

    kind: str
    value: Value


@dataclass(frozen=True, eq=False)
class Group:
    """A part of a graph that folds into one box.

    `kind` is "graph", "phase", "cell", "states" (nodes that work for states of one name, or ports where there are
    many), "node" (a node with regions, which are its children) or "region". `path` is the scope of a cell and the
    name of states, `phase` that of all nodes inside or "" where they differ, `node` the node of kind "node". Data and
    control edges between children form no cycle, so a cell or phase that would close one is in several groups of the
    same label.
    """

    label: str
    kind: str
    path: str
    phase: str
    node: Node | None
    children: tuple[Child, ...]

    @property
    def engine(self) -> str:
        """The engine of a segment of a plan; of any other group there is none, which is ""."""
        return str(self.node.attrs["engine"]) if self.node is not None and self.node.primitive.is_segment else ""


Child: TypeAlias = "Group | Node | Port"


def grouped(graph: Graph) -> Group:
    """The tree of a graph; the root has the inputs, the phases and the outputs. Linear, up to the depth of the tree."""
    return _Tree(graph).root()


def engines(group: Group) -> tuple[str, ...]:
    """The engines of the segments in a group, each once."""
    return tuple(dict.fromkeys(g.engine for g in members(group) if isinstance(g, Group) and g.engine))


def members(group: Group) -> Iterator[Child]:
    """All descendants of a group, groups before their children."""
    for child in group.children:
        yield child
        if isinstance(child, Group):
            yield from members(child)


def node_of(child: Child) -> Node | None:
    """The node that a child is, or whose regions are in it; None for ports and other groups."""
    if isinstance(child, Group):
        return child.node
    return child if isinstance(child, Node) else None


class _Tree:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.reached = reached(graph)
        self.before: dict[Node, Sequence[Node]] = {}
        self.scopes: dict[Node, tuple[str, ...]] = {}
        self.states = [tuple(w.state.name.split(".", DEEPEST)) for w in graph.writes]

    def root(self) -> Group:
        graph = self.graph
        self.look_at(graph.nodes)
        inner = self.segments(graph.nodes) or self.phases(graph.nodes, 0)
        children = (*_ports("input", graph.inputs), *inner, *_ports("output", graph.outputs))
        return Group(graph.name, "graph", "", _phase(graph.nodes), None, children)

    def look_at(self, nodes: Sequence[Node]) -> None:
        """Record the scopes of the nodes of a block, and the predecessors of each."""
        definer: dict[Value, Node] = {}
        for node in nodes:
            self.before[node] = tuple(dict.fromkeys(definer[v] for v in needs(node) if v in definer))
            self.scopes[node] = tuple(node.scope.split(".", DEEPEST)) if node.scope else ()
            definer.update((value, node) for value in node.outputs)

    def segments(self, nodes: Sequence[Node]) -> tuple[Child, ...]:
        """The segments of a plan, each in a box of its own, with the nodes beside them; none of another graph."""
        if not any(n.primitive.is_segment or any(map(_has_segments, n.regions)) for n in nodes):
            return ()
        return tuple(map(self.leaf, nodes))

    def phases(self, nodes: Sequence[Node], depth: int) -> tuple[Child, ...]:
        """Nodes in groups by phase, and in those by cell."""
        pieces = split(nodes, {node: node.phase for node in nodes}, self.before)
        return tuple(Group(p[0].phase, "phase", "", p[0].phase, None, self.cells(p, depth)) for p in pieces)

    def cells(self, nodes: Sequence[Node], depth: int) -> tuple[Child, ...]:
        """Nodes whose scopes agree in the first `depth` parts: those that end there, and groups of the others."""
        paths = {n: ("cell", self.scopes[n]) for n in nodes if len(self.scopes[n]) > depth}
        loose = [n for n in nodes if n not in paths]
        if len(loose) > MOST_LOOSE:
            paths |= {n: ("states", self.states[i]) for n, i in served(loose, self.reached).items()}
        return tuple(self.divided(nodes, paths, {"cell": depth, "states": 0}))

    def divided(
        self, nodes: Sequence[Node], paths: Mapping[Node, tuple[str, tuple[str, ...]]], depths: Mapping[str, int]
    ) -> Iterator[Child]:
        """Nodes one by one, but those with a path in groups by the next part of it."""
        keys: dict[Node, Hashable] = {n: n for n in nodes}
        keys |= {n: (kind, parts[depths[kind]]) for n, (kind, parts) in paths.items()}
        for piece in split(nodes, keys, self.before):
            kind, _ = paths.get(piece[0], ("", ()))
            if kind == "cell":
                yield self.cell(piece, depths[kind])
            elif kind and len(piece) > 1:
                yield self.state({node: paths[node][1] for node in piece}, depths[kind])
            else:
                yield from map(self.leaf, piece)

    def cell(self, nodes: Sequence[Node], depth: int) -> Group:
        shared = _shared([self.scopes[node] for node in nodes])
        label, path = _label(shared, depth), ".".join(shared)
        return Group(label, "cell", path, _phase(nodes), None, self.cells(nodes, len(shared)))

    def state(self, names: Mapping[Node, tuple[str, ...]], depth: int) -> Group:
        shared = _shared(list(names.values()))
        nodes = list(names)
        deep = {n: ("states", name) for n, name in names.items() if len(name) > len(shared)}
        paths = deep if len(nodes) > MOST_LOOSE else {}
        children = tuple(self.divided(nodes, paths, {"states": len(shared)}))
        return Group(f"@{_label(shared, depth)}", "states", ".".join(shared), _phase(nodes), None, children)

    def leaf(self, node: Node) -> Child:
        if not node.regions:
            return node
        names = node.primitive.region_names or tuple(region.name for region in node.regions)
        labels = names if len(set(names)) == len(node.regions) else map(str, range(len(node.regions)))
        regions = tuple(self.region(node, *pair) for pair in zip(labels, node.regions, strict=True))
        if node.primitive.is_segment:
            inner = tuple(n for region in node.regions for n in region.nodes)
            return Group(_segment_title(node), "node", node.scope, _phase(inner), node, regions)
        return Group(node.primitive.name, "node", node.scope, node.phase, node, regions)

    def region(self, owner: Node, label: str, region: Graph) -> Group:
        nodes = region.nodes
        self.look_at(nodes)
        depth = len(_shared([self.scopes[owner], *(self.scopes[node] for node in nodes)]))
        several = len({node.phase for node in nodes}) > 1
        inner = self.segments(nodes) or (self.phases(nodes, depth) if several else self.cells(nodes, depth))
        children = (*_ports("parameter", region.inputs), *inner, *_ports("yield", region.outputs))
        return Group(label, "region", owner.scope, _phase(nodes) if nodes else owner.phase, None, children)


def _segment_title(node: Node) -> str:
    """The engine of a segment; of a pipeline its stage, and the part of the batch that it is for."""
    if node.stage is None:
        return f"{node.attrs['engine']} segment"
    return f"stage {node.stage}" if node.micro is None else f"stage {node.stage} micro {node.micro}"


def _has_segments(region: Graph) -> bool:
    return any(node.primitive.is_segment for node in region.nodes)


def _ports(kind: str, values: Sequence[Value]) -> tuple[Child, ...]:
    """A port for each value; many of them, and states that a region leaves unchanged, are in a group."""
    ports = [Port(kind, value) for value in values]
    unchanged = [port for port in ports if port.value.is_state and kind == "yield"]
    changed = [port for port in ports if not port.value.is_state or kind != "yield"]
    return (
        *_folded(changed, f"{len(changed)} {kind}s", MOST_LOOSE),
        *_folded(unchanged, f"{len(unchanged)} states as they are", MOST_UNCHANGED),
    )


def _folded(ports: Sequence[Port], label: str, most: int) -> tuple[Child, ...]:
    return tuple(ports) if len(ports) <= most else (Group(label, "states", "", "", None, tuple(ports)),)


def _phase(nodes: Sequence[Node]) -> str:
    phases = {node.phase for node in nodes}
    return phases.pop() if len(phases) == 1 else ""


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The parts that all paths begin with."""
    both = zip(min(paths), max(paths), strict=False)
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], both))


def _label(parts: tuple[str, ...], depth: int) -> str:
    """The parts behind the first `depth`; a number alone says little, so it has the part before it in front."""
    return ".".join(parts[depth - (depth > 0 and parts[depth].isdecimal()) :])


def windows(graph: Graph) -> tuple[tuple[Node, Node, frozenset[Node]], ...]:
    """For each window its `overflow_start`, its `overflow_get` and the nodes between them, as `verify_windows` has it.

    Between are the nodes that run after the start and before the get, by data and control edges, with all that is
    in their regions. Windows of regions come after those of the graph; before the overflow pass there are none.
    """
    return tuple(
        (window.start, window.get, frozenset(inner for node in window.inside for inner in (node, *inside(node))))
        for block in blocks(graph)
        for window in windows_of(block.nodes)
    )
