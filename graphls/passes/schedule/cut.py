"""Assigns an engine to each node, splits large overflow checks, and cuts the graph into a graph of segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from itertools import chain, islice

from graphls.ir.build import Names, copy_nodes, substitute
from graphls.ir.engines import Interprets, find_engine
from graphls.ir.graph import Graph, Node, Value, Write, blocks, filtered, inside, needs, uses, walk, with_edges
from graphls.ir.plan import DEFAULT
from graphls.ir.reachability import descendants
from graphls.ir.registry import lookup
from graphls.ir.types import TOKEN
from graphls.passes.distributed.communication_overlap import overlap_communication
from graphls.passes.schedule.groups import Piece, grouped, in_pieces
from graphls.passes.schedule.list_schedule import list_schedule

MOST_LOOKUPS = 5_000_000
"""Lookups up to which a graph is one segment: a runtime searches each operator's results among all results of the
graph, and keeps waiting operators in a list, which it scans for every optimization."""

MOST_UNCUT = 16_000
"""Nodes up to which a graph is one segment, whatever they wait for."""

MOST_NODES = 2000
"""The nodes of each segment of a larger graph."""

MOST_CHECKED = 64
"""The most values of one overflow check; a runtime tests so many at once (runtime/lowering/finite.py)."""

HOST = "host"
"""The engine of the nodes that call Python."""

RANKS = "ranks"
"""The engine of the collectives at the end of a step."""


class Cut:
    """The nodes of a graph with their engines; constants and tokens are copied to where they are used.

    A condition whose results are `deferred` runs on no engine: the host commits the new states or keeps the old ones.
    """

    def __init__(
        self, graph: Graph, engine: str, bucket: int, deferred: Set[Value] = frozenset(), on_host: bool = True,
    ) -> None:  # fmt: skip
        # A stack does not leave its segment, so that a graph with stacks is for one engine.
        has_stacks = any(v.type.stacked for node in graph.nodes for v in node.outputs)
        self.is_large = not (has_stacks or find_engine(engine).runs_whole) and is_too_large(graph, on_host)
        self.graph = graph = split_checks(graph) if self.is_large else graph
        self.bucket = bucket
        self.names = Names.of(graph)
        self.host_random = [node for node in walk(graph) if node.primitive.on_host]
        self.nodes = filtered(graph.nodes, lambda node: not node.primitive.on_host)
        self.preferred = DEFAULT if has_stacks else engine
        self.deferred = deferred
        preferred_engine = find_engine(self.preferred)
        self.takes = preferred_engine.takes
        self.free = {v: node for node in self.nodes if _is_free(node) for v in node.outputs}
        self.engine = {node: self.chosen(node) for node in self.nodes if not _is_free(node)}
        if DEFAULT in self.engine.values() and not isinstance(preferred_engine, Interprets):
            self.engine.update((node, DEFAULT) for node in self.engine if self.takes(node) and _counts(node))
        self.boundary_values: dict[Value, Value] = {}
        self.passed: dict[Value, Value] = {}

    def chosen(self, node: Node) -> str:
        """The engine that runs a node."""
        if any(n.primitive.calls_python for n in chain((node,), inside(node))):
            return RANKS if find_engine(RANKS).takes(node) else HOST
        if not self.deferred.isdisjoint(node.outputs):
            return self.preferred
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
        """Whether a segment computes the flag of a condition, and no stack would cross its boundary."""
        if self.engine[node] == HOST:
            return False
        later = descendants(self.nodes, (node,))
        read = _read([node, *later])
        return any(node.inputs[0] in n.outputs for n in self.engine) and not any(v.type.stacked for v in read)

    def into_segments(self, branch: Node | None) -> Graph:
        """The graph of segments; a branch stands alone, and its descendants come after."""
        later = descendants(self.nodes, (branch,)) if branch else frozenset()
        others = [node for node in self.engine if node is not branch]
        before_branch = [node for node in others if node not in later]
        after_branch = [node for node in others if node in later]
        leaving = (*self.graph.outputs, *(w.value for w in self.graph.writes))
        nodes = [*self.host_random]
        read_later = _read([*after_branch, *((branch,) if branch else ())])
        nodes += self.segments(before_branch, {*leaving, *read_later}, leaving)
        if branch:
            nodes.append(self.expanded_branch(branch))
        nodes += self.segments(after_branch, leaving)
        writes = tuple(Write(w.state, self.outside(w.value)) for w in self.graph.writes)
        outputs = tuple(map(self.outside, self.graph.outputs))
        return self.graph.replace(nodes=tuple(nodes), writes=writes, outputs=outputs)

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

        Values of `passed` that no node computes (an input, the old value of a state, a constant) are outputs of a
        segment, too.
        """
        nodes = list_schedule(nodes, {*leaving})
        ordered, after = overlap_communication(nodes, self.bucket)
        where = in_pieces(nodes, grouped(ordered, self.engine, after), MOST_NODES if self.is_large else len(nodes))
        groups: dict[Piece, list[Node]] = {}
        for node in nodes:
            groups.setdefault(where[node], []).append(node)
        defined = {v for node in self.engine for v in node.outputs}
        loose = [v for v in dict.fromkeys(passed) if v not in defined]
        if loose and not groups:
            groups[0, DEFAULT, 0] = []
        order = sorted(groups)
        home = next((key for key in order if key[1] == DEFAULT), order[0] if order else None)
        home_of = {v: where[node] for node in nodes for v in node.outputs}
        required = {*leaving, *(v for node in nodes for v in uses(node) if home_of.get(v, where[node]) != where[node])}
        return [self.segment(key[1], groups[key], required, loose if key == home else ()) for key in order]

    def segment(self, engine: str, nodes: Sequence[Node], required: set[Value], loose: Iterable[Value]) -> Node:
        """One segment: its nodes with copies of the constants that they need, and names for its results outside."""
        results = [v for node in nodes for v in node.outputs if v in required and v.type != TOKEN]
        copies: dict[Value, Value] = {}
        # The window of a token has been proven for the complete graph; its copy orders nothing.
        free = [replace(node, after=()) for node in self.free_before((*_read(nodes), *loose))]
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
        return Node(lookup("segment"), (), outputs, {"engine": engine}, (), (region,), phase, "", loc)

    def free_before(self, values: Iterable[Value]) -> list[Node]:
        """The constants and tokens among values, and their own dependencies, in order."""
        nodes: dict[Node, None] = {}
        for value in values:
            if value in self.free and self.free[value] not in nodes:
                for node in self.free_before(self.free[value].inputs):
                    nodes.setdefault(node)
                nodes.setdefault(self.free[value])
        return list(nodes)


def is_too_large(graph: Graph, on_host: bool = True) -> bool:
    """Whether a graph is cut into segments of `MOST_NODES` nodes; on a device, which values would leave, later."""
    count = sum(1 for _ in walk(graph))
    lookups = count * (len(graph.outputs) + len(graph.writes))
    return lookups > MOST_LOOKUPS or (on_host and (count > MOST_UNCUT or lookups + waits(graph) > MOST_LOOKUPS))


def waits(graph: Graph) -> int:
    """The total delay of the nodes of a graph: for each, the nodes of its block between its last operand and itself.

    That is the length of a runtime's list of ready nodes, summed over the steps of the schedule.
    """
    total = 0
    for block in blocks(graph):
        position: dict[Value, int] = {}
        for number, node in enumerate(node for node in block.nodes if not node.primitive.is_constant):
            total += number - 1 - max((position[v] for v in needs(node) if v in position), default=-1)
            position.update(dict.fromkeys(node.outputs, number))
    return total


def split_checks(graph: Graph) -> Graph:
    """The graph with checks of at most MOST_CHECKED values, each after the last of them, and a check of their flags.

    The window has been proven for the original check: a part checks some of its values as soon as these are computed,
    and the check itself keeps its position and checks the flags of the parts.
    """
    names = Names.of(graph)
    position = {value: number for number, node in enumerate(graph.nodes) for value in node.outputs}
    parts: dict[int, list[Node]] = {}
    joined: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.primitive.is_check and len(node.inputs) > MOST_CHECKED + 1:
            joined[node] = _split_check(node, names, position, parts)
    if not joined:
        return graph
    numbered = ((n, joined.get(node, node)) for n, node in enumerate(graph.nodes))
    nodes = chain(parts.get(-1, ()), *((node, *parts.get(n, ())) for n, node in numbered))
    return graph.replace(nodes=tuple(nodes))


def _split_check(check: Node, names: Names, position: dict[Value, int], parts: dict[int, list[Node]]) -> Node:
    """A check of the flags of its parts, which are added to `parts` by the index of the node before them."""
    tokens = tuple(v for v in check.inputs if v.type == TOKEN)
    values = iter(sorted((v for v in check.inputs if v.type != TOKEN), key=lambda v: position.get(v, -1)))
    flags: list[Value] = []
    for some in iter(lambda: tuple(islice(values, MOST_CHECKED)), ()):
        flag = Value(names.fresh(check.output.name), check.output.type)
        part = replace(check, inputs=(*tokens, *some), outputs=(flag,), after=())
        position_of_part = max(position.get(v, -1) for v in part.inputs)
        parts.setdefault(position_of_part, []).append(part)
        flags.append(flag)
    return replace(check, inputs=(*tokens, *flags))


def _counts(node: Node) -> bool:
    """Whether a node computes one integer or flag from others, for which no change of engine is worth it."""
    return all(v.type.size == 1 and not v.type.dtype.is_float for v in (*node.inputs, *node.outputs) if v.type != TOKEN)


def _is_free(node: Node) -> bool:
    """Whether each segment gets a copy: constants, and tokens of windows, whose order that of the segments keeps."""
    is_token = any(v.type == TOKEN for v in node.outputs) and not node.primitive.calls_python
    return node.primitive.is_constant or is_token


def _read(nodes: Iterable[Node]) -> list[Value]:
    return [v for node in nodes for v in uses(node)]
