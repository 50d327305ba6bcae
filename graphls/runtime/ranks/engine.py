"""The ranks engine: gathers the parameters of which each rank has updated a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphls.ir.graph import Node
from graphls.ir.plan import Segment

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext


class Ranks:
    """Gathers shards into the buffers of the states, without Python code, so that the step stays atomic.

    The other collectives, whose results the step computes with, run on the host.
    """

    name = "ranks"
    runs_python = False
    writes_in_place = True

    def takes(self, node: Node) -> bool:
        """Takes `gather_shards` alone."""
        return node.primitive.name == "gather_shards"

    def check(self, device: object) -> None:
        """Raises nothing, as only steps of several ranks have such nodes."""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A segment that gathers shards."""
        from graphls.runtime.ranks.part import RanksPart

        return RanksPart(segment, context)
