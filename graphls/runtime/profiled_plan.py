"""A profiled plan: the times of its segments and of every node in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from graphls.ir.engines import find_engine
from graphls.ir.graph import Graph, Value
from graphls.ir.plan import Segment
from graphls.runtime.devices import Cuda
from graphls.runtime.engine import Part, ProfiledPart, Profiles, WrappedPart
from graphls.runtime.kernels import Kernel, Run, SegmentRun
from graphls.runtime.plan import PlanSession
from graphls.runtime.session import Inputs, Present
from graphls.runtime.states import HasStorage


class _Clocked(WrappedPart):
    """A part whose runs are noted, with their times, in the log of the plan, and how long its ends take in `ends`."""

    def __init__(self, part: Part, number: int, log: list[SegmentRun], ends: list[float]) -> None:
        super().__init__(part)
        self.number, self.log, self.ends = number, log, ends

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        return partial(self._run, super().begin(fed))

    def _run(self, call: partial[object]) -> object:
        start = perf_counter()
        result = call()
        self.log.append(SegmentRun(self.number, start, perf_counter() - start))
        return result

    def end(self) -> Mapping[Value, Any]:
        start = perf_counter()
        results = super().end()
        self.ends.append(perf_counter() - start)
        return results


class ProfiledPlan(PlanSession):
    """A plan of which every run of a segment is timed, and the nodes in it by its engine, where this can do so.

    It runs on states of its own: its last segments run in calls of Python, which a Ctrl-C may divide. The names of the
    graph must be plain.
    """

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], device: str | Cuda, folder: Path) -> None:
        self.folder = folder
        self.profiled: dict[int, ProfiledPart] = {}
        self.count = 0
        self.log: list[SegmentRun] = []
        self.waits: dict[int, float] = {}
        self.ends: list[float] = []
        self.steps: list[Run] = []
        super().__init__(graph, parameters, device)

    def open_part(self, segment: Segment) -> Part:
        """A segment, opened to be profiled; their numbers are their places in the plan."""
        engine, number = find_engine(segment.engine), self.count
        self.count += 1
        if not isinstance(engine, Profiles):
            return _Clocked(engine.open(segment, self.context), number, self.log, self.ends)
        folder = self.folder / str(number)
        folder.mkdir()
        self.profiled[number] = engine.profiled(segment, self.context, folder)
        return _Clocked(self.profiled[number], number, self.log, self.ends)

    def run(self, inputs: Inputs, present: Present = list) -> Any:
        """One step; the outputs as arrays. When its segments end, engines note their times, outside of the step."""
        self.log.clear()
        self.waits.clear()
        self.ends.clear()
        start = perf_counter()
        outputs = super().run(inputs, present)
        seconds = perf_counter() - start - sum(self.ends)
        log = (replace(called, waited=self.waits.get(called.number)) for called in self.log)
        self.steps.append(Run(start, seconds, (), tuple(sorted(log, key=lambda called: called.start))))
        return outputs

    def _join(self, number: int) -> None:
        start = perf_counter()
        super()._join(number)
        self.waits[number] = perf_counter() - start

    def end_profile(self) -> dict[int, list[Run]]:
        """The profiles of each segment by its engine; read once, after the last step."""
        return {number: part.profile() for number, part in self.profiled.items()}

    def runs(self, profiles: Mapping[int, Sequence[Run]]) -> Iterator[Run]:
        """The steps with their kernels, up to the first that an engine does not know."""
        left = {number: iter(runs) for number, runs in profiles.items()}
        for step in self.steps:
            kernels: list[Kernel] = []
            for called in step.segments:
                known = next(left[called.number], None) if called.number in left else Run(called.start, 0.0, ())
                if known is None:
                    return
                kernels += _kernels(known, called)
            yield replace(step, kernels=tuple(kernels))


def _kernels(known: Run, called: SegmentRun) -> Iterator[Kernel]:
    """The kernels of a segment when the plan has run it, shortened where they were rounded beyond its end."""
    end = max((k.start + k.seconds for k in known.kernels), default=known.start) - known.start
    part = min(1.0, called.seconds / end) if end else 1.0
    for k in known.kernels:
        start = called.start + part * (k.start - known.start)
        seconds, own = part * k.seconds, part * k.own_seconds
        yield replace(k, start=start, seconds=seconds, own_seconds=own, segment=called.number)
