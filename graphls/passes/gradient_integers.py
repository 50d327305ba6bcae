"""Which values a gradient flows through: floats always, integers where a gradient by an integer is asked for.

An integer has no slope. MindSpore gives what the rules of differentiation make of integers all the same, in their own
dtype, where the gradient is one by an integer input: 6 for x * x at 3, and so does this. A gradient by floats is never
one through an integer, as the slope of a step is zero.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphls.ir.graph import Node, Value, uses

RULES = frozenset({
    "abs", "add", "broadcast_to", "cast", "check_labels", "concat", "cumsum", "depend", "gather", "gather_elements",
    "gather_elements_gradient", "gather_gradient", "mod", "mul", "neg", "prod", "reshape",
    "reverse", "slice", "slice_gradient", "square", "sub", "sum", "transpose", "where",
})  # fmt: skip
"""Primitives whose gradient rules hold for integers as they are."""

SHARING = frozenset({"max", "maximum", "min", "minimum"})
"""Primitives whose rules divide a gradient among equals, which is done in float64 and cut off, as MindSpore does it."""

NUMBERS = RULES | SHARING


def is_number(value: Value) -> bool:
    """Whether there is something to differentiate: a float, or an integer."""
    return value.type.dtype.kind in ("float", "int", "uint")


def active_values(nodes: Iterable[Node], sources: Iterable[Value], integers: bool = False) -> set[Value]:
    """The values that depend on the sources and can have a gradient: floats, and with `integers` all numbers."""
    active = set(sources)
    for node in nodes:
        if any(v in active for v in uses(node)):
            also = integers and bool(node.regions or node.primitive.name in NUMBERS)
            active.update(v for v in node.outputs if v.type.dtype.is_float or (also and is_number(v)))
    return active
