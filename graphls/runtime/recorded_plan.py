"""A plan whose segments also return intermediate values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphls.ir.graph import Graph, Value
from graphls.ir.plan import Segment
from graphls.runtime.devices import Cuda
from graphls.runtime.engine import Part, WrappedPart
from graphls.runtime.plan import PlanSession
from graphls.runtime.states import HasStorage

Take = Callable[[Value, Any], None]
More = Callable[[Segment], tuple[Segment, Mapping[Value, Value]]]
"""A segment that gives more, and the values in it by those of the plan as which it gives them."""


class RecordedPlan(PlanSession):
    """A plan on states of its own whose segments give `more` values, which go to `take` behind the step."""

    def __init__(
        self, graph: Graph, parameters: Mapping[str, HasStorage], device: str | Cuda, more: More, take: Take,
    ) -> None:  # fmt: skip
        self.more, self.take = more, take
        super().__init__(graph, parameters, device)

    def open_part(self, segment: Segment) -> Part:
        """A segment that gives more."""
        wider, extra = self.more(segment)
        return _Recorded(super().open_part(wider), extra, self.take)


class _Recorded(WrappedPart):
    """A part that passes its recorded values on when it has run."""

    def __init__(self, part: Part, extra: Mapping[Value, Value], take: Take) -> None:
        super().__init__(part)
        self.extra, self.take = extra, take

    def end(self) -> Mapping[Value, Any]:
        results = dict(super().end())
        for extra, value in self.extra.items():
            self.take(value, results.pop(extra))
        return results
