"""The order of effects: each runs once in each step, behind those that stand before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphls.ir.graph import Node, Value, with_blocks


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with control edges between those of a block that have effects, which run in this order."""
    linked: list[Node] = []
    last: tuple[Value, ...] = ()
    for node in nodes:
        node = with_blocks(node, in_order)
        if node.primitive.has_effect:
            node = replace(node, after=tuple(dict.fromkeys((*node.after, *last))))
            last = node.outputs[:1]
        linked.append(node)
    return tuple(linked)
