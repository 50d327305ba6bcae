"""Assigns an engine to each node and cuts the graph into a graph of segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from itertools import chain

from graphls.ir.build import Names, copy_nodes, substitute
from graphls.ir.engines import find_engine
from graphls.ir.graph import Graph, Node, Value, Write, blocks, filtered, inside, needs, uses, walk, with_edges
from graphls.ir.plan import DEFAULT
from graphls.ir.reachability import descendants
from graphls.ir.registry import lookup
from graphls.ir.types import TOKEN
from graphls.passes.distributed.communication_overlap import overlap_communication
from graphls.passes.overflow.checks import in_parts
from graphls.passes.schedule.groups import Piece, grouped, in_pieces
from graphls.passes.schedule.list_schedule import list_schedule

MOST_LOOKS = 5_000_000
"""Looks up to which a graph is one segment: a runtime looks for each operator's results among all results of the graph,
and puts each operator in a list of those that wait for their turn, which it goes through for every optimization."""

MOST_WHOLE = 16_000
"""Nodes up to which a graph is one segment, whatever they wait for."""

MOST_NODES = 2000
"""How many nodes a segment has of a graph beyond that."""

HOST = "host"
"""The engine of the nodes that call Python."""

RANKS = "ranks"
"""The engine of what ranks do together at the end of a step."""


class Cut:
    """The nodes of a graph with their engines; constants and tokens are copied to where they are used.

    A condition whose results are `deferred` is for no engine: the host lets states take values or stay as they are.
    """

    def __init__(
        self, graph: Graph, engine: str, least: int, bucket: int, deferred: Set[Value] = frozenset(),
        on_host: bool = True,
    ) -> None:  # fmt: skip
        # A stack does not leave its segment, so that a graph with loops that have some is for one engine.
        has_stacks = any(v.type.stacked for node in graph.nodes for v in node.outputs)
        self.is_large = not has_stacks and is_too_large(graph, on_host)
        self.graph = graph = in_parts(graph) if self.is_large else graph
        self.bucket = bucket
        self.names = Names.of(graph)
        self.host_random = [node for node in walk(graph) if node.primitive.on_host]
        self.nodes = filtered(graph.nodes, lambda node: not node.primitive.on_host)
        self.preferred = DEFAULT if has_stacks else engine
        self.deferred = deferred
        found = find_engine(self.preferred)
        self.takes = found.takes
        is_much = sum(write.state.type.nbytes for write in graph.writes) >= least
        self.updates_apart = is_much and not (found.writes_in_place or found.runs_python)
        self.free = {v: node for node in self.nodes if _is_free(node) for v in node.outputs}
        self.engine = {node: self.chosen(node) for node in self.nodes if not _is_free(node)}
        if DEFAULT in self.engine.values():
            self.engine.update((node, DEFAULT) for node in self.engine if self.takes(node) and _counts(node))
        self.boundary_values: dict[Value, Value] = {}
        self.passed: dict[Value, Value] = {}

    def chosen(self, node: Node) -> str:
        """The engine that runs a node."""
        if any(n.primitive.calls_python for n in chain((node,), inside(node))):
            return RANKS if find_engine(RANKS).takes(node) else HOST
        if not self.deferred.isdisjoint(node.outputs):
            return self.preferred
        if self.updates_apart and node.phase == "update":
            return DEFAULT
        return self.preferred if self.takes(node) else DEFAULT

    def branch(self, least: int) -> Node | None:
        """The condition whose branches write most bytes of states, if these are enough and a segment makes its flag.

        One whose results are deferred comes before others.
        """
        if self.deferred:
            return next(node for node in self.engine if not self.deferred.isdisjoint(node.outputs))
        sizes: dict[Value, int] = {}
        for write in self.graph.writes:
            sizes[write.value] = sizes.get(write.value, 0) + write.state.type.nbytes
        written = {node: sum(sizes.get(v, 0) for v in node.outputs) for node in self.engine if node.primitive.is_branch}
        largest = sorted((node for node in written if written[node] >= least), key=lambda n: -written[n])
        return next(filter(self.may_stand_alone, largest), None)

    def may_stand_alone(self, node: Node) -> bool:
        """Whether a node is a condition whose flag a segment makes, and no stack would cross from or to it."""
        if self.engine[node] == HOST:
            return False
        behind = descendants(self.nodes, (node,))
        read = _read([node, *behind])
        return any(node.inputs[0] in n.outputs for n in self.engine) and not any(v.type.stacked for v in read)

    def into_segments(self, branch: Node | None) -> Graph:
        """The graph of segments; where there is a branch, it is alone, and what needs it comes behind."""
        behind = descendants(self.nodes, (branch,)) if branch else frozenset()
        others = [node for node in self.engine if node is not branch]
        early = [node for node in others if node not in behind]
        late = [node for node in others if node in behind]
        leaving = (*self.graph.outputs, *(w.value for w in self.graph.writes))
        made = [*self.host_random]
        made += self.segments(early, {*leaving, *_read(late), *_read([branch] if branch else [])}, leaving)
        if branch:
            made.append(self.expanded_branch(branch))
        made += self.segments(late, leaving)
        writes = tuple(Write(w.state, self.outside(w.value)) for w in self.graph.writes)
        outputs = tuple(map(self.outside, self.graph.outputs))
        return self.graph.replace(nodes=tuple(made), writes=writes, outputs=outputs)

    def outside(self, value: Value) -> Value:
        """The value outside of its segment."""
        return self.passed.get(value, self.boundary_values.get(value, value))

    def expanded_branch(self, branch: Node) -> Node:
        """The condition with segments in its branches, which stands alone in the plan."""
        outer = self.boundary_values, self.passed
        regions = []
        for region in branch.regions:
            self.boundary_values, self.passed = dict(outer[0]), {}
            self.engine.update((node, self.chosen(node)) for node in region.nodes if not _is_free(node))
            self.free.update((v, node) for node in region.nodes if _is_free(node) for v in node.outputs)
            constants = [v for v in region.outputs if v in self.free]
            nodes = self.segments([n for n in region.nodes if not _is_free(n)], region.outputs, constants)
            regions.append(region.replace(nodes=tuple(nodes), outputs=tuple(map(self.outside, region.outputs))))
        self.boundary_values, self.passed = outer
        inputs = tuple(self.boundary_values.get(v, v) for v in branch.inputs)
        return replace(branch, inputs=inputs, after=(), regions=tuple(regions))

    def segments(self, nodes: Sequence[Node], leaving: Iterable[Value], passed: Iterable[Value] = ()) -> list[Node]:
        """The segments of some nodes, in the order in which they run.

        Of what is `passed` on, those that no node makes (an input, the old value of a state, a constant) are given by
        a segment, too.
        """
        nodes = list_schedule(nodes, {*leaving})
        ordered, behind = overlap_communication(nodes, self.bucket)
        where = in_pieces(nodes, grouped(ordered, self.engine, behind), MOST_NODES if self.is_large else len(nodes))
        groups: dict[Piece, list[Node]] = {}
        for node in nodes:
            groups.setdefault(where[node], []).append(node)
        made_by = {v for node in self.engine for v in node.outputs}
        loose = [v for v in dict.fromkeys(passed) if v not in made_by]
        if loose and not groups:
            groups[0, DEFAULT, 0] = []
        order = sorted(groups)
        home = next((key for key in order if key[1] == DEFAULT), order[0] if order else None)
        made_in = {v: where[node] for node in nodes for v in node.outputs}
        wanted = {*leaving, *(v for node in nodes for v in uses(node) if made_in.get(v, where[node]) != where[node])}
        return [self.segment(key[1], groups[key], wanted, loose if key == home else ()) for key in order]

    def segment(self, engine: str, nodes: Sequence[Node], wanted: set[Value], loose: Iterable[Value]) -> Node:
        """One segment: its nodes with copies of the constants that they need, and names for its results outside."""
        results = [v for node in nodes for v in node.outputs if v in wanted and v.type != TOKEN]
        copies: dict[Value, Value] = {}
        # The window that a token opens has been proven of the whole graph; its copy orders nothing.
        free = [replace(node, after=()) for node in self.free_before((*_read(nodes), *loose))]
        constants = copy_nodes(free, copies, self.names)
        inner = self.boundary_values | copies
        # The order of segments stands for control edges that lead out of one.
        own = {v for node in nodes for n in chain(inside(node), (node,)) for v in n.outputs}
        contents = [with_edges(n, own.__contains__) for n in (*constants, *(substitute(node, inner) for node in nodes))]
        yields = (*results, *(inner.get(v, v) for v in loose))
        region = Graph("segment", (), (), tuple(contents), (), yields)
        outputs = tuple(Value(self.names.fresh(v.name), v.type) for v in (*results, *loose))
        self.boundary_values.update(zip(results, outputs, strict=False))
        self.passed.update(zip(loose, outputs[len(results) :], strict=True))
        phase, loc = (nodes[-1].phase, nodes[-1].loc) if nodes else ("update", None)
        return Node(lookup("segment"), (), outputs, {"engine": engine}, (), (region,), phase, "", loc)

    def free_before(self, values: Iterable[Value]) -> list[Node]:
        """The constants and tokens among values, and those that these need, in order."""
        found: dict[Node, None] = {}
        for value in values:
            if value in self.free and self.free[value] not in found:
                for node in self.free_before(self.free[value].inputs):
                    found.setdefault(node)
                found.setdefault(self.free[value])
        return list(found)


def is_too_large(graph: Graph, on_host: bool = True) -> bool:
    """Whether a graph is for segments of `MOST_NODES` nodes; less soon where values that cross leave a device."""
    count = sum(1 for _ in walk(graph))
    looks = count * (len(graph.outputs) + len(graph.writes))
    return looks > MOST_LOOKS or (on_host and (count > MOST_WHOLE or looks + waits(graph) > MOST_LOOKS))


def waits(graph: Graph) -> int:
    """For how many other nodes of their block nodes stand back, all together, when what they need is there.

    That is the length of the list of those that wait, summed over the steps of a schedule by the numbers of the nodes.
    """
    total = 0
    for block in blocks(graph):
        place: dict[Value, int] = {}
        for number, node in enumerate(node for node in block.nodes if not node.primitive.is_constant):
            total += number - 1 - max((place[v] for v in needs(node) if v in place), default=-1)
            place.update(dict.fromkeys(node.outputs, number))
    return total


def _counts(node: Node) -> bool:
    """Whether a node makes one integer or flag of others, for which no change of engine is worth it."""
    return all(v.type.size == 1 and not v.type.dtype.is_float for v in (*node.inputs, *node.outputs) if v.type != TOKEN)


def _is_free(node: Node) -> bool:
    """Whether each segment has its own: constants, and tokens of windows, which the order of segments stands for."""
    is_token = any(v.type == TOKEN for v in node.outputs) and not node.primitive.calls_python
    return node.primitive.is_constant or is_token


def _read(nodes: Iterable[Node]) -> list[Value]:
    return [v for node in nodes for v in uses(node)]
