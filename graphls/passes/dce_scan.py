"""What nobody needs of a `scan`: results, values that it carries, and arrays that it runs along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from graphls.ir.graph import Graph, Node, Value, walk

Sweep = Callable[[Sequence[Node], set[Value]], tuple[Node, ...]]
"""The nodes that the live values need; what they need in turn is added to the live ones."""


def without_dead_parts(node: Node, live: set[Value], sweep: Sweep) -> Node:
    """A scan with what is needed of it; what its region needs is added to `live`.

    What is carried is needed where its last value is, or where the region needs it for anything that is.
    """
    carries = node.attrs["carries"]
    (region,) = node.regions
    used = [v in live for v in node.outputs]
    while True:
        seen = {*live, *(v for v, wanted in zip(region.outputs, used, strict=True) if wanted)}
        nodes = sweep(region.nodes, seen)
        seen.update(v for n in walk(region.replace(nodes=nodes)) for v in n.after if v in region.inputs)
        more = [w or v in seen for v, w in zip(region.inputs, used[:carries], strict=False)]
        if more == used[:carries]:
            break
        used[:carries] = more
    live |= seen
    taken = [*used[:carries], *(v in seen for v in region.inputs[carries:])]
    if all((*used, *taken)) and nodes == region.nodes:
        return node
    return _picked(node, nodes, used, taken)


def _picked(node: Node, nodes: tuple[Node, ...], used: Sequence[bool], taken: Sequence[bool]) -> Node:
    (region,) = node.regions
    inputs, outputs = _chosen(region.inputs, taken), _chosen(region.outputs, used)
    inner = Graph(region.name, inputs, (), nodes, (), outputs)
    attrs = {**node.attrs, "carries": sum(used[: node.attrs["carries"]])}
    return replace(
        node, inputs=_chosen(node.inputs, taken), outputs=_chosen(node.outputs, used), attrs=attrs, regions=(inner,)
    )


def _chosen(values: Sequence[Value], wanted: Sequence[bool]) -> tuple[Value, ...]:
    return tuple(v for v, is_wanted in zip(values, wanted, strict=True) if is_wanted)
