"""Fences values captured by If, Loop and Scan bodies, because ONNX Runtime's fusions ignore uses inside subgraphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from graphls.ir.graph import Node, Value, captures


def is_alias(node: Node) -> bool:
    """Whether a node gives its operand, which its result is another name of."""
    return node.primitive.onnx == "Identity" and node.primitive.half == "native"


def captured(nodes: Sequence[Node], waiting: Collection[Value]) -> set[Value]:
    """The values of a block that branches and bodies of operators read; `waiting` are those that an If may compute.

    Where two Casts in a row give the type that there was before, the runtime removes both at each level of its
    optimizations, and branches that read the second one find nothing. So a Reshape to the same shape, which copies
    nothing and which no optimization removes, stands behind a Cast that branches read.
    """
    found = {v for node in nodes for v in _read_in_bodies(node, waiting)}
    for node in reversed(nodes):
        if found and is_alias(node) and node.output in found:
            found.add(node.inputs[0])
    return found


def _read_in_bodies(node: Node, waiting: Collection[Value]) -> Iterator[Value]:
    """Those that its regions capture; all operands where the node is lowered as an If or waits for one."""
    for region in () if node.primitive.is_inlined else node.regions:
        yield from captures(region)
    is_around = node.primitive.takes_values or any(v.type.stacked for v in node.inputs)
    if is_around or any(v in waiting for v in node.outputs):
        yield from node.inputs


def fenced(nodes: Sequence[Node], captured: set[Value]) -> set[Value]:
    """The values of a block that branches or loops read, `captured`, and that may be computed by a convolution.

    Where nothing but an If reads the result of a Conv, ConvActivationFusion of the runtime before 1.24 looks for an
    operand that the If does not have, which ends the process. What a convolution adds, multiplies or passes on may be
    fused with it before, so each value as large as its result counts as computed by it.
    """
    found: set[Value] = set()
    for node in nodes if captured else ():
        sizes = {v.type.size for v in node.inputs if v in found}
        found.update(v for v in node.outputs if _is_like(node, v, sizes))
    return found & captured


def _is_like(node: Node, value: Value, sizes: set[int]) -> bool:
    return node.primitive.is_convolution or (value.type.size in sizes and not value.type.stacked)
