"""Times a step on an engine: some steps on copies of its states."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from itertools import pairwise
from time import perf_counter

from graphls.ir.graph import Graph
from graphls.runtime.session import Inputs
from graphls.runtime.states import HasStorage, copies
from graphls.runtime.target import ExecutionTarget

LEAST_STEPS = 2
"""The measured steps of a slow one: states that have two buffers use the second one first in the first of them."""

SECONDS = 0.5
"""The time after which no further step is measured."""

Clock = Callable[[], float]


def seconds_of_step(
    target: ExecutionTarget, graph: Graph, parameters: Mapping[str, HasStorage], inputs: Inputs,
    clock: Clock = perf_counter,
) -> float:  # fmt: skip
    """The seconds of the fastest of some steps of a partitioned graph, of which the first one is not measured.

    The session runs on copies of the states and is closed at the end, so that its threads and its memory are free.
    """
    try:
        return _least_seconds(target, graph, parameters, inputs, clock)
    finally:
        gc.collect(0)  # sessions refer to themselves, and compiling has disabled the collection


def _least_seconds(
    target: ExecutionTarget, graph: Graph, parameters: Mapping[str, HasStorage], inputs: Inputs, clock: Clock
) -> float:
    session = target.open(graph, copies(parameters))
    session.run(inputs)
    begin = clock()
    times = [begin]
    while len(times) <= LEAST_STEPS or times[-1] - begin < SECONDS:
        session.run(inputs)
        times.append(clock())
    return min(after - before for before, after in pairwise(times))
