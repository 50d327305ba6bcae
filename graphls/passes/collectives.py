"""Collectives of a graph: what this rank does together with others, which must do the same in the same order."""

from __future__ import annotations

from graphls.ir.graph import Graph, Node, walk


def collectives(graph: Graph) -> tuple[Node, ...]:
    """The nodes that all ranks of a group run together, in order."""
    return tuple(n for n in walk(graph) if n.primitive.is_collective and not n.primitive.is_of_rank)
