"""Types of the tensors inside an ONNX model, where its operators tell them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

import onnx
from onnx import GraphProto, ModelProto, NodeProto

TELLS_SHAPES = 4096
"""Bytes up to which a constant is shown to shape inference, which reads the sizes and axes that it holds."""

DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")

MOST_SECONDS, MOST_MEMORY = 20, 2**32
"""What inferring the types of a model of others may take."""

_INFER = f"""
import sys
sys.path[:] = sys.argv[1:]
try:
    import resource
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY} if hard < 0 else min(hard, {MOST_MEMORY}), hard))
except ImportError:  # Windows, where a time limit must do
    pass
from onnx import shape_inference
model = sys.stdin.buffer.read()
typed = shape_inference.infer_shapes(model).SerializeToString()
sys.stdout.buffer.write(typed if len(typed) < 20 * len(model) + 1_000_000 else model)
"""


def with_types(model: ModelProto) -> ModelProto:
    """A copy of a model that graphls made, with the types of its tensors in `value_info`, without large constants."""
    light = without_data(model)
    try:
        return onnx.shape_inference.infer_shapes(light)
    except Exception:  # of many kinds: types are a help for the reader, and no reason not to save a model
        return light


def with_types_of_others(model: ModelProto, with_functions: bool) -> ModelProto:
    """The same for any model: what inference does not find out stays unknown.

    A file of 200 bytes can make shape inference fill all memory, so it runs in a process of its own, with limits; a
    model that tells all types is not looked at. Without functions, what a call of one gives has no type.
    """
    light = without_data(model)
    if not with_functions:
        light.ClearField("functions")
    if all(map(_tells_types, graphs(light.graph))):
        return light
    command, environment = [sys.executable, "-c", _INFER, *sys.path], {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    try:
        data = light.SerializeToString()
        done = subprocess.run(
            command, input=data, capture_output=True, check=True, timeout=MOST_SECONDS, env=environment
        )
        light.ParseFromString(done.stdout)
    except Exception:  # of many kinds: the graph is then shown without types
        return without_data(model)
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


def _tells_types(graph: GraphProto) -> bool:
    told = {info.name for info in (*graph.value_info, *graph.output) if info.HasField("type")}
    return all(name in told for node in graph.node for name in node.output if name)


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
