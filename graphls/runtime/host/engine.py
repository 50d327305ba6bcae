"""The host engine: calls Python functions with arrays."""

from __future__ import annotations

from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING

from graphls.ir.graph import Node
from graphls.ir.plan import Segment

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext, ProfiledPart


class Host:
    """Runs the nodes that call Python, such as `ops.Print`."""

    name = "host"
    runs_python = True
    writes_in_place = False

    def takes(self, node: Node) -> bool:
        """Takes calls of Python functions alone."""
        return node.primitive.calls_python

    def check(self, device: object) -> None:
        """Raises nothing, as Python is always available."""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A segment that calls its functions with arrays."""
        from graphls.runtime.host.part import HostPart

        return HostPart(segment, context)

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A segment whose calls are timed one by one."""
        from graphls.runtime.host.part import TimedHostPart

        return TimedHostPart(segment, context)

    def title(self, device: str) -> str:
        """Python with its version."""
        return f"Python {python_version()}"
