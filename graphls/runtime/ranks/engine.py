"""The ranks engine: gathers the parameters of which each rank has updated a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphls.ir.graph import Node
from graphls.ir.plan import Segment

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext


class Ranks:
    """Gathers shards into the states, where they are; no Python runs in it, so that a step is complete or has not been.

    The other collectives, whose results a step goes on with, run on the host.
    """

    name = "ranks"
    runs_python = False
    writes_in_place = True

    def takes(self, node: Node) -> bool:
        """What gathers shards."""
        return node.primitive.name == "gather_shards"

    def check(self, device: object) -> None:
        """It is there where several ranks are."""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A segment that gathers."""
        from graphls.runtime.ranks.part import RanksPart

        return RanksPart(segment, context)
