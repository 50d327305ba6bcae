"""Which nodes of a graph OpenVINO computes with the numbers that they should have."""

from __future__ import annotations

from graphls.backends.onnx.indices import axis_size
from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, bfloat16, bool_, float32, int32, int64

EXACT = {float32, bfloat16, bool_, TOKEN.dtype}
"""What it computes in. It takes float64 for float32, float16 without its limits, int64 for int32, and compares int32 by
way of float32."""

LONGEST = 1 << 24
"""The longest axis of which every index is a float32, by way of which an index is compared with its size."""


def takes(node: Node) -> bool:
    """Whether a node may be computed here: it has no integers but those that are moved, become floats or are indices.

    Remainders, nodes with regions, those that give or take nothing, and those that the host draws stay elsewhere.
    """
    primitive = node.primitive
    if node.regions or primitive.on_host or primitive.is_remainder:
        return False
    values = (*node.inputs, *node.outputs)
    if any(v.type != TOKEN and (v.type.stacked or not v.type.size) for v in values):
        return False
    if primitive.takes_indices and axis_size(node) > LONGEST:
        return False
    return all(map(_is_exact, values)) or _only_reads_integers(node) or _counts_positions(node)


def _is_exact(value: Value) -> bool:
    return value.type.dtype in EXACT


def _only_reads_integers(node: Node) -> bool:
    """Whether int32 is moved, counted up, or chooses from floats."""
    primitive = node.primitive
    if {v.type.dtype for v in (*node.inputs, *node.outputs)} - EXACT != {int32}:
        return False
    chooses = primitive.takes_indices and all(map(_is_exact, node.outputs))
    return chooses or primitive.name == "add" or primitive.flops_per_element == 0


def _counts_positions(node: Node) -> bool:
    """Whether int64 are positions in an image, which int32 holds, or become int32, which they are already."""
    source = node.inputs[0].type if node.inputs else TOKEN
    if node.primitive.name == "max_pool":
        return source.dtype in EXACT and source.size < 2**31
    return node.primitive.name == "cast" and (source.dtype, node.output.type.dtype) == (int64, int32)
