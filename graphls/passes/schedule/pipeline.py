"""The pipeline pass: cuts a step into the tasks of the stages of a pipeline, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import Any

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.ir.graph import Graph, Node, Value, Write, definers, walk, with_edges
from graphls.ir.plan import is_plan
from graphls.ir.sharding import STAGE
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter, users
from graphls.passes.schedule.placing import Placing
from graphls.passes.schedule.plans import proven, verify_plan
from graphls.passes.schedule.segments import Segments, read
from graphls.passes.schedule.tasks import UPDATE, Task, in_turns, tasks_of, with_parts
from graphls.passes.simplify.dce import Dce
from graphls.passes.simplify.select import selected


@register_pass
@dataclass(frozen=True)
class Pipelined:
    """Cut a step into the tasks of the stages of a pipeline, each a segment, and order them: one forward, one backward.

    Before, with two parts of a batch (`micro`):

        graph @step mesh(stage=2) (%x: f32[2]) {
          state @v: f32[]
          state @w: f32[]
          %a = mul(%x, @v) : f32[2]  // forward stage 0 micro 0
          %b = mul(%a, @w) : f32[2]  // forward stage 1 micro 0
          %c = sum(%b) {axis=none, keepdims=false} : f32[]  // update
          @w <- %c
          return %b
        }

    After:

        graph @step mesh(stage=2) (%x: f32[2]) {
          state @v: f32[]
          state @w: f32[]
          %a_1 = segment() {engine="xla", stage=0} : f32[2] region {
            %a = mul(%x, @v) : f32[2]  // forward stage 0 micro 0
            yield %a
          }  // forward stage 0 micro 0
          %b_1 = segment() {engine="xla", stage=1} : f32[2] region {
            %b = mul(%a_1, @w) : f32[2]  // forward stage 1 micro 0
            yield %b
          }  // forward stage 1 micro 0
          %c_1 = segment() {engine="xla", stage=1} : f32[] region {
            %c = sum(%b_1) {axis=none, keepdims=false} : f32[]  // update stage 1
            yield %c
          }  // update stage 1
          @w <- %c_1 in place
          return %b_1
        }

    A task is the forward or the backward of one stage for one part of the batch, or what a stage computes before,
    between and after these; the last task of a stage writes its states, and nothing reads its results. A stage runs as
    many forwards ahead as there are stages behind it, then one backward and one forward in turns (1F1B; Narayanan et
    al., 2019), so that it keeps the values of so many parts at most. Gradients of the parts are summed in the order in
    which they come, which is that of the parts.

    What has no stage runs where its largest operand is. A state is on the stage whose forward reads it first, or that
    computes its new value; other stages read a copy (tied weights). Each stage checks its own values for overflow, and
    one flag of all of them decides for all stages.

    Raises GraphRuntimeError, with the line, for a step that calls Python, GraphValueError for a value that the mesh
    axis `stage` would divide, and for parts that wait for each other in turns.
    """

    engine: str = "xla"
    name = "pipeline"
    proves_writes = True

    def run(self, graph: Graph) -> Graph:
        """The graph of segments, with its writes marked; itself where its mesh has one stage."""
        if graph.mesh is None or graph.mesh.stages == 1 or is_plan(graph):
            return graph
        _check(graph)
        flat = selected(graph, lambda node: node.stage is None)
        # Nothing that a program of XLA computes has effects: control edges order what data orders anyway.
        flat = Dce().run(flat.replace(nodes=tuple(with_edges(node, _never) for node in flat.nodes)))
        placing = Placing(Dce().run(_Sums(with_parts(flat)).run()))
        tasks = in_turns(tasks_of(placing.graph), graph.mesh.stages)
        plan = _Tasks(placing, self.engine).plan(tasks)
        verify_plan(placing.graph, plan)
        return proven(plan)


def _never(value: Value) -> bool:
    return False


def _check(graph: Graph) -> None:
    for node in walk(graph):
        if node.primitive.calls_python:
            text = f"The stages of a pipeline run without Python, and the step calls it ({node.primitive.name})"
            raise GraphRuntimeError(f"{text}; take that out, or use a mesh without the axis {STAGE!r}.", node.loc)
    values = (*graph.inputs, *graph.states, *(v for node in walk(graph) for v in node.outputs))
    for value in values:
        if value.sharding is not None and STAGE in value.sharding.names:
            text = f"The mesh axis {STAGE!r} has the stages of a pipeline and divides no values, and {value.name!r} is"
            raise GraphValueError(f"{text} divided by it; divide it by another axis.")


class _Sums(Rewriter):
    """Sums of the gradients of several parts, in the order of the parts.

    The backward pass adds the gradient of the last part first. Here the first part comes first, so that a stage has one
    sum in memory, and not the gradients of all parts.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.readers = users(graph.nodes)
        self.ends = {*graph.outputs, *(w.value for w in graph.writes)}
        self.origin = definers(graph.nodes)
        self.links = {node for node in graph.nodes if self.is_link(node)}

    def is_link(self, node: Node) -> bool:
        return node.primitive.name == "add" and node.phase == "backward" and node.micro is None

    def visit(self, node: Node) -> Node | Sequence[Value]:
        # An inner link stays, and is dead when the sum that it is a link of is there.
        return self.summed(node) if node in self.links and not self.is_inner(node) else node

    def is_inner(self, node: Node) -> bool:
        readers = self.readers.get(node.output, [])
        return len(readers) == 1 and readers[0] in self.links and node.output not in self.ends

    def leaves(self, node: Node) -> Iterable[Value]:
        for value in node.inputs:
            inner = self.origin.get(value)
            if inner in self.links and self.is_inner(inner) and value.type == node.output.type:
                yield from self.leaves(inner)
            else:
                yield value

    def summed(self, node: Node) -> Node | Sequence[Value]:
        """A sum of gradients, those of one stage first, in the order of the parts."""
        leaves = list(self.leaves(node))
        makers = [self.origin[value] for value in leaves if value in self.origin]
        if len(makers) < len(leaves) or any(maker.stage is None or maker.micro is None for maker in makers):
            return node
        pairs = sorted(zip(leaves, makers, strict=True), key=_turn)
        stages = [list(several) for _, several in groupby(pairs, key=lambda pair: pair[1].stage)]
        sharding = self.required(node.output)
        return [reduce(self.e.add, (self.in_turn(several, sharding) for several in stages))]

    def required(self, value: Value) -> Mapping[str, Any] | None:
        """The attributes of the `shard` that divides a sum, or its cast, if one does."""
        readers = self.readers.get(value, [])
        if len(readers) != 1 or value in self.ends:
            return None
        (reader,) = readers
        if reader.primitive.result_sharding(reader.attrs) is not None:
            return reader.attrs
        return self.required(reader.output) if reader.primitive.name == "cast" else None

    def in_turn(self, pairs: Sequence[tuple[Value, Node]], sharding: Mapping[str, Any] | None) -> Value:
        """The sum of the gradients of one stage, each divided and added in the task of its part."""
        total: Value | None = None
        for value, maker in pairs:
            with self.e.at(maker, "backward") as e:
                own = value if sharding is None else e.shard(value, **sharding)
                total = own if total is None else e.add(total, own)
        assert total is not None
        return total


def _turn(pair: tuple[Value, Node]) -> tuple[int, int]:
    return pair[1].stage or 0, pair[1].micro or 0


class _Tasks(Segments):
    """The segments of a graph whose nodes all have stages."""

    def __init__(self, placing: Placing, engine: str) -> None:
        super().__init__(placing.graph)
        self.homes, self.engine = placing.homes, engine

    def plan(self, tasks: Sequence[Task]) -> Graph:
        """The graph of segments."""
        task_of = {v: task for task in tasks for node in task.nodes for v in node.outputs}
        updates = {task.stage: task for task in tasks if task.kind == UPDATE}
        required = {*self.graph.outputs, *(w.value for w in self.graph.writes)}
        required.update(v for task in tasks for v in read(task.nodes) if task_of.get(v, task) is not task)
        passed: dict[int, dict[Value, None]] = {}
        for write in self.graph.writes:
            home = self.homes[write.state]
            if write.value not in task_of or task_of[write.value] is not updates.get(home):
                passed.setdefault(home, {})[write.value] = None
        for value in self.graph.outputs:
            if value not in task_of:
                passed.setdefault(self.homes.get(value, 0), {})[value] = None
        missing = [Task(stage, UPDATE, None, ()) for stage in passed if stage not in updates]
        nodes = [*self.host_random]
        for task in (*tasks, *missing):
            more = passed.get(task.stage, ()) if task.kind == UPDATE else ()
            node = self.segment(self.engine, task.nodes, required, more, stage=task.stage)
            nodes.append(replace(node, stage=task.stage, micro=task.micro))
        writes = tuple(Write(w.state, self.outside(w.value)) for w in self.graph.writes)
        outputs = tuple(self.boundary_values.get(v, self.outside(v)) for v in self.graph.outputs)
        return self.graph.replace(nodes=tuple(nodes), writes=writes, outputs=outputs)
