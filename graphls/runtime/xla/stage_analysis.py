"""What a step needs on each device: of the stages of a pipeline, their schedule says what lies beside each task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.ir.graph import Graph, Node, Value, definers
from graphls.ir.indices import host_indices
from graphls.ir.plan import Plan, Segment, flattened, plan_of
from graphls.ir.sharding import STAGE, Mesh, local_type
from graphls.runtime.xla.analysis import Analysis, Live, Simulated, TaskCost, analysed_segments, analysis_of
from graphls.runtime.xla.collectives import SEND, Collective
from graphls.runtime.xla.crossing import crossing_ends, spent_values
from graphls.runtime.xla.library import load_jax
from graphls.runtime.xla.placement import Placement


def analysed(graph: Graph) -> Analysis:
    """The analysis of a graph on its mesh, in segments or not; raises GraphValueError where it has no mesh."""
    if graph.mesh is None:
        raise GraphValueError("The step has no mesh; say --mesh data=64,model=8, or compile it for one.")
    is_staged = any(segment.stage is not None for segment in plan_of(graph).segments)
    return analysed_stages(graph, graph.mesh) if is_staged else analysed_segments(graph, graph.mesh)


def analysed_stages(graph: Graph, mesh: Mesh) -> Analysis:
    """The analysis of the stage of a pipeline that needs most memory, with the costs of the tasks of all."""
    plan = plan_of(graph)
    schedule = _Schedule(plan, mesh)
    for segment in plan.segments:
        schedule.run(segment)
    stages = schedule.stages
    number = max(stages, key=lambda stage: stages[stage].memory)
    own, flat = stages[number], flattened(graph)
    costs = [cost for cost in schedule.costs if cost.stage == number]
    return Analysis(
        flat.replace(states=tuple(own.states)),
        mesh,
        own.arguments,
        0,
        own.peak,
        tuple(own.live),
        sum(cost.flops for cost in costs),
        tuple(each for cost in costs for each in cost.collectives),
        tuple(schedule.tested),
        (),
        number,
        tuple(schedule.costs),
    )


@dataclass
class _Stage:
    """The memory of one stage: its states and inputs, what crosses and lies there now, and most of all beside these."""

    states: dict[Value, int] = field(default_factory=dict)
    inputs: dict[Value, int] = field(default_factory=dict)
    held: dict[Value, int] = field(default_factory=dict)
    peak: int = 0
    live: list[Live] = field(default_factory=list)

    @property
    def arguments(self) -> int:
        return sum(self.states.values()) + sum(self.inputs.values())

    @property
    def memory(self) -> int:
        return self.arguments + self.peak


class _Schedule:
    """The tasks of a plan one after the other, and what is live on the devices of each stage meanwhile."""

    def __init__(self, plan: Plan, mesh: Mesh) -> None:
        self.plan, self.mesh, self.jax = plan, mesh, load_jax()
        self.last = plan.crossing_stages
        self.stages: dict[int, _Stage] = {}
        self.places: dict[Value, Any] = {}
        self.makers: dict[Value, int] = {}
        self.homes: dict[Value, int] = {}
        self.nodes: dict[Value, Node] = {}
        self.programs: dict[Any, Any] = {}
        self.analyses: dict[Any, Analysis] = {}
        self.costs: list[TaskCost] = []
        self.tested: dict[Any, None] = {}

    def run(self, segment: Segment) -> None:
        """Analyse a task, and let its results take the place of what nothing reads any more."""
        stage, graph = segment.stage or 0, segment.graph
        own = self.stages.setdefault(stage, _Stage())
        analysis = self.analysis(segment, stage)
        sent = list(self.received(graph.inputs, stage, own))
        own.states.update((v, local_type(v.type, v.sharding, self.mesh).nbytes) for v in graph.states)
        outside = (v for v in graph.inputs if v not in self.last)
        own.inputs.update((v, local_type(v.type, v.sharding, self.mesh).nbytes) for v in outside)
        peak = sum(own.held.values()) + analysis.temporaries + analysis.results
        if peak > own.peak:
            held = (Live(count, str(v.type), self.nodes.get(v)) for v, count in own.held.items())
            own.peak, own.live = peak, [*analysis.live, *held]
        before = tuple(sorted({self.makers[v] for v in graph.inputs if v in self.makers}))
        self.costs.append(TaskCost(stage, analysis.flops, (*analysis.collectives, *sent), before))
        self.tested.update(dict.fromkeys(analysis.tested))
        definer = definers(graph.nodes)
        for inner, value in zip(graph.outputs, segment.gives, strict=True):
            if value in self.last:
                self.nodes[value] = definer[inner]
                self.makers[value], self.homes[value] = len(self.costs) - 1, stage
                own.held[value] = self.size(value)
        for value in spent_values(segment, self.plan):
            for each in self.stages.values():
                each.held.pop(value, None)

    def received(self, values: Iterable[Value], stage: int, own: _Stage) -> Iterable[Collective]:
        """What comes from other stages and is not here yet."""
        for value in values:
            if self.homes.get(value, stage) != stage and value not in own.held:
                own.held[value] = self.size(value)
                yield Collective(SEND, (STAGE,), 2, own.held[value], 1, None)

    def size(self, value: Value) -> int:
        """The bytes of a crossing value on each device of a stage."""
        shape = self.places[value].shard_shape(value.type.shape)
        return int(prod(shape)) * value.type.dtype.numpy.itemsize

    def analysis(self, segment: Segment, stage: int) -> Analysis:
        """The analysis of a task; tasks that are equal but for names and stage have one."""
        graph, placement = segment.graph, Placement(segment.graph, "cpu", stage)
        pairs = zip(graph.outputs, segment.gives, strict=True)
        crossing = crossing_ends(segment, self.plan, placement, self.places)
        spent = spent_values(segment, self.plan)
        own_inputs = (v for v in graph.inputs if v not in self.last)
        tested = host_indices(graph, own_inputs)[1]
        program = Simulated(self.jax, graph, placement, (), tested, crossing, spent, self.programs)
        self.places.update((value, program.result_places[own]) for own, value in pairs if value in self.last)
        if program.source not in self.analyses:
            self.analyses[program.source] = analysis_of(program.source, self.mesh.of_stage)
        return replace(self.analyses[program.source], tested=tuple(program.checks))
