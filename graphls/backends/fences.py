"""What is kept apart from the convolution before it, because ONNX Runtime before 1.24 ends the process otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.ir.graph import Node, Value, captures

CONVOLUTIONS = ("convolution", "convolution_input_gradient")


def is_alias(node: Node) -> bool:
    """Whether a node gives its operand, which its result is another name of."""
    primitive: Any = node.primitive
    return bool(primitive.onnx == "Identity" and primitive.half == "native")


def fenced(nodes: Sequence[Node]) -> set[Value]:
    """The values of a block that branches or loops read and that may be computed by a convolution.

    Where nothing but an If reads the result of a Conv, the runtime's ConvActivationFusion looks for an operand that the
    If does not have. A Reshape to the same shape, which copies nothing, stands between them and stays through all of
    the runtime's optimizations. What a convolution adds, multiplies or passes on may be fused with it
    before, so each value as large as its result counts as computed by it.
    """
    captured = {v for node in nodes for region in node.regions for v in captures(region)}
    if not captured:
        return captured
    for node in reversed(nodes):
        if is_alias(node) and node.output in captured:
            captured.add(node.inputs[0])
    found: set[Value] = set()
    for node in nodes:
        sizes = {v.type.size for v in node.inputs if v in found}
        found.update(v for v in node.outputs if _is_like(node, v, sizes))
    return found & captured


def _is_like(node: Node, value: Value, sizes: set[int]) -> bool:
    return node.primitive.name in CONVOLUTIONS or (value.type.size in sizes and not value.type.stacked)
