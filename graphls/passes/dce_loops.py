"""What nobody needs of a loop: results, values that it carries, and arrays that it runs along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from graphls.ir.graph import Node, Value, walk
from graphls.passes.rewrite import carries

Sweep = Callable[[Sequence[Node], set[Value]], tuple[Node, ...]]
"""The nodes that the live values need; what they need in turn is added to the live ones."""


def without_dead_parts(node: Node, live: set[Value], sweep: Sweep) -> Node:
    """A loop with what is needed of it; what its regions need is added to `live`.

    What is carried is needed where its last value is, or where a region needs it for anything that is, as the condition
    of a while loop always is.
    """
    count = carries(node)
    *tests, region = node.regions
    used = [v in live for v in node.outputs]
    # What a region defines nobody needs outside, so that each begins with nothing: a copy of `live` would be quadratic.
    tested = {v for test in tests for v in test.outputs}
    nodes = [sweep(test.nodes, tested) for test in tests]
    for test in tests:
        used[:count] = [w or v in tested for v, w in zip(test.inputs, used[:count], strict=True)]
    # What is carried may be needed for what else is carried, in a later iteration only: so until nothing is added.
    while True:
        seen = {v for v, wanted in zip(region.outputs, used, strict=True) if wanted}
        kept = sweep(region.nodes, seen)
        seen.update(v for n in walk(region.replace(nodes=kept)) for v in n.after if v in region.inputs)
        more = [w or v in seen for v, w in zip(region.inputs, used[:count], strict=False)]
        if more == used[:count]:
            break
        used[:count] = more
    live |= tested | seen
    taken = [*used[:count], *(v in seen for v in region.inputs[count:])]
    if not any(taken[count:]) and node.attrs.get("length", 0) is None:
        taken[count] = True  # A stack says how often the loop runs, whatever it holds.
    nodes.append(kept)
    if all((*used, *taken)) and all(n == r.nodes for n, r in zip(nodes, node.regions, strict=True)):
        return node
    return _picked(node, nodes, used, taken)


def _picked(node: Node, nodes: Sequence[tuple[Node, ...]], used: Sequence[bool], taken: Sequence[bool]) -> Node:
    *tests, region = (r.replace(nodes=n) for r, n in zip(node.regions, nodes, strict=True))
    tests = [test.replace(inputs=_chosen(test.inputs, taken)) for test in tests]
    region = region.replace(inputs=_chosen(region.inputs, taken), outputs=_chosen(region.outputs, used))
    attrs = dict(node.attrs)
    if "carries" in attrs:
        attrs["carries"] = sum(used[: attrs["carries"]])
    return replace(
        node,
        inputs=_chosen(node.inputs, taken),
        outputs=_chosen(node.outputs, used),
        attrs=attrs,
        regions=(*tests, region),
    )


def _chosen(values: Sequence[Value], wanted: Sequence[bool]) -> tuple[Value, ...]:
    return tuple(v for v, is_wanted in zip(values, wanted, strict=True) if is_wanted)
