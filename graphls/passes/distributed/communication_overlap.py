"""Communication overlap: orders nodes so that independent computation runs beside collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphls.ir.graph import Node, Value, needs
from graphls.ir.reachability import Reachability, marked_dependents

ScheduledAfter = Mapping[Node, tuple[Value, ...]]
"""For each node the values after which it is scheduled without waiting for them."""


def overlap_communication(nodes: Sequence[Node], least: int) -> tuple[list[Node], ScheduledAfter]:
    """Order nodes so that exactly the ancestors of a collective come before it.

    The ancestors of later collectives come after it, and may be computed while it communicates. Consecutive
    collectives of less than `least` bytes together count as one group, as each cut of the schedule takes time, unless
    one needs a result of the other. Nodes are ordered by group, and keep their order within each.
    """
    collectives = [node for node in nodes if node.primitive.is_collective]
    if not collectives:
        return list(nodes), {}
    groups = _groups_of_collectives(nodes, collectives, least)
    marks = marked_dependents(nodes, {node: 1 << i for i, group in enumerate(groups) for node in group}, needs)
    # The lowest bit is the first group that needs a node; those that none needs come last.
    number = {node: (bits & -bits).bit_length() - 1 if bits else len(groups) for node, bits in marks.items()}
    after = {node: groups[n - 1][-1].outputs[:1] for node, n in number.items() if n}
    return sorted(nodes, key=lambda node: number[node]), after


def _groups_of_collectives(nodes: Sequence[Node], collectives: Sequence[Node], least: int) -> list[list[Node]]:
    """The groups of collectives that count as one."""
    reach = Reachability(nodes, collectives)
    groups: list[list[Node]] = []
    size, earlier = least, 0
    for node in collectives:
        if size >= least or reach.before[node] != earlier:
            groups.append([])
            size, earlier = 0, reach.before[node]
        groups[-1].append(node)
        size += sum(v.type.nbytes for v in node.inputs)
    return groups
