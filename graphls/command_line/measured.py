"""Running a graph that is no step of a script: on made-up numbers, for its times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from graphls.backends.session import Inputs, Session
from graphls.backends.states import HasStorage
from graphls.ir.graph import Graph, Node, inside
from graphls.ir.types import Type
from graphls.profile.measure import PlainCopy
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

WARM_UP = 2


def measured_nodes(graph: Graph, steps: int) -> dict[Node, float]:
    """The seconds of each node of a graph in one run of it on the CPU, with those in its regions.

    They are shares of the time of a run without the profiler, which is that of a step from its call to its outputs.
    """
    from graphls.backends.onnxruntime.ort import OrtSession
    from graphls.backends.onnxruntime.profiled import ProfiledSession

    copy = PlainCopy(graph)
    inputs = [_numbers(v.type) for v in copy.graph.inputs]
    seconds = _seconds(OrtSession(copy.graph, _states(copy.graph)), inputs, steps)
    with TemporaryDirectory(prefix="graphls-") as folder:
        session = ProfiledSession(copy.graph, _states(copy.graph), "cpu", Path(folder))
        _seconds(session, inputs, steps)
        runs = session.runs(session.end_profile())[WARM_UP:]
    own = dict.fromkeys(copy.nodes.values(), 0.0)
    for run in runs:
        for kernel in run.kernels:
            if kernel.node is not None:
                own[copy.nodes[kernel.node]] += kernel.own_seconds
    whole = {node: own[node] + sum(own[n] for n in inside(node)) for node in graph.nodes}
    scale = seconds / (sum(whole.values()) or 1.0)
    return {node: scale * time for node, time in whole.items()}


def _states(graph: Graph) -> Mapping[str, HasStorage]:
    return {state.name: Parameter(Tensor(_numbers(state.type)), name=state.name) for state in graph.states}


def _numbers(kind: Type) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Small positive floats, of which roots can be taken, and zeros, which are in every range."""
    if not kind.dtype.is_float:
        return np.zeros(kind.shape, kind.dtype.numpy)
    return np.random.default_rng(0).uniform(0.01, 0.02, kind.shape).astype(kind.dtype.numpy)


def _seconds(session: Session, inputs: Inputs, steps: int) -> float:
    """The median of the seconds of some runs."""
    found = []
    for _ in range(WARM_UP + steps):
        begin = perf_counter()
        session.run(inputs)
        found.append(perf_counter() - begin)
    return float(np.median(found[WARM_UP:]))
