"""Graphs that run on OpenVINO as a whole."""

from __future__ import annotations

from graphls.ir.graph import Graph
from graphls.passes.schedule.partition import Partition
from graphls.runtime.engines import Openvino
from graphls.runtime.plan import PlanSession


def is_taken(graph: Graph) -> bool:
    """Whether OpenVINO takes every node."""
    return all(map(Openvino().takes, graph.nodes))


def on_openvino(graph: Graph) -> PlanSession:
    """A session of a graph without states, of which OpenVINO takes every node."""
    return PlanSession(Partition("openvino").run(graph), {})
