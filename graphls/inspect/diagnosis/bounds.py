"""Values whose infinities end at once, as that of the quotient by the maximum of zeros, of which a scale is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphls.ir.graph import Node, Value, uses


def bounded(nodes: Sequence[Node], leaving: Iterable[Value], is_finite: Callable[[Value], bool]) -> set[Value]:
    """The values that nothing but a minimum or a maximum reads, also by way of a factor, and the result is finite.

    `nodes` are in the order of execution, and `leaving` are what the graph returns and writes.
    """
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in uses(node):
            readers.setdefault(value, []).append(node)
    out, ended = set(leaving), set[Value]()

    def ends(node: Node) -> bool:
        result = node.outputs[0]
        return is_finite(result) if node.primitive.bounds else bool(node.primitive.factors) and result in ended

    for node in reversed(nodes):
        ended.update(v for v in node.outputs if v in readers and v not in out and all(map(ends, readers[v])))
    return ended
