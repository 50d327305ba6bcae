"""Graphs that one engine runs, without states."""

from __future__ import annotations

from graphls.ir.engines import find_engine
from graphls.ir.graph import Graph
from graphls.passes.schedule.partition import Partition
from graphls.runtime import engines  # noqa: F401  (registers them)
from graphls.runtime.plan import PlanSession


def is_taken(engine: str, graph: Graph) -> bool:
    """Whether an engine takes every node."""
    return all(map(find_engine(engine).takes, graph.nodes))


def session_on(engine: str, graph: Graph) -> PlanSession:
    """A session of a graph without states; the engine runs what it takes."""
    return PlanSession(Partition(engine).run(graph), {})
