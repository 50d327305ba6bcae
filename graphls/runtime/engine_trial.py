"""Times a step on an engine: some steps on copies of its states."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from math import inf
from time import perf_counter

from graphls.ir.graph import Graph
from graphls.runtime.session import Inputs
from graphls.runtime.states import HasStorage, copies
from graphls.runtime.target import ExecutionTarget

LEAST_STEPS = 2
"""The measured steps of a slow one: states that have two buffers use the second one first in the first of them."""

SECONDS = 0.5
"""The time after which no further step is measured."""

SLOW = 2.0
"""An engine is slow if its fastest step takes more than this many times as long as the step of another engine."""

SECONDS_OF_SLOW = 0.1
"""The time after which no further step of a slow engine is measured; the very first steps of a fast one are slow."""

Clock = Callable[[], float]


def seconds_of_step(
    target: ExecutionTarget, graph: Graph, parameters: Mapping[str, HasStorage], inputs: Inputs,
    best: float = inf, clock: Clock = perf_counter,
) -> float:  # fmt: skip
    """The seconds of the fastest of some steps of a partitioned graph, of which the first one is not measured.

    `best` are the seconds of a step on the fastest of the engines that have been measured before. The session runs
    on copies of the states and is closed at the end, so that its threads and its memory are free.
    """
    try:
        return _least_seconds(target, graph, parameters, inputs, best, clock)
    finally:
        gc.collect(0)  # sessions refer to themselves, and compiling has disabled the collection


def _least_seconds(
    target: ExecutionTarget, graph: Graph, parameters: Mapping[str, HasStorage], inputs: Inputs, best: float,
    clock: Clock,
) -> float:  # fmt: skip
    session = target.open(graph, copies(parameters))
    session.run(inputs)
    begin = end = clock()
    least, steps = inf, 0
    while steps < LEAST_STEPS or end - begin < (SECONDS_OF_SLOW if least > SLOW * best else SECONDS):
        session.run(inputs)
        before, end = end, clock()
        least, steps = min(least, end - before), steps + 1
    return least
