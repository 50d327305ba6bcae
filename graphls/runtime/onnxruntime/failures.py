"""Errors of a failed step, and the invalidation of states that it may have half written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.base.reporting import too_large, wants_memory
from graphls.ir.graph import Graph, Node, inside
from graphls.ir.reachability import behind
from graphls.runtime.onnxruntime.guard import first_line


class Torn:
    """The content of an invalidated state, which a failed step may have written: each use raises, until it is set."""

    def __init__(self, name: str, reason: str) -> None:
        self.message = (
            f"The state {name!r} may be that of half a step, because a step has failed in the middle ({reason}); load "
            "a checkpoint, or set its data."
        )

    def numpy(self) -> np.ndarray[Any, Any]:
        """Raises GraphRuntimeError."""
        raise GraphRuntimeError(self.message)


def states_behind(graph: Graph, node: Node) -> set[str]:
    """The states whose new values are computed from what a node gives, so after it."""
    top = next((n for n in graph.nodes if any(inner is node for inner in (n, *inside(n)))), None)
    made = behind(graph.nodes, () if top is None else top.outputs)
    return {write.state.name for write in graph.writes if write.value in made}


def failure(error: Exception, node: Node | None) -> GraphlsError:
    """The user's error for an error of the runtime: at the line of the operator that failed, where that is known."""
    text, reason = "ONNX Runtime could not run the step", first_line(error)
    if wants_memory(error):
        return too_large() if node is None else too_large().at(node.loc)
    if node is None:
        return GraphRuntimeError(f"{text}: {reason}")
    cell = f" of {node.scope}" if node.scope else ""
    reason = reason.rpartition("Status Message: ")[2].strip().rstrip(".")
    return GraphRuntimeError(f"{text}: {node.primitive.name}{cell}: {reason}.").at(node.loc)


def failed_node(error: Exception, origins: Mapping[str, Node]) -> Node | None:
    """The node whose operator an error of the runtime names."""
    named = re.search(r"Name:'([^']*)'", str(error))
    return origins.get(named[1]) if named else None
