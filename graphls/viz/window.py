"""The overflow windows of a graph: what runs while a status is open."""

from __future__ import annotations

from graphls.ir.graph import Graph, Node, blocks, inside
from graphls.passes.windows import windows as windows_of


def windows(graph: Graph) -> tuple[tuple[Node, Node, frozenset[Node]], ...]:
    """For each window its `overflow_start`, its `overflow_get` and the nodes between them, as `verify_windows` has it.

    Between are the nodes that run after the start and before the get, by data and control edges, with all that is
    in their regions. Windows of regions come after those of the graph; before the overflow pass there are none.
    """
    return tuple(
        (window.start, window.get, frozenset(inner for node in window.inside for inner in (node, *inside(node))))
        for block in blocks(graph)
        for window in windows_of(block.nodes)
    )
