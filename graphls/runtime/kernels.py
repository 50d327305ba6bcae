"""Profile records: the kernels of a step with their times, nested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from graphls.ir.graph import Node


@dataclass(frozen=True, slots=True)
class Kernel:
    """One call of an operator.

    `start` and `seconds` are in seconds, `start` from the first step on; `own_seconds` is without the graphs that ran
    inside of this one. `node` is the node that it computes, None where that is not known, and `operator` what
    the backend calls it. `segment` is the number of the segment of the plan that it ran in.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> x = np.ones((8, 8), np.float32)
        >>> first, *_ = graphls.compile(lambda x: x @ x, x).profile(x, steps=2).runs
        >>> all(kernel.seconds >= kernel.own_seconds for kernel in first.kernels)
        True
    """

    node: Node | None
    operator: str
    start: float
    seconds: float
    own_seconds: float
    segment: int = 0


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A kernel of a compiled segment, as the engine calls it and its operation, and the nodes that it computes.

    The first node is the one whose result it is; a kernel of the engine's own, such as a copy, may have none.
    """

    name: str
    operation: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SegmentRun:
    """A segment of a plan that ran in a step: its number, when it began and how long it took, in seconds.

    `waited` is how long the step stood still for one that ran beside others, None for one that ran in its turn.
    """

    number: int
    start: float
    seconds: float
    waited: float | None = None

    @property
    def hidden(self) -> float:
        """The seconds in which others ran as well."""
        return 0.0 if self.waited is None else max(0.0, self.seconds - self.waited)


@dataclass(frozen=True)
class Run:
    """One step: when it began and how long it took, in seconds, and its kernels by their start, outer ones first.

    `segments` are those of a plan of several, in the order in which they began.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> x = np.ones((8, 8), np.float32)
        >>> first, second = graphls.compile(lambda x: x @ x, x).profile(x, steps=2).runs
        >>> first.start < second.start, first.seconds > 0
        (True, True)
    """

    start: float
    seconds: float
    kernels: tuple[Kernel, ...]
    segments: tuple[SegmentRun, ...] = ()


def own_times(spans: Sequence[tuple[int, int]]) -> list[int]:
    """The durations of spans (start, duration) that nest, each without those directly inside of it.

    The spans are in order of their start, an outer one before those inside of it. As start and duration are rounded
    down, an inner one may seem to end by 1 after the outer one: a span from 11.0 to 16.0 inside of one from 10.9 to
    16.1 reads (11, 5) inside of (10, 5). So it is where a span begins that tells what it is inside of.
    """
    own = [duration for _, duration in spans]
    around: list[int] = []
    for index, (start, duration) in enumerate(spans):
        while around and sum(spans[around[-1]]) <= start:
            around.pop()
        if around:
            own[around[-1]] -= duration
        around.append(index)
    return [max(0, seconds) for seconds in own]


def from_zero(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The same runs, with times from the start of the first one on."""
    runs = tuple(runs)
    zero = runs[0].start if runs else 0.0
    return tuple(_shifted(run, -zero) for run in runs)


def _shifted(run: Run, by: float) -> Run:
    """The same run some seconds later."""
    kernels = tuple(replace(k, start=k.start + by) for k in run.kernels)
    segments = tuple(replace(s, start=s.start + by) for s in run.segments)
    return Run(run.start + by, run.seconds, kernels, segments)
