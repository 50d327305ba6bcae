"""A plan whose segments also give values that they make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from graphls.backends.devices import Cuda
from graphls.backends.engine import Part
from graphls.backends.plan import PlanSession
from graphls.backends.states import HasStorage
from graphls.ir.graph import Graph, Value, walk
from graphls.ir.plan import Segment
from graphls.passes.watch import giving

Take = Callable[[Value, Any], None]


class RecordedPlan(PlanSession):
    """A plan on states of its own that hands each of the `wanted` values to `take` behind the step."""

    def __init__(
        self,
        graph: Graph,
        parameters: Mapping[str, HasStorage],
        device: str | Cuda,
        wanted: Collection[Value],
        take: Take,
    ) -> None:
        self.wanted, self.take = wanted, take
        super().__init__(graph, parameters, device)

    def opened(self, segment: Segment) -> Part:
        """A segment that gives what is wanted of it, under names that nobody else in the plan reads."""
        made = [v for node in walk(segment.graph) for v in node.outputs if v in self.wanted]
        given = {Value(f"{v.name}.recorded", v.type): v for v in made}
        more = replace(segment, graph=giving(segment.graph, made), gives=(*segment.gives, *given))
        return _Recorded(super().opened(more), given, self.take) if made else super().opened(segment)


class _Recorded:
    """A part that hands what is recorded of it on when it has run."""

    def __init__(self, part: Part, given: Mapping[Value, Value], take: Take) -> None:
        self.part, self.given, self.take = part, given, take
        self.graph = part.graph

    @property
    def seen(self) -> int:
        return self.part.seen

    @seen.setter
    def seen(self, count: int) -> None:
        self.part.seen = count

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        return self.part.begin(fed)

    def end(self) -> Mapping[Value, Any]:
        found = dict(self.part.end())
        for given, value in self.given.items():
            self.take(value, found.pop(given))
        return found

    def failed(self, error: Exception) -> Exception:
        return self.part.failed(error)

    def spoil(self, reason: str) -> None:
        self.part.spoil(reason)
