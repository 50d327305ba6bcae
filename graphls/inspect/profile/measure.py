"""Measures a compiled step, in sessions of their own on copies of its states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, SupportsIndex

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.sharing.storage import array_in
from graphls.frontend.trace.trace import fill_outputs
from graphls.inspect.diagnosis.report import is_loss_scale_tuple
from graphls.inspect.profile.memory import memory_of
from graphls.inspect.profile.profile import Profile
from graphls.inspect.summary.plan import StepPlan
from graphls.ir.engines import find_engine
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.plan import Plan, is_plan, plan_of
from graphls.passes.schedule.host_calls import without_effects
from graphls.runtime.engine import Profiles
from graphls.runtime.kernels import Run, from_zero
from graphls.runtime.numpy.reference import ReferenceSession, TimedReference
from graphls.runtime.session import Inputs, Session
from graphls.runtime.states import Copied, copies
from graphls.runtime.step import Step

WARM_UP = 2
"""Steps that run before the measured ones: they fill caches and, where states have two buffers, use both."""


@dataclass
class Measured:
    """Measurements of steps: the seconds of each, and with loss scaling whether it was skipped."""

    seconds: list[float] = field(default_factory=list)
    skipped: list[Any] = field(default_factory=list)
    runs: Sequence[Run] = ()


def measure(step: Step, arrays: Inputs, steps: SupportsIndex) -> Profile:
    """The profile of a step on these arrays; see Compiled.profile."""
    count = _count(steps)
    graph = without_effects(step.session_graph)
    session = step.open_session(graph, copies(step.parameters))
    plan: Plan = getattr(session, "plan", None) or plan_of(graph)
    plain = _timed(step, session, arrays, count)
    measured = _measured(step, graph, plan, arrays, count)
    if not measured.runs:
        raise GraphRuntimeError(
            "One step has more operators than the profile of ONNX Runtime holds; "
            "profile a smaller one, or one that is compiled with backend='numpy'."
        )
    recorded = len(measured.runs)
    return Profile(
        graph=graph,
        backend=_backend(step.session, plan),
        step_seconds=float(np.mean(measured.seconds[:recorded])),
        unprofiled_seconds=float(np.mean(plain.seconds)),
        requested=count,
        skipped=sum(bool(array_in(flag)) for flag in measured.skipped[:recorded]),
        runs=from_zero(measured.runs),
        memory=memory_of(graph, "numpy" if _is_interpreted(step) else step.session.device, plan),
        plan=StepPlan(plan),
    )


def _is_interpreted(step: Step) -> bool:
    return isinstance(step.session, ReferenceSession)


def _measured(step: Step, graph: Graph, plan: Plan, arrays: Inputs, count: int) -> Measured:
    """Measured steps, in the profiler of what runs them."""
    if _is_interpreted(step):
        return _interpreted(step, graph, arrays, count)
    if is_plan(plan.graph):
        return _in_segments(step, graph, plan, arrays, count)
    return _profiled(step, graph, arrays, count)


def _count(steps: SupportsIndex) -> int:
    try:
        count = 0 if isinstance(steps, (bool, np.bool_)) else index(steps)
    except TypeError:
        count = 0
    if count < 1:
        raise GraphValueError(f"A profile takes a number of steps from 1 on, not {steps!r}.")
    return count


def _timed(step: Step, session: Session, arrays: Inputs, count: int) -> Measured:
    """Run WARM_UP steps and those to measure, each timed from the call to the outputs."""
    flag = _skip_flag(step)
    measured = Measured()
    for iteration in range(WARM_UP + count):
        start = perf_counter()
        outputs = session.run(arrays)
        seconds = perf_counter() - start
        if iteration >= WARM_UP:
            measured.seconds.append(seconds)
            measured.skipped += [] if flag is None else [outputs[flag]]
    return measured


def _skip_flag(step: Step) -> int | None:
    """The index of the output that says whether a step was skipped; None for steps without loss scaling."""
    if not is_loss_scale_tuple(fill_outputs(step.outputs, [value.type for value in step.graph.outputs])):
        return None
    position = fill_outputs(step.outputs, list(range(len(step.graph.outputs))))[1]
    return position if isinstance(position, int) else None


def _profiled(step: Step, graph: Graph, arrays: Inputs, count: int) -> Measured:
    """Steps under the profiler of ONNX Runtime."""
    from graphls.runtime.onnxruntime.profiled import ProfiledSession  # which loads ONNX Runtime

    return _recorded(step, graph, ProfiledSession, lambda copy: copy.nodes, arrays, count)


def _recorded(
    step: Step, graph: Graph, open_session: Callable[[Graph, Mapping[str, Copied], str, Path], Any],
    origins: Callable[[PlainCopy], Mapping[Node, Node]], arrays: Inputs, count: int,
) -> Measured:  # fmt: skip
    """Steps in a session that writes profiles, of a copy with plain names; `origins` maps its nodes to originals."""
    copy = PlainCopy(graph)
    parameters = _renamed_states(step, graph, copy)
    with TemporaryDirectory(prefix="graphls-") as folder:
        session = open_session(copy.graph, parameters, step.session.device, Path(folder))
        try:
            measured = _timed(step, session, arrays, count)
        finally:
            profile = session.end_profile()
        nodes = origins(copy)
        measured.runs = [_renamed(run, nodes) for run in list(session.runs(profile))[WARM_UP:]]
    return measured


def _renamed(run: Run, nodes: Mapping[Node, Node]) -> Run:
    return replace(run, kernels=tuple(replace(k, node=k.node and nodes.get(k.node)) for k in run.kernels))


def _interpreted(step: Step, graph: Graph, arrays: Inputs, count: int) -> Measured:
    """Steps in the reference interpreter, timed node by node."""
    session = TimedReference(graph, copies(step.parameters))
    measured = _timed(step, session, arrays, count)
    measured.runs = session.times.runs[WARM_UP:]
    return measured


def _in_segments(step: Step, graph: Graph, plan: Plan, arrays: Inputs, count: int) -> Measured:
    """Steps of the plan that the step runs, each segment of it in the profiler of its engine."""
    from graphls.runtime.profiled_plan import ProfiledPlan  # which loads ONNX Runtime

    return _recorded(step, plan.graph, ProfiledPlan, lambda copy: _origins(graph, copy), arrays, count)


def _renamed_states(step: Step, graph: Graph, copy: PlainCopy) -> dict[str, Copied]:
    """Copies of the states of a step by their names in a copy of its graph."""
    parameters = copies(step.parameters)
    return {copy.values[v].name: parameters[v.name] for v in graph.states}


def _origins(graph: Graph, copy: PlainCopy) -> dict[Node, Node]:
    """The nodes of a graph by those of a copy of its plan.

    Segments have copies of constants, which share the attributes, and of products, which share the user's line.
    """
    makers = {value: node for node in walk(graph) for value in node.outputs}
    owners = {_owner(node): node for node in reversed([*walk(graph)])}
    pairs = ((n, makers.get(o.outputs[0]) if o.outputs else None, _owner(o)) for n, o in copy.nodes.items())
    matches = ((n, node or owners.get(owner)) for n, node, owner in pairs)
    return {n: node for n, node in matches if node is not None}


def _owner(node: Node) -> object:
    """What a node shares with its copies."""
    if node.primitive.is_constant:
        return id(node.attrs)
    types = tuple(v.type for v in (*node.inputs, *node.outputs))
    return node.primitive.name, node.phase, node.scope, id(node.loc), types


def _backend(session: Any, plan: Plan) -> str:
    """The engines that ran, with their versions, in words."""
    names = ["numpy"] if isinstance(session, ReferenceSession) else dict.fromkeys(s.engine for s in plan.segments)
    engines = map(find_engine, names)
    return " and ".join(e.title(session.device) if isinstance(e, Profiles) else e.name for e in engines)


class PlainCopy:
    """A copy of a graph without cell paths, whose values are named by numbers.

    `values` maps each value to its copy, `nodes` each node of the copy to the original one.
    """

    def __init__(self, graph: Graph) -> None:
        self.values: dict[Value, Value] = {}
        self.graph = self._graph(graph)
        self.nodes: dict[Node, Node] = dict(zip(walk(self.graph), walk(graph), strict=True))

    def _graph(self, graph: Graph) -> Graph:
        return Graph(
            "graph",
            self._defined(graph.inputs),
            self._defined(graph.states),
            tuple(map(self._node, graph.nodes)),
            tuple(replace(w, state=self.values[w.state], value=self.values[w.value]) for w in graph.writes),
            self._used(graph.outputs),
            graph.mesh,
        )

    def _node(self, node: Node) -> Node:
        regions = tuple(map(self._graph, node.regions))
        inputs, after = self._used(node.inputs), self._used(node.after)
        outputs = self._defined(node.outputs)
        return replace(node, inputs=inputs, outputs=outputs, after=after, regions=regions, scope="")

    def _defined(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        for value in values:
            self.values[value] = Value(f"v{len(self.values)}", value.type, value.is_state, value.sharding)
        return self._used(values)

    def _used(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.values[value] for value in values)
