"""The partition pass: which engine runs each node, and where the schedule is cut into segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from graphls.ir.build import Names, copy_nodes, substitute
from graphls.ir.engines import find_engine
from graphls.ir.graph import Graph, Node, Value, Write, definers, filtered, inside, needs, uses, walk, with_edges
from graphls.ir.plan import DEFAULT, is_plan
from graphls.ir.reach import descendants
from graphls.ir.registry import lookup
from graphls.ir.types import TOKEN
from graphls.passes.checks import in_parts
from graphls.passes.dce import Dce
from graphls.passes.manager import register_pass
from graphls.passes.plans import proven, verify_plan, verify_writes
from graphls.passes.select import selected
from graphls.passes.waves import Behind, in_waves

MOST_LOOKS = 5_000_000
"""Nodes times results up to which a graph is one segment: a runtime looks for each operator's results among those."""

MOST_NODES = 500
"""How many nodes a segment has of a graph beyond that."""

HOST = "host"
"""The engine of the nodes that call Python."""

RANKS = "ranks"
"""The engine of what ranks do together at the end of a step."""


@register_pass
@dataclass(frozen=True)
class Partition:
    """Cut a step into segments, each for the engine that runs it.

    Before:

        %g = matmul(%x, %y) : f32[4,4]  // backward
        %bad = overflow_get(%status, %g) : bool[]  // check
        %w = cond(%bad) : f32[4,4] region {
          yield @w
        } region {
          %d = sub(@w, %g) : f32[4,4]  // update
          yield %d
        }  // update
        @w <- %w

    After, where the states are large (`least`, in bytes: below, a second call takes longer than it saves):

        %g_1, %bad_1 = segment() {engine="onnxruntime"} : f32[4,4], bool[] region {
          %g = matmul(%x, %y) : f32[4,4]  // backward
          %bad = overflow_get(%status, %g) : bool[]  // check
          yield %g, %bad
        }  // backward
        %w = cond(%bad_1) : f32[4,4] region {
          yield @w
        } region {
          %d_1 = segment() {engine="onnxruntime"} : f32[4,4] region {
            %d = sub(@w, %g_1) : f32[4,4]  // update
            yield %d
          }  // update
          yield %d_1
        }  // update
        @w <- %w in place

    `engine` runs what it takes, "onnxruntime" the rest, and calls of the host run in Python. Large updates are left to
    "onnxruntime" by an engine that does not write in place, as each of their states would have two buffers; small ones
    are selected where it takes both branches of a `cond`, but no `cond`. With `skips`, the largest `cond` whose
    branches write states stands alone: the host reads its flag, and runs what the branch does. A graph that is one
    segment of "onnxruntime" stays as it is. States are written in place only where no segment reads the old value any
    more, and behind all calls of Python, which may fail.

    A segment ends where a collective has all that it needs, so that what it does not need is computed while it
    communicates; small collectives, of less than `bucket` bytes, are put together for that.
    """

    engine: str = DEFAULT
    skips: bool = True
    least: int = 1 << 25
    bucket: int = 1 << 20

    name = "partition"
    proves_writes = True

    def run(self, graph: Graph) -> Graph:
        """The graph of segments, with its writes marked."""
        if is_plan(graph):
            verify_writes(graph)
            return graph
        if not self.may_cut(graph):
            return graph
        # Dead nodes go first: an engine takes no segment whose results nobody needs.
        live = Dce().run(graph)
        cut = _Cut(self.without_small_branches(live), self.engine, self.least, self.bucket)
        branch = cut.branch(0 if cut.is_large else self.least) if self.skips else None
        if branch is None and set(cut.engine.values()) <= {DEFAULT} and not cut.is_large:
            return graph
        made = cut.into_segments(branch)
        verify_plan(graph, made)
        return proven(made)

    def without_small_branches(self, graph: Graph) -> Graph:
        """The graph that selects between small updates, where its engine takes both branches but no condition."""
        takes = find_engine(self.engine).takes
        written = sum(w.state.type.nbytes for w in graph.writes)
        if self.engine == DEFAULT or written >= self.least:
            return graph
        return selected(graph, lambda node: not takes(node) and all(map(takes, inside(node))))

    def may_cut(self, graph: Graph) -> bool:
        """Whether a graph has what a cut is made for; most have not, and are not looked at any closer."""
        if self.engine != DEFAULT or any(node.primitive.calls_python for node in walk(graph)):
            return True
        written = sum(w.state.type.nbytes for w in graph.writes)
        skips = self.skips and written >= self.least and any(node.primitive.is_branch for node in graph.nodes)
        return skips or _looks(graph) > MOST_LOOKS


Group = tuple[int, str]
"""Where a node runs: how many changes of engine are before it, and its engine."""

Piece = tuple[int, str, int]
"""A part of a group, by its number."""


class _Cut:
    """The nodes of a graph with their engines; constants and tokens are copied to where they are used."""

    def __init__(self, graph: Graph, engine: str, least: int, bucket: int) -> None:
        # A stack does not leave its segment, so that a graph with loops that have some is for one engine.
        has_stacks = any(v.type.stacked for node in graph.nodes for v in node.outputs)
        self.is_large = not has_stacks and _looks(graph) > MOST_LOOKS
        self.graph = graph = in_parts(graph) if self.is_large else graph
        self.bucket = bucket
        self.names = Names.of(graph)
        self.drawn = [node for node in walk(graph) if node.primitive.on_host]
        self.nodes = filtered(graph.nodes, lambda node: not node.primitive.on_host)
        self.preferred = DEFAULT if has_stacks else engine
        found = find_engine(self.preferred)
        self.takes = found.takes
        is_much = sum(write.state.type.nbytes for write in graph.writes) >= least
        self.updates_apart = is_much and not (found.writes_in_place or found.runs_python)
        self.free = {v: node for node in self.nodes if _is_free(node) for v in node.outputs}
        self.engine = {node: self.chosen(node) for node in self.nodes if not _is_free(node)}
        if DEFAULT in self.engine.values():
            self.engine.update((node, DEFAULT) for node in self.engine if self.takes(node) and _counts(node))
        self.crossing: dict[Value, Value] = {}
        self.passed: dict[Value, Value] = {}

    def chosen(self, node: Node) -> str:
        """The engine that runs a node."""
        if any(n.primitive.calls_python for n in chain((node,), inside(node))):
            return RANKS if find_engine(RANKS).takes(node) else HOST
        if self.updates_apart and node.phase == "update":
            return DEFAULT
        return self.preferred if self.takes(node) else DEFAULT

    def branch(self, least: int) -> Node | None:
        """The condition whose branches write most bytes of states, if these are enough and a segment makes its flag."""
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
        crossing = _read([node, *behind])
        return any(node.inputs[0] in n.outputs for n in self.engine) and not any(v.type.stacked for v in crossing)

    def into_segments(self, branch: Node | None) -> Graph:
        """The graph of segments; where there is a branch, it is alone, and what needs it comes behind."""
        behind = descendants(self.nodes, (branch,)) if branch else frozenset()
        others = [node for node in self.engine if node is not branch]
        early = [node for node in others if node not in behind]
        late = [node for node in others if node in behind]
        leaving = (*self.graph.outputs, *(w.value for w in self.graph.writes))
        made = [*self.drawn]
        made += self.segments(early, {*leaving, *_read(late), *_read([branch] if branch else [])}, leaving)
        if branch:
            made.append(self.opened(branch))
        made += self.segments(late, leaving)
        writes = tuple(Write(w.state, self.outside(w.value)) for w in self.graph.writes)
        outputs = tuple(map(self.outside, self.graph.outputs))
        return self.graph.replace(nodes=tuple(made), writes=writes, outputs=outputs)

    def outside(self, value: Value) -> Value:
        """What a value is called where it leaves the step."""
        return self.passed.get(value, self.crossing.get(value, value))

    def opened(self, branch: Node) -> Node:
        """The condition with segments in its branches, which stands alone in the plan."""
        outer = self.crossing, self.passed
        regions = []
        for region in branch.regions:
            self.crossing, self.passed = dict(outer[0]), {}
            self.engine.update((node, self.chosen(node)) for node in region.nodes if not _is_free(node))
            self.free.update((v, node) for node in region.nodes if _is_free(node) for v in node.outputs)
            constants = [v for v in region.outputs if v in self.free]
            nodes = self.segments([n for n in region.nodes if not _is_free(n)], region.outputs, constants)
            regions.append(region.replace(nodes=tuple(nodes), outputs=tuple(map(self.outside, region.outputs))))
        self.crossing, self.passed = outer
        inputs = tuple(self.crossing.get(v, v) for v in branch.inputs)
        return replace(branch, inputs=inputs, after=(), regions=tuple(regions))

    def segments(self, nodes: Sequence[Node], leaving: Iterable[Value], passed: Iterable[Value] = ()) -> list[Node]:
        """The segments of some nodes, in the order in which they run.

        Of what is `passed` on, those that no node makes (an input, the old value of a state, a constant) are given by
        a segment, too.
        """
        ordered, behind = in_waves(nodes, self.bucket)
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
        inner = self.crossing | copies
        # The order of segments stands for control edges that lead out of one.
        own = {v for node in nodes for n in chain(inside(node), (node,)) for v in n.outputs}
        held = [with_edges(n, own.__contains__) for n in (*constants, *(substitute(node, inner) for node in nodes))]
        yields = (*results, *(inner.get(v, v) for v in loose))
        region = Graph("segment", (), (), tuple(held), (), yields)
        outputs = tuple(Value(self.names.fresh(v.name), v.type) for v in (*results, *loose))
        self.crossing.update(zip(results, outputs, strict=False))
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


def grouped(nodes: Sequence[Node], engine: Mapping[Node, str], behind: Behind) -> dict[Node, Group]:
    """Where each node of a block runs: as few groups as the changes of engine along any path ask for.

    No node of a group waits for one of a later group, or comes behind it. What could as well run in a later group of
    its engine moves there where an early group would otherwise be all of such.
    """
    definer = definers(nodes)
    before = {node: [definer[v] for v in (*needs(node), *behind.get(node, ())) if v in definer] for node in nodes}
    level: dict[Node, int] = {}
    for node in nodes:
        level[node] = max((level[e] + (engine[e] != engine[node]) for e in before[node]), default=0)
    _sink(nodes, engine, before, level)
    _delay(nodes, engine, before, level)
    return {node: (level[node], engine[node]) for node in nodes}


def in_pieces(nodes: Sequence[Node], where: Mapping[Node, Group], most: int) -> dict[Node, Piece]:
    """Where each node runs, where a group has pieces of no more than `most` nodes, in the order of the schedule."""
    counts: Counter[Group] = Counter()
    found: dict[Node, Piece] = {}
    for node in nodes:
        found[node] = (*where[node], counts[where[node]] // max(most, 1))
        counts[where[node]] += 1
    return found


def _looks(graph: Graph) -> int:
    """How many nodes a graph has, times how many results."""
    return sum(1 for _ in walk(graph)) * (len(graph.outputs) + len(graph.writes))


def _sink(
    nodes: Sequence[Node], engine: Mapping[Node, str], before: Mapping[Node, Sequence[Node]], level: dict[Node, int]
) -> None:
    """Empty the groups whose nodes can all run in the next group of their engine."""
    followers: dict[Node, list[Node]] = {}
    for node in nodes:
        for earlier in before[node]:
            followers.setdefault(earlier, []).append(node)
    groups: dict[Group, list[Node]] = {}
    for node in nodes:
        groups.setdefault((level[node], engine[node]), []).append(node)
    for key in sorted(groups, reverse=True):
        later = sorted(k for k in groups if k[1] == key[1] and k > key)
        if not later:
            continue
        target = later[0][0]
        own = set(groups[key])
        behind = [f for n in groups[key] for f in followers.get(n, ()) if f not in own]
        if all(level[f] + (engine[f] == key[1]) > target for f in behind):
            level.update(dict.fromkeys(own, target))
            groups[later[0]] += groups.pop(key)


def _delay(
    nodes: Sequence[Node], engine: Mapping[Node, str], before: Mapping[Node, Sequence[Node]], level: dict[Node, int]
) -> None:
    """Let what an update makes of states alone run where it is used, so that it does not cross to there."""
    of_states: set[Node] = set()
    for node in nodes:
        if node.phase == "update" and of_states.issuperset(before[node]):
            of_states.add(node)
    places: dict[str, set[int]] = {}
    for node in nodes:
        places.setdefault(engine[node], set()).add(level[node])
    latest: dict[Node, int] = {}
    for node in reversed(nodes):
        if node in of_states:
            bound = max(latest.get(node, max(places[engine[node]])), level[node])
            level[node] = max(at for at in places[engine[node]] if at <= bound)
        for earlier in before[node]:
            bound = level[node] - (engine[node] != engine[earlier])
            latest[earlier] = min(bound, latest.get(earlier, bound))


def _counts(node: Node) -> bool:
    """Whether a node makes one integer or flag of others, for which no change of engine is worth it."""
    return all(v.type.size == 1 and not v.type.dtype.is_float for v in (*node.inputs, *node.outputs) if v.type != TOKEN)


def _is_free(node: Node) -> bool:
    """Whether each segment has its own: constants, and tokens of windows, which the order of segments stands for."""
    is_token = any(v.type == TOKEN for v in node.outputs) and not node.primitive.calls_python
    return node.primitive.is_constant or is_token


def _read(nodes: Iterable[Node]) -> list[Value]:
    return [v for node in nodes for v in uses(node)]
