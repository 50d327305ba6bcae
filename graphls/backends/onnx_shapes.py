"""Types of the tensors inside an ONNX model, where its standard operators tell them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

TELLS_SHAPES = 4096
"""Bytes up to which a constant is shown to shape inference, which reads the sizes and axes that it holds."""

DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def with_types(model: ModelProto, with_functions: bool = True) -> ModelProto:
    """A copy whose tensors have their types in `value_info`, and whose large constants have no data.

    A model for which inference fails comes back with the types that it had. Without functions, what a call of
    one gives has no type.
    """
    light = ModelProto()
    light.CopyFrom(model)
    for graph in graphs(light.graph):
        for tensor in graph.initializer:
            _drop_data(tensor)
    if not with_functions:
        light.ClearField("functions")
    try:
        return onnx.shape_inference.infer_shapes(light)
    except Exception:  # errors of its C++ code have no common class; types are a help for the reader only
        return light


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and those inside of its nodes."""
    yield graph
    for node in graph.node:
        for _, inner in subgraphs(node):
            yield from graphs(inner)


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs among the attributes of a node, with the names of the attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}_{number}", graph


def _drop_data(tensor: TensorProto) -> None:
    if tensor.ByteSize() > TELLS_SHAPES:
        for field in DATA:
            tensor.ClearField(field)
