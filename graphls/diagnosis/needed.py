"""What a step whose conditions were decided has computed for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphls.ir.graph import Graph, Node, Value, uses, walk


def in_vain(graph: Graph, answers: Mapping[Value, bool]) -> set[Value]:
    """The values that nothing needs but branches which these answers of conditions have not chosen.

    They may have been computed: an engine without conditions runs both branches, and the flag selects between them.
    """
    needed = {*graph.outputs, *(write.value for write in graph.writes)}
    _need(graph.nodes, answers, needed)
    return {v for node in walk(graph) for v in node.outputs if v not in needed}


def _need(nodes: Iterable[Node], answers: Mapping[Value, bool], needed: set[Value]) -> None:
    """Add what is needed of these nodes and by them."""
    for node in reversed(tuple(nodes)):
        if not node.primitive.has_effect and needed.isdisjoint(node.outputs):
            continue
        needed.update(node.outputs)
        answer = answers.get(node.inputs[0]) if node.inputs else None
        if answer is None or not (node.primitive.is_branch or node.primitive.name == "where"):
            needed.update(uses(node))
            for region in node.regions:
                needed.update(region.outputs)
                _need(region.nodes, answers, needed)
        elif node.primitive.is_branch:
            region = node.regions[0 if answer else 1]
            needed.update((node.inputs[0], *region.outputs))
            _need(region.nodes, answers, needed)
        else:
            needed.update((node.inputs[0], node.inputs[1 if answer else 2]))
