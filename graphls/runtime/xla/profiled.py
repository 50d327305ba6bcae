"""A profiled segment of XLA: the time of each kernel, by JAX's profiler, attributed to the node of most FLOPs in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from graphls.base.errors import GraphRuntimeError
from graphls.ir.flops import flops
from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.runtime.engine import PlanContext
from graphls.runtime.kernels import FusedKernel, Kernel, Run
from graphls.runtime.xla.part import XlaPart

TRACE = "xla trace"


class Span(NamedTuple):
    """What ran from a time to another one, in seconds."""

    start: float
    end: float
    name: str


class Trace:
    """A trace of JAX's profiler over all segments of a plan, begun by the first of them that runs."""

    def __init__(self, jax: Any, folder: Path) -> None:
        self.jax, self.folder = jax, folder
        self.is_running = False
        self.spans: list[Span] = []

    def start(self) -> None:
        """Begin the trace, unless it runs; raises GraphRuntimeError where the user's own runs."""
        if self.is_running:
            return
        options = self.jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        try:
            self.jax.profiler.start_trace(self.folder, profiler_options=options)
        except RuntimeError as error:
            text = "The profiler of JAX already runs; call jax.profiler.stop_trace() before step.profile"
            raise GraphRuntimeError(f"{text} ({str(error).rstrip('.')}).") from error
        self.is_running = True

    def stop(self) -> None:
        """End the trace and read it, once."""
        if self.is_running:
            self.is_running = False
            self.jax.profiler.stop_trace()
            for file in self.folder.rglob("*.xplane.pb"):
                self.spans += sorted(_spans(self.jax.profiler.ProfileData.from_file(str(file))))


class ProfiledXlaPart(XlaPart):
    """A segment whose kernels are timed by JAX's profiler; each run is a span of its own in the trace."""

    def __init__(self, segment: Segment, context: PlanContext, folder: Path) -> None:
        super().__init__(segment, context)
        self.waits = True
        self.label = f"graphls segment {folder.name}"
        self.trace: Trace = context.forms.setdefault(TRACE, Trace(self.jax, folder))

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """A call of Python, which marks the run in the trace."""
        self.trace.start()
        return partial(self._marked, super().begin(fed))

    def _marked(self, call: partial[object]) -> object:
        with self.jax.profiler.TraceAnnotation(self.label):
            return call()

    def profile(self) -> list[Run]:
        """The kernels of each run."""
        self.trace.stop()
        kernels = {kernel.name: kernel for kernel in self.kernels()}
        return [_run(window, self.trace.spans, kernels) for window in self.trace.spans if window.name == self.label]


def _spans(profile: Any) -> Iterator[Span]:
    """The kernels and the marks of a trace; one that runs on other threads ends where its end is marked."""
    events = [event for plane in profile.planes for line in plane.lines for event in line.events]
    ends: dict[int, float] = {}
    kernels: list[tuple[Any, Mapping[str, Any]]] = []
    for event in events:
        stats = dict(event.stats)
        if "_c" in stats:
            ends[stats["_c"]] = event.start_ns
        if "hlo_op" in stats:
            kernels.append((event, stats))
        elif event.name.startswith("graphls segment "):
            yield Span(event.start_ns * 1e-9, (event.start_ns + event.duration_ns) * 1e-9, event.name)
    for event, facts in kernels:
        end = max(event.start_ns + event.duration_ns, ends.get(facts.get("_p", -1), 0))
        yield Span(event.start_ns * 1e-9, end * 1e-9, facts["hlo_op"])


def _run(window: Span, spans: Iterable[Span], kernels: Mapping[str, FusedKernel]) -> Run:
    inside = [s for s in spans if window.start <= s.start < window.end and s.name != window.name]
    inside = [s._replace(end=min(s.end, window.end)) for s in inside if s.name in kernels]
    own = shares(inside)
    timed = tuple(_timed(s, seconds, kernels[s.name]) for s, seconds in zip(inside, own, strict=True))
    return Run(window.start, window.end - window.start, timed)


def _timed(span: Span, seconds: float, kernel: FusedKernel) -> Kernel:
    node = max(kernel.nodes, key=flops, default=None)  # a fusion counts as its largest node
    fused = f" of {len(kernel.nodes)} nodes" if len(kernel.nodes) > 1 else ""
    return Kernel(node, f"{kernel.name}{fused}", span.start, span.end - span.start, seconds)


def shares(spans: list[Span]) -> list[float]:
    """The seconds of each span, where those that run at the same time share it, so that they sum to the time of all."""
    own = [0.0] * len(spans)
    changes = sorted([(s.start, 1, i) for i, s in enumerate(spans)] + [(s.end, 0, i) for i, s in enumerate(spans)])
    active: set[int] = set()
    before = 0.0
    for moment, is_start, index in changes:
        for other in active:
            own[other] += (moment - before) / len(active)
        active.add(index) if is_start else active.discard(index)
        before = moment
    return own
