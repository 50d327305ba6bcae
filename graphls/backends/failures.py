"""A step that fails in the runtime: which states it may have half written, and how these say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.ir.errors import GraphRuntimeError
from graphls.ir.graph import Graph, Node, Value, uses, walk

INDEXING = re.compile("gather|scatter|index")
"""Primitives that fail where an index is out of range."""


class Torn:
    """What a state holds that a failed step may have written already: an error at the next use, until it is set."""

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
    top = next((n for n in graph.nodes if any(inner is node for inner in _with_inner(n))), None)
    reached = set() if top is None else set(top.outputs)
    for later in graph.nodes:
        if not reached.isdisjoint(uses(later)):
            reached.update(later.outputs)
    return {write.state.name for write in graph.writes if write.value in reached}


def states_before_an_index(graph: Graph) -> set[str]:
    """The states that may be written before the runtime has looked at every index."""
    before: dict[Value, int] = {}
    every = 0
    for node in graph.nodes:
        bits = 0
        for value in uses(node):
            bits |= before.get(value, 0)
        if any(INDEXING.search(inner.primitive.name) for inner in _with_inner(node)):
            every = (every << 1) | 1
            bits |= every ^ (every >> 1)
        before.update((value, bits) for value in node.outputs)
    return {write.state.name for write in graph.writes if before.get(write.value, 0) != every}


def _with_inner(node: Node) -> list[Node]:
    return [node, *(inner for region in node.regions for inner in walk(region))]


def failed_node(error: Exception, origins: Mapping[str, Node]) -> Node | None:
    """The node whose operator an error of the runtime names."""
    named = re.search(r"Name:'([^']*)'", str(error))
    return origins.get(named[1]) if named else None
