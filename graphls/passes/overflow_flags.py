"""Flags that say whether something overflowed inside of a branch or loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from graphls.ir.build import Names
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.registry import lookup
from graphls.ir.types import Type, bool_
from graphls.passes.rewrite import carries

Item = TypeVar("Item")


def runs_regions(node: Node) -> bool:
    """Whether the regions of a node make values while it runs; that of a custom gradient makes them elsewhere."""
    return node.primitive.is_branch or node.primitive.is_loop


def with_flag(node: Node, names: Names) -> tuple[tuple[Node, ...], Value]:
    """A node with one more output, and what stands before it: whether a float value made in a region is not finite.

    Of a `cond`, in the branch that ran; a loop carries the flag along, so that it knows of any time.
    """
    if node.primitive.is_branch:
        flag = _fresh(names)
        regions = tuple(_flagged(region, names, len(region.outputs)) for region in node.regions)
        return (replace(node, regions=regions, outputs=(*node.outputs, flag)),), flag
    return _loop_with_flag(node, names)


def _loop_with_flag(node: Node, names: Names) -> tuple[tuple[Node, ...], Value]:
    count = carries(node)
    start, own, flag = (_fresh(names) for _ in range(3))
    no = np.array(False)
    no.flags.writeable = False
    constant = Node(lookup("constant"), (), (start,), {"value": no}, phase="check", scope=node.scope, loc=node.loc)
    *tests, body = node.regions
    # The condition takes all that is carried, also what it does not look at.
    tests = [r.replace(inputs=_inserted(r.inputs, count, _fresh(names))) for r in tests]
    body = _flagged(body.replace(inputs=_inserted(body.inputs, count, own)), names, count, own)
    attrs = {**node.attrs, "carries": count + 1} if "carries" in node.attrs else node.attrs
    inputs, outputs = _inserted(node.inputs, count, start), _inserted(node.outputs, count, flag)
    return (constant, replace(node, inputs=inputs, outputs=outputs, attrs=attrs, regions=(*tests, body))), flag


def _flagged(region: Graph, names: Names, at: int, *earlier: Value) -> Graph:
    """A region that also yields, in a place, whether it made a float value that is not finite, or did earlier."""
    nodes: list[Node] = []
    made = list(earlier)
    for node in region.nodes:
        if runs_regions(node):
            flagged, flag = with_flag(node, names)
            nodes.extend(flagged)
            made.append(flag)
        else:
            nodes.append(node)
        made.extend(filter(is_checked, node.outputs))
    flag = _fresh(names)
    get = Node(lookup("overflow_get"), tuple(made), (flag,), {"mode": "window"}, phase="check")
    return region.replace(nodes=(*nodes, get), outputs=_inserted(region.outputs, at, flag))


def is_checked(value: Value) -> bool:
    """Whether a check can look at a value; what is in a stack is looked at where it is made, inside of the loop."""
    return value.type.dtype.is_float and not value.type.stacked


def _fresh(names: Names) -> Value:
    return Value(names.fresh("raised"), Type(bool_))


def _inserted(items: Sequence[Item], at: int, item: Item) -> tuple[Item, ...]:
    return (*items[:at], item, *items[at:])
