"""Which states a node helps to write, and which one it works for alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphls.ir.graph import Graph, Node, Value


def reached(graph: Graph) -> dict[Node, int]:
    """For each node, those of regions included, the writes that its results flow into.

    Writes are bits of a number, in the order of `graph.writes`. What only decides whether something is written, the
    condition of a `cond` and what an `overflow_get` checks, does not count.
    """
    bits: dict[Value, int] = {}
    for i, write in enumerate(graph.writes):
        _add(bits, write.value, 1 << i)
    found: dict[Node, int] = {}
    _sweep(graph.nodes, bits, found)
    return found


def _sweep(nodes: Sequence[Node], bits: dict[Value, int], found: dict[Node, int]) -> None:
    for node in reversed(nodes):
        made = _union(bits, node.outputs)
        found[node] = made
        if node.regions:
            _through_regions(node, made, bits, found)
        elif node.primitive.name != "overflow_get":
            for value in node.inputs:
                _add(bits, value, made)


def _through_regions(node: Node, made: int, bits: dict[Value, int], found: dict[Node, int]) -> None:
    for region in node.regions:
        matches = len(region.outputs) == len(node.outputs)
        for i, value in enumerate(region.outputs):
            _add(bits, value, bits.get(node.outputs[i], 0) if matches else made)
        _sweep(region.nodes, bits, found)
        if len(region.inputs) == len(node.inputs):
            for value, parameter in zip(node.inputs, region.inputs, strict=True):
                _add(bits, value, bits.get(parameter, 0))


def _add(bits: dict[Value, int], value: Value, more: int) -> None:
    bits[value] = bits.get(value, 0) | more


def _union(bits: Mapping[Value, int], values: Iterable[Value]) -> int:
    union = 0
    for value in values:
        union |= bits.get(value, 0)
    return union


def served(nodes: Iterable[Node], reached: Mapping[Node, int]) -> dict[Node, int]:
    """For each node that works for one state alone the number of its write.

    A node may reach the moments of a parameter too, as long as whatever reaches those reaches the parameter: then it
    works for the parameter. What several parameters share, such as a learning rate, is not there.
    """
    nodes = [node for node in nodes if reached[node]]
    always: dict[int, int] = {}
    for node in nodes:
        for bit in _bits(reached[node]):
            always[bit] = always.get(bit, -1) & reached[node]
    found = {}
    for node in nodes:
        common = reached[node]
        for bit in _bits(reached[node]):
            common &= always[bit]
            if not common:
                break
        if common:
            found[node] = common.bit_length() - 1
    return found


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
