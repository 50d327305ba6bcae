"""Types of the tensors inside an ONNX model, where its operators tell them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from onnx import GraphProto, ModelProto, NodeProto

TELLS_SHAPES = 4096
"""Bytes up to which a constant is shown to shape inference, which reads the sizes and axes that it holds."""

DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def with_types(model: ModelProto) -> ModelProto:
    """A copy of a model that graphls made, with the types of its tensors in `value_info`, without large constants."""
    light = without_data(model)
    try:
        return onnx.shape_inference.infer_shapes(light)
    except Exception:  # of many kinds: types are a help for the reader, and no reason not to save a model
        return light


def without_data(model: ModelProto) -> ModelProto:
    """A copy whose large constants have no data."""
    light = ModelProto()
    light.CopyFrom(model)
    for graph in graphs(light.graph):
        for tensor in graph.initializer:
            if tensor.ByteSize() > TELLS_SHAPES:
                for field in DATA:
                    tensor.ClearField(field)
    return light


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and those inside of its nodes."""
    yield graph
    for node in operators(graph.node):
        yield from (inner for _, inner in subgraphs(node))


def operators(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Operators, each before those of the graphs inside of it."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node):
            yield from operators(graph.node)


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs among the attributes of a node, with the names of the attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}_{number}", graph
