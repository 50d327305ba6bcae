"""Fences values captured by If, Loop and Scan bodies, because ONNX Runtime's fusions ignore uses inside subgraphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from graphls.ir.graph import Node, Value, captures


def is_alias(node: Node) -> bool:
    """True for a node whose result is its operand under another name."""
    return node.primitive.onnx == "Identity" and node.primitive.half == "native"


def captured(nodes: Sequence[Node], waiting: Collection[Value]) -> set[Value]:
    """The values of a block that branches and bodies of operators read; `waiting` are those that an If may compute.

    Where two Casts in a row restore the original type, the runtime removes both at each level of its optimizations,
    and branches that read the second one find nothing. So a Reshape to the same shape, which copies nothing and which
    no optimization removes, stands behind a Cast that branches read.
    """
    values = {v for node in nodes for v in _read_in_bodies(node, waiting)}
    for node in reversed(nodes):
        if values and is_alias(node) and node.output in values:
            values.add(node.inputs[0])
    return values


def _read_in_bodies(node: Node, waiting: Collection[Value]) -> Iterator[Value]:
    """The values that its regions capture; all operands of a node that is lowered as an If or waits for one."""
    for region in () if node.primitive.is_inlined else node.regions:
        yield from captures(region)
    is_around = node.primitive.takes_values or any(v.type.stacked for v in node.inputs)
    if is_around or any(v in waiting for v in node.outputs):
        yield from node.inputs


def fenced(nodes: Sequence[Node], captured: set[Value]) -> set[Value]:
    """The `captured` values of a block, read by branches or loops, that a convolution may compute.

    Where only an If reads the result of a Conv, ConvActivationFusion of the runtime before 1.24 looks for an operand
    that the If does not have, which ends the process. Elementwise operators behind a convolution may be fused with it
    first, so each value as large as its result counts as computed by it.
    """
    computed: set[Value] = set()
    for node in nodes if captured else ():
        sizes = {v.type.size for v in node.inputs if v in computed}
        computed.update(v for v in node.outputs if _is_like(node, v, sizes))
    return computed & captured


def _is_like(node: Node, value: Value, sizes: set[int]) -> bool:
    return node.primitive.is_convolution or (value.type.size in sizes and not value.type.stacked)
