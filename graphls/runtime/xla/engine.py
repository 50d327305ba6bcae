"""The XLA engine: takes the nodes whose rules can be traced, conditions and loops included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphls.ir.graph import Graph, Node
from graphls.ir.plan import Segment
from graphls.ir.sharding import Mesh
from graphls.runtime.devices import kind_of
from graphls.runtime.xla.library import devices_of, load_jax, version

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext, ProfiledPart


class Xla:
    """Runs segments as programs of XLA, on CPUs and GPUs."""

    name = "xla"
    runs_python = False
    writes_in_place = True
    runs_whole = True

    def takes(self, node: Node) -> bool:
        """Takes all nodes but calls of Python, collectives of ranks, random numbers and values of unknown sizes."""
        from graphls.runtime.xla.tracing import takes

        return takes(node)

    def prepared(self, graph: Graph) -> Graph:
        """The graph in which products are computed once, where an update and a check would each compute them."""
        from graphls.runtime.multiples import with_multiples

        return with_multiples(graph)

    def check(self, device: Any) -> None:
        """Raise GraphRuntimeError where JAX or the device is missing; a CPU is divided when a program is opened."""
        if kind_of(device) == "cpu":
            load_jax()
        else:
            devices_of(device)

    def check_mesh(self, mesh: Mesh, device: Any) -> None:
        """Raise GraphRuntimeError where JAX has fewer devices than the mesh."""
        devices_of(device, mesh.size)

    def version(self) -> str:
        """The version of JAX; "" where it is not installed."""
        return version()

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A program for a segment."""
        from graphls.runtime.xla.part import XlaPart

        return XlaPart(segment, context)

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A program for a segment, whose kernels JAX's profiler times."""
        from graphls.runtime.xla.profiled import ProfiledXlaPart

        return ProfiledXlaPart(segment, context, folder)

    def title(self, device: str) -> str:
        """XLA with the version of JAX, and the device."""
        return f"XLA of JAX {version()} on {device}"
