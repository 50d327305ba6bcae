"""Splits overflow checks of many values, so that no plan segment needs all of the values at once."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice

from graphls.ir.build import Names
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import TOKEN

MOST = 64
"""The most values of one check; a runtime tests so many at once (runtime/lowering/finite.py)."""


def in_parts(graph: Graph) -> Graph:
    """The graph with checks of at most MOST values, each behind the last of them, and a check of their flags.

    The window has been proven for the original check: a part checks some of its values as soon as these are computed,
    and the check itself keeps its position and checks the flags of the parts.
    """
    names = Names.of(graph)
    place = {value: number for number, node in enumerate(graph.nodes) for value in node.outputs}
    parts: dict[int, list[Node]] = {}
    joined: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.primitive.is_check and len(node.inputs) > MOST + 1:
            joined[node] = _joined(node, names, place, parts)
    if not joined:
        return graph
    numbered = ((n, joined.get(node, node)) for n, node in enumerate(graph.nodes))
    nodes = chain(parts.get(-1, ()), *((node, *parts.get(n, ())) for n, node in numbered))
    return graph.replace(nodes=tuple(nodes))


def _joined(check: Node, names: Names, place: dict[Value, int], parts: dict[int, list[Node]]) -> Node:
    """A check of the flags of its parts, which are added to `parts` by the index of the node before them."""
    tokens = tuple(v for v in check.inputs if v.type == TOKEN)
    values = iter(sorted((v for v in check.inputs if v.type != TOKEN), key=lambda v: place.get(v, -1)))
    flags: list[Value] = []
    for some in iter(lambda: tuple(islice(values, MOST)), ()):
        flag = Value(names.fresh(check.output.name), check.output.type)
        part = replace(check, inputs=(*tokens, *some), outputs=(flag,), after=())
        behind = max(place.get(v, -1) for v in part.inputs)
        parts.setdefault(behind, []).append(part)
        flags.append(flag)
    return replace(check, inputs=(*tokens, *flags))
