"""NumPy as an engine: the reference interpreter on segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphls.ir.graph import Node
from graphls.ir.plan import Segment

if TYPE_CHECKING:
    from graphls.backends.engine import Bench, Part


class Numpy:
    """Runs segments node by node with NumPy, which needs no runtime and is slow."""

    name = "numpy"
    runs_python = True
    writes_in_place = False

    def takes(self, node: Node) -> bool:
        """Whatever is no call of a user's function."""
        return not node.primitive.calls_python

    def check(self, device: object) -> None:
        """It is always there."""

    def open(self, segment: Segment, bench: Bench) -> Part:
        """A segment that is interpreted."""
        from graphls.backends.numpy.part import InterpretedPart

        return InterpretedPart(segment, bench)
