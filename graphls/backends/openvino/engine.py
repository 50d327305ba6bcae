"""Which nodes of a graph OpenVINO computes with the numbers that they should have."""

from __future__ import annotations

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, bfloat16, bool_, float32, int32

EXACT = {float32, bfloat16, bool_, TOKEN.dtype}
"""What it computes in. It takes float64 for float32, float16 without its limits, int64 for int32, and compares int32 by
way of float32."""

ELSEWHERE = {"fmod", "mod"}
"""Primitives that it gets wrong where the divisor is infinite."""


def takes(node: Node) -> bool:
    """Whether a node may be computed here: without integers, but for those that are only moved or become floats.

    An index out of range ends the process or gives zeros, so that nodes that take indices stay elsewhere; and so do
    those with regions, those that give or take nothing, and those whose results the host draws.
    """
    primitive = node.primitive
    if node.regions or primitive.takes_indices or primitive.on_host or primitive.name in ELSEWHERE:
        return False
    values = (*node.inputs, *node.outputs)
    if any(v.type != TOKEN and (v.type.stacked or not v.type.size) for v in values):
        return False
    # The positions of max_pool count the elements of a tensor, which are few enough for int32.
    computed = node.inputs if primitive.name == "max_pool" else values
    return all(map(_is_exact, computed)) or _only_reads_integers(node)


def _is_exact(value: Value) -> bool:
    return value.type.dtype in EXACT


def _only_reads_integers(node: Node) -> bool:
    """Whether int32 is moved, or made a float."""
    primitive, kinds = node.primitive, {v.type.dtype for v in (*node.inputs, *node.outputs)} - EXACT
    if kinds != {int32}:
        return False
    becomes_floats = primitive.name in ("cast", "one_hot") and all(v.type.dtype.is_float for v in node.outputs)
    return becomes_floats or primitive.is_constant or (primitive.is_view and not primitive.is_transparent)
