"""Schedules each segment output right after its last operand, to shorten live ranges."""

from __future__ import annotations

from collections.abc import Sequence, Set

from graphls.ir.graph import Node, Value, definers, needs


def list_schedule(nodes: Sequence[Node], leaving: Set[Value]) -> list[Node]:
    """List scheduling: nodes that only one result needs move right after their last operand.

    So operands are read while caches hold them, and their memory is free early. Gradients are divided by the loss
    scale after all of them have been computed, in the order of the parameters, as in

        %g2 = matmul(%x2, %d2); %d1 = matmul(%d2, %w2); %g1 = matmul(%x1, %d1); %r = reciprocal(%scale)
        %u1 = mul(%g1, %r); %u2 = mul(%g2, %r)

    and become, since only %u2 needs %g2, and %r is a number, which may be computed at any time,

        %r = reciprocal(%scale); %g2 = matmul(%x2, %d2); %u2 = mul(%g2, %r); %d1 = matmul(%d2, %w2); ...

    A state is written no earlier than its readers allow, since the order is one that all edges, control edges
    included, allow.
    """
    alone = _for_one_result(nodes, leaving)
    definer = definers(nodes)
    position: dict[Node, int] = {}
    for number, node in enumerate(nodes):
        waits = max((position[definer[v]] for v in needs(node) if v in definer), default=-1)
        position[node] = waits if node in alone or _has_only_numbers(node) else number
    _delay(nodes, position, {node for node in alone if leaving.isdisjoint(node.outputs)})
    return sorted(nodes, key=position.__getitem__)


def _for_one_result(nodes: Sequence[Node], leaving: Set[Value]) -> set[Node]:
    """The nodes that only one result needs, or several results that depend on each other, as moments and weights do.

    Checks, which read all gradients, do not count.
    """
    needed_by: dict[Value, set[Node | None]] = {}
    nodes_found = set()
    for node in reversed(nodes):
        results = {result for value in node.outputs for result in needed_by.get(value, ())}
        if not results and not leaving.isdisjoint(node.outputs):
            results.add(node)
        result = results.pop() if len(results) == 1 else None
        if result is not None:
            nodes_found.add(node)
        if not node.primitive.is_check:
            for value in needs(node):
                needed_by.setdefault(value, set()).add(result)
    return nodes_found


def _delay(nodes: Sequence[Node], position: dict[Node, int], movable: Set[Node]) -> None:
    """Move nodes that wait for nothing, such as a state times a number, right before their first reader."""
    first: dict[Value, int] = {}
    for node in reversed(nodes):
        if node in movable and position[node] == -1 and not _has_only_numbers(node):
            position[node] = min((first[value] for value in node.outputs if value in first), default=-1)
        for value in needs(node):
            first[value] = min(position[node], first.get(value, position[node]))


def _has_only_numbers(node: Node) -> bool:
    return all(value.type.size == 1 for value in (*node.inputs, *node.outputs))
