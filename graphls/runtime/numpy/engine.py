"""The NumPy engine: the reference interpreter on segments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphls.ir.graph import Node
from graphls.ir.plan import Segment

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext, ProfiledPart


class Numpy:
    """Runs segments node by node with NumPy, which needs no runtime and is slow."""

    name = "numpy"
    runs_python = True
    writes_in_place = False

    def takes(self, node: Node) -> bool:
        """Takes all nodes but calls of Python functions."""
        return not node.primitive.calls_python

    def check(self, device: object) -> None:
        """Raises nothing, as NumPy is always available."""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A segment in the interpreter."""
        from graphls.runtime.numpy.part import InterpretedPart

        return InterpretedPart(segment, context)

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A segment in the interpreter whose nodes are timed one by one."""
        from graphls.runtime.numpy.part import TimedPart

        return TimedPart(segment, context)

    def title(self, device: str) -> str:
        """NumPy with its version."""
        return f"NumPy {np.__version__}"
