"""The interface of a compiled step for profilers, recorders and exporters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphls.ir.graph import Graph
from graphls.ir.plan import Plan, plan_of
from graphls.runtime.states import HasStorage
from graphls.runtime.target import ExecutionTarget


@dataclass(frozen=True, eq=False)
class Step:
    """The graphs of a step, its target and session, and the structure of its results, `outputs`.

    `graph` is the final graph, and `session_graph` what the session runs: all but the host effects, whose operands are
    outputs behind those of the graph. `partitioned` is that graph in segments, where the target runs it in several.
    """

    graph: Graph
    session_graph: Graph
    partitioned: Graph
    parameters: Mapping[str, Any]
    outputs: Any
    target: ExecutionTarget
    session: Any = None

    @property
    def plan(self) -> Plan:
        """The plan of the session; one segment where it has none."""
        return getattr(self.session, "plan", None) or plan_of(self.session_graph)

    def open_session(self, graph: Graph, parameters: Mapping[str, HasStorage]) -> Any:
        """A session on the target of the step that runs another graph on the states in some parameters."""
        return self.target.open(self.target.partitioned(graph), parameters)

    def with_session(self) -> Step:
        """The same with a session of its own."""
        return replace(self, session=self.target.open(self.partitioned, self.parameters))

    def without_session(self) -> Step:
        """The same without a session, as a copy takes it over."""
        return replace(self, session=None)
