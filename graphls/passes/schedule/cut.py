"""Assigns an engine to each node, splits large overflow checks, and cuts the graph into a graph of segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from itertools import chain, islice

from graphls.ir.build import Names
from graphls.ir.engines import Interprets, find_engine
from graphls.ir.graph import Graph, Node, Value, Write, blocks, inside, needs, uses, walk
from graphls.ir.plan import DEFAULT
from graphls.ir.reachability import descendants
from graphls.ir.types import TOKEN
from graphls.passes.distributed.communication_overlap import overlap_communication
from graphls.passes.schedule.groups import Piece, grouped, in_pieces
from graphls.passes.schedule.list_schedule import list_schedule
from graphls.passes.schedule.segments import Segments, is_free, read

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


class Cut(Segments):
    """The nodes of a graph with their engines.

    A condition whose results are `deferred` runs on no engine: the host commits the new states or keeps the old ones.
    """

    def __init__(
        self, graph: Graph, engine: str, bucket: int, deferred: Set[Value] = frozenset(), on_host: bool = True,
    ) -> None:  # fmt: skip
        # A stack does not leave its segment, so that a graph with stacks is for one engine.
        has_stacks = any(v.type.stacked for node in graph.nodes for v in node.outputs)
        self.is_large = not (has_stacks or find_engine(engine).runs_whole) and is_too_large(graph, on_host)
        super().__init__(split_checks(graph) if self.is_large else graph)
        self.bucket = bucket
        self.preferred = DEFAULT if has_stacks else engine
        self.deferred = deferred
        preferred_engine = find_engine(self.preferred)
        self.takes = preferred_engine.takes
        self.engine = {node: self.chosen(node) for node in self.nodes if not is_free(node)}
        if DEFAULT in self.engine.values() and not isinstance(preferred_engine, Interprets):
            self.engine.update((node, DEFAULT) for node in self.engine if self.takes(node) and _counts(node))

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
        values = read([node, *later])
        return any(node.inputs[0] in n.outputs for n in self.engine) and not any(v.type.stacked for v in values)

    def into_segments(self, branch: Node | None) -> Graph:
        """The graph of segments; a branch stands alone, and its descendants come after."""
        later = descendants(self.nodes, (branch,)) if branch else frozenset()
        others = [node for node in self.engine if node is not branch]
        before_branch = [node for node in others if node not in later]
        after_branch = [node for node in others if node in later]
        leaving = (*self.graph.outputs, *(w.value for w in self.graph.writes))
        nodes = [*self.host_random]
        read_later = read([*after_branch, *((branch,) if branch else ())])
        nodes += self.segments(before_branch, {*leaving, *read_later}, leaving)
        if branch:
            nodes.append(self.expanded_branch(branch))
        nodes += self.segments(after_branch, leaving)
        writes = tuple(Write(w.state, self.outside(w.value)) for w in self.graph.writes)
        outputs = tuple(map(self.outside, self.graph.outputs))
        return self.graph.replace(nodes=tuple(nodes), writes=writes, outputs=outputs)

    def expanded_branch(self, branch: Node) -> Node:
        """The condition with segments in its branches, which stands alone in the plan."""
        outer = self.boundary_values, self.passed
        regions = []
        for region in branch.regions:
            self.boundary_values, self.passed = dict(outer[0]), {}
            self.engine.update((node, self.chosen(node)) for node in region.nodes if not is_free(node))
            self.free.update((v, node) for node in region.nodes if is_free(node) for v in node.outputs)
            constants = [v for v in region.outputs if v in self.free]
            nodes = self.segments([n for n in region.nodes if not is_free(n)], region.outputs, constants)
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
    values = iter(sorted((v for v in check.inputs if v.type != TOKEN), key=lambda v: position.get(v, -1)))
    several, joined = split_check(check, iter(lambda: tuple(islice(values, MOST_CHECKED)), ()), names)
    for part in several:
        parts.setdefault(max(position.get(v, -1) for v in part.inputs), []).append(part)
    return joined


def split_check(check: Node, groups: Iterable[tuple[Value, ...]], names: Names) -> tuple[list[Node], Node]:
    """A check of each group of its values, and the check of the flags of these."""
    tokens = tuple(v for v in check.inputs if v.type == TOKEN)
    parts = []
    for values in groups:
        flag = Value(names.fresh(check.output.name), check.output.type)
        parts.append(replace(check, inputs=(*tokens, *values), outputs=(flag,), after=()))
    return parts, replace(check, inputs=(*tokens, *(part.output for part in parts)))


def _counts(node: Node) -> bool:
    """Whether a node computes one integer or flag from others, for which no change of engine is worth it."""
    return all(v.type.size == 1 and not v.type.dtype.is_float for v in (*node.inputs, *node.outputs) if v.type != TOKEN)
