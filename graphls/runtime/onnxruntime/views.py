"""Removes reshapes before the outputs of a segment, which are given in the shape they are computed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx import GraphProto, NodeProto

from graphls.runtime.lowering.lowering import Lowered
from graphls.runtime.lowering.protos import operators

MAKERS = frozenset(("Gemm", "MatMul", "Transpose"))
"""Operators whose results have shapes that the runtime infers from those of their operands."""


def without_views(lowered: Lowered) -> Lowered:
    """The model with outputs that are views of large results, such as gradients of kernels, given as these are made.

    ONNX Runtime (1.19 to 1.31) copies what a Reshape gives where that leaves the model, 5 ms for a ResNet-50's 94 MB;
    who binds a buffer can give it any shape. `session.get_outputs` tells the shape, which the model leaves open.
    """
    graph = lowered.model.graph
    makers = {name: node for node in graph.node for name in node.output}
    places = {info.name: info for info in graph.output}
    outputs = list(lowered.outputs)
    for i, name in enumerate(outputs):
        made = _under_views(name, makers)
        if made not in places:
            info = places[made] = places[name]
            info.name = outputs[i] = made
            info.type.tensor_type.ClearField("shape")
    _drop_unread_views(graph)
    return replace(lowered, outputs=tuple(outputs))


def _under_views(name: str, makers: Mapping[str, NodeProto]) -> str:
    """The base of a view, if an operator of this graph makes it; else the tensor itself."""
    found, node = name, makers.get(name)
    while node is not None and node.op_type == "Reshape":
        found, node = node.input[0], makers.get(node.input[0])
    return found if node is not None and node.op_type in MAKERS else name


def _drop_unread_views(graph: GraphProto) -> None:
    """Take out each Reshape that nothing reads any more; the runtime would run it."""
    needed = {info.name for info in graph.output}
    kept = []
    for node in reversed(graph.node):
        if node.op_type != "Reshape" or node.output[0] in needed:
            kept.append(node)
            needed.update(name for inner in operators([node]) for name in inner.input)
    if len(kept) < len(graph.node):
        kept.reverse()
        del graph.node[:]
        graph.node.extend(kept)
