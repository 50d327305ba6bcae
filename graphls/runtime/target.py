"""Execution targets: the backend, device and engine of a step, the partition for them, and sessions on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import graphls.runtime.engines  # noqa: F401  which plans find by their names
from graphls.base.errors import GraphValueError
from graphls.ir.engines import AUTO, check_engine, check_mesh, find_engine
from graphls.ir.graph import Graph
from graphls.ir.plan import is_plan
from graphls.ir.sharding import Mesh
from graphls.ir.verify import verify
from graphls.passes.schedule.partition import Partition
from graphls.passes.schedule.pipeline import Pipelined
from graphls.runtime.devices import Cuda
from graphls.runtime.states import HasStorage

BACKENDS = ("onnxruntime", "numpy")


@dataclass(frozen=True)
class ExecutionTarget:
    """The backend, the device and the engine of a step; `engine` runs what it takes of it, "onnxruntime" the rest.

    The engine "auto" stands for one that `engine_choice` chooses by the graph; no graph runs on it. The devices of a
    `mesh` are of the kind of `device`.
    """

    backend: str
    device: str | Cuda
    engine: str
    mesh: Mesh | None = None

    def check(self) -> None:
        """Raise GraphlsError for a backend, an engine or a device that is not known, or that is missing."""
        if self.engine != AUTO:
            find_engine(self.engine)
        if self.backend not in BACKENDS:
            raise GraphValueError(f"{self.backend!r} is not a backend; use one of {', '.join(map(repr, BACKENDS))}.")
        if self.mesh is not None:  # before an engine opens a single device
            check_mesh("numpy" if self.backend == "numpy" else self.engine, self.mesh, self.device)
        if self.backend == "onnxruntime":
            for name in dict.fromkeys((self.backend, self.engine)):
                check_engine(name, self.device)
        elif self.device != "cpu":
            raise GraphValueError(f"The backend 'numpy' runs on 'cpu', not on {self.device!r}.")

    def partitioned(self, graph: Graph) -> Graph:
        """The graph in segments for the engines; itself where it runs whole."""
        if self._interprets(graph):
            return graph
        skips = self.device == "cpu" and not find_engine(self.engine).runs_whole
        segments = Partition(self.engine, skips=skips).run(Pipelined(self.engine).run(graph))
        if segments is not graph:
            verify(segments)
        return segments

    def open(self, graph: Graph, parameters: Mapping[str, HasStorage]) -> Any:
        """A session that runs a graph, whole or in segments, on the states in some parameters."""
        if self._interprets(graph):
            from graphls.runtime.numpy.reference import ReferenceSession

            return ReferenceSession(graph, parameters)
        if is_plan(graph):
            from graphls.runtime.plan import PlanSession

            return PlanSession(graph, parameters, self.device)
        if isinstance(self.device, Cuda) and self.device.graph:
            from graphls.runtime.onnxruntime.captured import CapturedSession

            return CapturedSession(graph, parameters, self.device)
        from graphls.runtime.onnxruntime.session import OrtSession

        return OrtSession(graph, parameters, self.device)

    def _interprets(self, graph: Graph) -> bool:
        """Whether the reference interpreter runs a graph: no runtime takes a model without outputs."""
        return self.backend == "numpy" or not (graph.outputs or graph.writes)
