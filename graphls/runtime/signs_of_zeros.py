"""Where the sign of a zero is read: sums of products are the same without it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from graphls.ir.graph import Node, Value
from graphls.passes.rewriter import users


def signs_matter(value: Value, readers: Mapping[Value, Sequence[Node]], leaving: Collection[Value]) -> bool:
    """Whether the sign of a zero of a value, or of what it is moved or scaled to, is read by other than products."""
    return value in leaving or any(
        signs_matter(node.output, readers, leaving) if _passes(node) else not _multiplies(node, value)
        for node in readers.get(value, ())
    )


def without_signs(nodes: Sequence[Node], leaving: Collection[Value]) -> set[Value]:
    """The results of `quantize` in a block of which products alone read what is dequantized."""
    if not any(node.primitive.name == "quantize" for node in nodes):
        return set()
    readers = users(nodes)
    low = (node.output for node in nodes if node.primitive.name == "quantize")
    return {value for value in low if not signs_matter(value, readers, leaving)}


def _passes(node: Node) -> bool:
    """Whether a node gives on the signs of its first operand."""
    return node.primitive.moves or node.primitive.name == "dequantize"


def _multiplies(node: Node, value: Value) -> bool:
    """Whether a node sums products of a value, and does not read it otherwise."""
    return node.primitive.summed_axes is not None and not node.regions and value not in node.inputs[2:]
