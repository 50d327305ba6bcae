"""Measuring a compiled step: sessions of their own, on a copy of its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Protocol, SupportsIndex

import numpy as np

from graphls.backends.kernels import Run, from_zero
from graphls.backends.numpy.reference import ReferenceSession
from graphls.backends.onnxruntime.runtime import load_runtime
from graphls.backends.session import Inputs, Session
from graphls.backends.states import Copied, copied
from graphls.diagnosis.report import is_loss_scale_tuple
from graphls.ir.errors import GraphRuntimeError, GraphValueError
from graphls.ir.graph import Graph, Node
from graphls.passes.host_calls import without_effects
from graphls.profile.calls import TimedCalls
from graphls.profile.interpreted import InterpretedSession
from graphls.profile.memory import memory_of
from graphls.profile.plain import PlainCopy
from graphls.profile.profile import Profile
from graphls.sharing.storage import array_in
from graphls.trace.trace import fill_outputs

WARM_UP = 2
"""Steps that run before those that count: they fill caches and, where states have two buffers, use both."""


class Step(Protocol):
    """What is measured: a compiled step, which stands above."""

    graph: Graph
    parameters: dict[str, Any]
    _session: Any
    _ending: Any
    _outputs: Any
    _open_session: Any

    @property
    def output_types(self) -> Any:
        """The types of what the step returns."""


@dataclass
class Measured:
    """What was seen of steps: the seconds of each, and of those with loss scaling whether it was skipped."""

    seconds: list[float] = field(default_factory=list)
    skipped: list[Any] = field(default_factory=list)
    runs: Sequence[Run] = ()


def measure(step: Step, arrays: Inputs, steps: SupportsIndex) -> Profile:
    """The profile of a step on these arrays; see Compiled.profile."""
    count = _count(steps)
    graph = without_effects(step._ending.graph)
    calls = TimedCalls(graph)
    is_interpreted = isinstance(step._session, ReferenceSession)
    plain = _timed(step, step._open_session(calls.graph, _copies(step)), arrays, count)
    found = _interpreted(step, graph, arrays, count) if is_interpreted else _profiled(step, calls, arrays, count)
    if not found.runs:
        raise GraphRuntimeError(
            "One step has more operators than the profile of ONNX Runtime holds; "
            "profile a smaller one, or one that is compiled with backend='numpy'."
        )
    recorded = len(found.runs)
    return Profile(
        graph=graph,
        backend=_backend(step._session),
        step_seconds=float(np.mean(found.seconds[:recorded])),
        unprofiled_seconds=float(np.mean(plain.seconds)),
        requested=count,
        skipped=sum(bool(array_in(flag)) for flag in found.skipped[:recorded]),
        runs=from_zero(found.runs),
        memory=memory_of(graph, "numpy" if is_interpreted else step._session.device),
    )


def _count(steps: SupportsIndex) -> int:
    try:
        count = 0 if isinstance(steps, (bool, np.bool_)) else index(steps)
    except TypeError:
        count = 0
    if count < 1:
        raise GraphValueError(f"A profile takes a number of steps from 1 on, not {steps!r}.")
    return count


def _copies(step: Step) -> dict[str, Copied]:
    return {name: copied(parameter) for name, parameter in step.parameters.items()}


def _timed(step: Step, session: Session, arrays: Inputs, count: int) -> Measured:
    """Run some steps, and those that count, each timed from the call to the outputs."""
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
    """Which output says that a step was skipped; None for steps without loss scaling."""
    if not is_loss_scale_tuple(step.output_types):
        return None
    position = fill_outputs(step._outputs, list(range(len(step.graph.outputs))))[1]
    return position if isinstance(position, int) else None


def _profiled(step: Step, calls: TimedCalls, arrays: Inputs, count: int) -> Measured:
    """Steps under the profiler of ONNX Runtime, which is given plain names; calls of Python have been timed before."""
    from graphls.backends.onnxruntime.profiled import ProfiledSession  # which loads ONNX Runtime

    copy = PlainCopy(calls.rest)
    states = {copy.values[v].name: v.name for v in calls.rest.states}
    parameters = _copies(step)
    renamed = {name: parameters[original] for name, original in states.items()}
    with TemporaryDirectory(prefix="graphls-") as folder:
        session = ProfiledSession(copy.graph, renamed, step._session.device, Path(folder))
        try:
            measured = _timed(step, session, [*arrays, *calls.given()], count)
        finally:
            profile = session.end()
        nodes = {node: calls.original(original) for node, original in copy.nodes.items()}
        measured.runs = calls.added_to_runs([_renamed(run, nodes) for run in session.runs(profile)[WARM_UP:]], WARM_UP)
    measured.seconds = calls.added_to(measured.seconds, WARM_UP)
    return measured


def _renamed(run: Run, nodes: Mapping[Node, Node | None]) -> Run:
    return replace(run, kernels=tuple(replace(k, node=k.node and nodes.get(k.node)) for k in run.kernels))


def _interpreted(step: Step, graph: Graph, arrays: Inputs, count: int) -> Measured:
    """Steps in the reference interpreter, node by node."""
    session = InterpretedSession(graph, _copies(step))
    measured = _timed(step, session, arrays, count)
    measured.runs = session.runs[WARM_UP:]
    return measured


def _backend(session: Any) -> str:
    """What ran, in words."""
    if isinstance(session, ReferenceSession):
        return f"NumPy {np.__version__}"
    return f"ONNX Runtime {load_runtime().__version__} on {session.device}"
