"""Which values a gradient flows through: floats always, integers where a gradient by an integer is asked for.

An integer has no slope. MindSpore gives what the rules of differentiation make of integers all the same, in their own
dtype, where the gradient is one by an integer input: 6 for x * x at 3, and so does this. A gradient by floats is never
one through an integer, as the slope of a step is zero. `Primitive.integer_gradient` says which rules hold for integers:
those that are as they are, and those that divide a gradient among equals, which is done in float64 and cut off, as
MindSpore does it.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphls.ir.graph import Node, Value, uses


def active_values(nodes: Iterable[Node], sources: Iterable[Value], integers: bool = False) -> set[Value]:
    """The values that depend on the sources and can have a gradient: floats, and with `integers` all numbers.

    A float depends on integers by a cast or by the regions of a node; as indices they have no gradient.
    """
    active = set(sources)
    for node in nodes:
        found = {v.type.dtype.is_float for v in uses(node) if v in active}
        if found:
            primitive, holds = node.primitive, bool(node.regions)
            # A cast of an integer, or a region that captures one, is the only way from integers to floats.
            made = {"float"} if True in found or holds or primitive.name == "cast" else set()
            made |= {"int", "uint"} if integers and (holds or primitive.integer_gradient != "none") else set()
            active.update(v for v in node.outputs if v.type.dtype.kind in made)
    return active
