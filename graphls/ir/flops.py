"""Counts the floating point operations of nodes, with regions multiplied by their iterations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphls.ir.graph import Graph, Node


def flops(node: Node) -> int:
    """The floating point operations of a node and of its regions in one run of it.

    A multiplication with an addition counts as two, a move as none. Of a branch the more expensive region counts, that
    of a `scan` as often as it runs, and those of a `while_loop` once. Each primitive has its own `flops`.
    """
    inner = _of_regions(node)
    runs = node.primitive.region_runs(node.attrs, inner)
    return own_flops(node) + sum(count * times for count, times in zip(inner, runs, strict=True))


def own_flops(node: Node) -> int:
    """The operations of a node without those of its regions."""
    inputs, outputs = tuple(v.type for v in node.inputs), tuple(v.type for v in node.outputs)
    return node.primitive.flops(inputs, outputs, node.attrs)


def region_runs(node: Node) -> tuple[tuple[Graph, int], ...]:
    """The regions of a node, each with its number of runs to count in one run of the node."""
    runs = node.primitive.region_runs(node.attrs, _of_regions(node))
    return tuple(zip(node.regions, runs, strict=True))


def runs(nodes: Iterable[Node], times: int = 1) -> Iterator[tuple[Node, int]]:
    """Every node with its number of runs, which may be 0; nodes of regions come before the node around them."""
    for node in nodes:
        if node.regions:
            for region, count in region_runs(node):
                yield from runs(region.nodes, times * count)
        yield node, times


def _of_regions(node: Node) -> tuple[int, ...]:
    return tuple(sum(map(flops, region.nodes)) for region in node.regions)
