"""The oneDNN engine: takes the nodes that it has rules for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.ir.graph import Graph, Node
from graphls.ir.plan import Segment

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext, ProfiledPart


class Onednn:
    """Runs segments as calls of kernels for training, in layouts of their own: float32 and bfloat16, on the CPU."""

    name = "onednn"
    runs_python = False
    writes_in_place = True
    runs_whole = False

    def takes(self, node: Node) -> bool:
        """Whether there is a kernel for a node, or NumPy computes it: few numbers, integers, or moves of memory.

        Conditions, loops and random numbers stay elsewhere.
        """
        from graphls.runtime.onednn.rules import interprets, takes

        return takes(node) or interprets(node)

    def interprets(self, node: Node) -> bool:
        """Whether NumPy may compute some of the work of a node, on the buffers of the kernels around it."""
        from graphls.runtime.onednn.rules import interprets
        from graphls.runtime.onednn.single_numbers import is_single

        return node.phase in ("forward", "backward") or interprets(node) or is_single(node)

    def prepared(self, graph: Graph) -> Graph:
        """The graph in which products are computed once, where an update and a check would each compute them.

        That is behind the flag where their operands are smaller.
        """
        from graphls.runtime.multiples import with_multiples
        from graphls.runtime.onednn.late_products import with_late_products

        return with_late_products(with_multiples(graph))

    def check(self, device: object) -> None:
        """Raise GraphRuntimeError where it is not installed, GraphValueError for another device than the CPU."""
        if device != "cpu":
            raise GraphValueError(f"The engine 'onednn' runs on 'cpu', not on {device!r}.")
        from graphls.runtime.onednn.library import library

        library()

    def version(self) -> str:
        """The version of the library with its instruction set; "" where there is none that runs."""
        from graphls.runtime.onednn.library import library

        try:
            return library().title
        except GraphRuntimeError:
            return ""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """The calls for a segment."""
        from graphls.runtime.onednn.part import OnednnPart

        return OnednnPart(segment, context)

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """The calls for a segment, each of which is timed."""
        from graphls.runtime.onednn.profiled import ProfiledOnednnPart

        return ProfiledOnednnPart(segment, context)

    def title(self, device: str) -> str:
        """oneDNN with its version."""
        return f"oneDNN {self.version()}"
