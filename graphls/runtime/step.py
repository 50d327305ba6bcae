"""The interface of a compiled step for profilers, recorders and exporters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphls.ir.graph import Graph
from graphls.ir.plan import Plan, plan_of
from graphls.runtime.states import HasStorage

OpenSession = Callable[[Graph, Mapping[str, HasStorage]], Any]
"""Makes a session that runs a graph on the states in some parameters."""


@dataclass(frozen=True, eq=False)
class Step:
    """The graph of a step, what runs it, and how what it gives is nested.

    `graph` is the final graph, and `session_graph` what the session runs: all but the host effects, whose operands are
    outputs behind those of the graph. `outputs` is the structure of the results.
    """

    graph: Graph
    session_graph: Graph
    parameters: Mapping[str, Any]
    outputs: Any
    open_session: OpenSession
    session: Any = None

    @property
    def plan(self) -> Plan:
        """The plan of the session; one segment where it has none."""
        return getattr(self.session, "plan", None) or plan_of(self.session_graph)

    def with_session(self) -> Step:
        """The same with a session of its own."""
        return replace(self, session=self.open_session(self.session_graph, self.parameters))

    def without_session(self) -> Step:
        """The same without a session, as a copy takes it over."""
        return replace(self, session=None)
