"""Sessions under the profiler of ONNX Runtime, with kernel times attributed to graph nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto

from graphls.ir.graph import Graph, Node
from graphls.ir.plan import Segment
from graphls.runtime.devices import Cuda
from graphls.runtime.engine import PlanContext
from graphls.runtime.kernels import Kernel, Run, own_times
from graphls.runtime.lowering import Lowered
from graphls.runtime.lowering.protos import operators
from graphls.runtime.onnxruntime.optimized import write_optimized
from graphls.runtime.onnxruntime.part import OrtPart
from graphls.runtime.onnxruntime.session import OrtSession
from graphls.runtime.states import HasStorage

ENDING = "_kernel_time"
EXECUTOR = "SequentialExecutor::Execute"
"""The event of a complete graph or body; its time outside of kernels is that of the runtime and of its profiler."""


class _Profiled(OrtSession):
    """A mixin for sessions that write their profile, and the model as optimized by the runtime, into a folder.

    The names of the graph must be plain, because ONNX Runtime does not escape them in its JSON.
    """

    is_cached = False
    folder: Path

    def _options(self) -> Any:
        options = super()._options()
        options.enable_profiling = True
        options.profile_file_prefix = str(self.folder / "profile")
        write_optimized(options, self._optimized, bool(self.lowered.outside))
        return options

    @property
    def _optimized(self) -> Path:
        return self.folder / "optimized.onnx"

    def end_profile(self) -> Path:
        """End the profile; returns the file that it was written to."""
        return Path(self.session.end_profiling())

    def runs(self, profile: Path) -> list[Run]:
        """Every complete step in a profile of this session, which has its first million events."""
        nodes = attribution(self.lowered, onnx.load(str(self._optimized), load_external_data=False))
        return recorded_runs(profile, {name: self.origin(node) for name, node in nodes.items()})


class ProfiledSession(_Profiled):
    """A profiled session of a complete step."""

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], device: str | Cuda, folder: Path) -> None:
        self.folder = folder
        super().__init__(graph, parameters, device)


class ProfiledOrtPart(_Profiled, OrtPart):
    """A profiled session of a segment."""

    def __init__(self, segment: Segment, context: PlanContext, folder: Path) -> None:
        self.folder = folder
        OrtPart.__init__(self, segment, context)

    def profile(self) -> list[Run]:
        """The kernels of each run in the profile."""
        return self.runs(self.end_profile())


Event = Mapping[str, Any]


def recorded_runs(path: Path, nodes: Mapping[str, Node]) -> list[Run]:
    """The complete runs in a profile of ONNX Runtime; `nodes` are those of its operators by their names.

    A line of the file holds one event. Times are whole microseconds.
    """
    return [_run(run, events, nodes) for run, events in _read(path)]


def _read(path: Path) -> Iterator[tuple[Event, list[Event]]]:
    """Each run with the events of its kernels and of the graphs that contain them."""
    events: list[Event] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if f'{ENDING}"' in line or f'"{EXECUTOR}"' in line:
                event = json.loads(line.strip().rstrip(","))
                operator = event["args"].get("op_name", "")
                events.append({"name": event["name"], "ts": event["ts"], "dur": event["dur"], "operator": operator})
            elif '"model_run"' in line:
                yield json.loads(line.strip().rstrip(",")), events
                events = []


def _run(run: Event, events: Sequence[Event], nodes: Mapping[str, Node]) -> Run:
    """A run from its events; of events with the same start and end, the runtime writes the inner one first."""
    ordered = sorted(reversed(events), key=lambda e: (e["ts"], -e["dur"]))
    own = own_times([(e["ts"], e["dur"]) for e in ordered])
    kernels = (
        Kernel(nodes.get(e["name"].removesuffix(ENDING)), e["operator"], e["ts"] / 1e6, e["dur"] / 1e6, time / 1e6)
        for e, time in zip(ordered, own, strict=True)
        if e["name"] != EXECUTOR
    )
    return Run(run["ts"] / 1e6, run["dur"] / 1e6, tuple(kernels))


def attribution(lowered: Lowered, optimized: ModelProto) -> dict[str, Node]:
    """The node of each operator of an optimized model, by the operator's name.

    An operator has the name that it was lowered with; or, fused, that of one of its operators with a suffix; or its
    result is a known tensor. An operator that only prepares a tensor belongs to the one that reads it.
    """
    origins = lowered.origins
    makers = {name: origins.get(op.name) for op in operators(lowered.model.graph.node) for name in op.output}
    nodes: dict[str, Node] = {}
    readers: dict[str, Node] = {}
    for operator in reversed(list(operators(optimized.graph.node))):
        node = _named(operator.name, origins) or _first(makers, operator.output) or _first(readers, operator.output)
        node = node or _first(makers, operator.input)
        if node is not None:
            nodes[operator.name] = node
            readers.update((name, node) for name in operator.input)
    return nodes


def _named(name: str, origins: Mapping[str, Node]) -> Node | None:
    while name and name not in origins:
        name = name.rpartition("/")[0]
    return origins.get(name)


def _first(nodes: Mapping[str, Node | None], names: Sequence[str]) -> Node | None:
    return next((node for name in names if (node := nodes.get(name)) is not None), None)
