"""The partition pass: assigns nodes to engines and cuts the schedule into segments."""

from __future__ import annotations

from dataclasses import dataclass

from graphls.ir.engines import Prepares, find_engine
from graphls.ir.graph import Graph, Node, Value, inside, walk
from graphls.ir.plan import DEFAULT, is_plan
from graphls.passes.manager import register_pass
from graphls.passes.schedule.cut import Cut, is_too_large
from graphls.passes.schedule.plans import proven, verify_plan, verify_writes
from graphls.passes.simplify.dce import Dce
from graphls.passes.simplify.select import is_plain, new_states, selected


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

    `engine` runs the nodes that it takes, "onnxruntime" the others, and host calls run in Python. A small `cond`
    becomes selections where the engine takes its branches, but no `cond`. With `skips`, the largest `cond` whose
    branches write states stands alone: the host reads its flag and runs the segments of one branch. For a small update
    the host only commits the new states, which lie in second buffers, or keeps the old ones. A graph that is one
    segment of "onnxruntime" is not changed. States are written in place only where no later segment reads the old
    value, and after all calls of Python, which may fail.

    A segment ends where all operands of a collective are complete, so that independent nodes are computed while it
    communicates; small collectives, of less than `bucket` bytes, are grouped for that.
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
        # Dead nodes are removed first, as engines take no segment without results.
        engine = find_engine(self.engine)
        live = Dce().run(engine.prepared(graph) if isinstance(engine, Prepares) else graph)
        deferred: frozenset[Value] = frozenset()
        if self.selects(live):
            deferred = self.deferred(live)
            # A flag that chooses between equal values is dead now.
            live = Dce().run(selected(live, self.may_select, deferred))
        cut = Cut(live, self.engine, self.bucket, deferred, self.skips)
        branch = cut.branch(0 if cut.is_large else self.large) if self.skips else None
        if branch is None and set(cut.engine.values()) <= {DEFAULT} and not cut.is_large:
            return graph
        partitioned = cut.into_segments(branch)
        verify_plan(live, partitioned)
        return proven(partitioned)

    @property
    def large(self) -> int:
        """Bytes from which on states are large: fewer on another engine that writes in place.

        For oneDNN a second call costs less than second buffers: with states of 15 MB a step takes 2.0 ms, not 2.4.
        """
        is_in_place = self.engine != DEFAULT and find_engine(self.engine).writes_in_place
        return self.least // 8 if is_in_place else self.least

    def selects(self, graph: Graph) -> bool:
        """Whether the states of a graph are so small that both branches of its conditions run."""
        return self.engine != DEFAULT and sum(w.state.type.nbytes for w in graph.writes) < self.large

    def may_select(self, node: Node) -> bool:
        """Whether the engine takes all nodes in the branches of a condition, but not the condition."""
        takes = find_engine(self.engine).takes
        return not takes(node) and all(map(takes, inside(node)))

    def deferred(self, graph: Graph) -> frozenset[Value]:
        """The new states that the host commits by the flag of one condition, the one with most bytes of them."""
        nodes = [node for node in graph.nodes if not (node.primitive.is_constant or node.primitive.on_host)]
        flags = {v for node in nodes for v in node.outputs}
        conditions = (n for n in nodes if n.primitive.is_branch and is_plain(n) and n.inputs[0] in flags)
        candidates = (new_states(graph, node) for node in conditions if self.skips and self.may_select(node))
        return max(candidates, key=lambda values: sum(v.type.nbytes for v in values), default=frozenset())

    def may_cut(self, graph: Graph) -> bool:
        """Whether a cut of the graph is possible at all, a quick test that most graphs fail."""
        if self.engine != DEFAULT or any(node.primitive.calls_python for node in walk(graph)):
            return True
        written = sum(w.state.type.nbytes for w in graph.writes)
        skips = self.skips and written >= self.large and any(node.primitive.is_branch for node in graph.nodes)
        return skips or is_too_large(graph, self.skips)
