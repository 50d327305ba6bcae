"""Models in float64, and gradients along random directions beside differences of the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

import graphls
from graphls import ops

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
STEPS = (1e-5, 1e-6, 1e-7, 1e-8)
"""Lengths of steps: shorter ones cross fewer kinks, longer ones have fewer roundings."""
ENOUGH = 1e-6
NOISE = 1e-6
"""The part of the loss, and of its whole gradient, below which the gradient of a tensor is 0 but for roundings."""


def doubled(model: ModelProto) -> ModelProto:
    """A model in float64: what it declares, its tensors, and what its nodes cast to floats or make."""
    double = ModelProto()
    double.CopyFrom(model)
    for nodes in [double.graph.node, *(function.node for function in double.functions)]:
        _double_nodes(nodes)
    _double_graph(double.graph)
    return double


def _double_graph(graph: GraphProto) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in FLOATS:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        _double_tensor(tensor)


def _double_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in FLOATS:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def _double_nodes(nodes: Any) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _double_tensor(attribute.t)
            for graph in _graphs(attribute):
                _double_nodes(graph.node)
                _double_graph(graph)
        _double_attributes(node)


def _graphs(attribute: AttributeProto) -> Iterator[GraphProto]:
    yield from ([attribute.g] if attribute.HasField("g") else attribute.graphs)


def _double_attributes(node: NodeProto) -> None:
    for attribute in node.attribute:
        if (node.op_type, attribute.name) == ("Cast", "to") and attribute.i in FLOATS:
            attribute.i = TensorProto.DOUBLE
        if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            array = np.array(attribute.f if attribute.name == "value_float" else attribute.floats, np.float64)
            attribute.CopyFrom(AttributeProto(name="value", type=AttributeProto.TENSOR))
            attribute.t.CopyFrom(numpy_helper.from_array(array))


def gradients_difference(loss: Any, parameters: list[Any], inputs: list[Any]) -> float:
    """How far the gradient of any parameter, along a random direction, is from differences of the loss.

    In units of what the direction could change: its length times that of the gradient.
    """
    draw = np.random.default_rng(3)
    gradients = [g.asnumpy() for g in ops.grad(loss, None, parameters)(*inputs)]
    whole = np.sqrt(sum(np.square(g).sum() for g in gradients))
    least = NOISE * max(float(whole), abs(float(loss(*inputs).asnumpy())))
    found = []
    for parameter, g in zip(parameters, gradients, strict=True):
        length = np.linalg.norm(g)
        # Part of the way along the gradient: a direction of many elements would hardly see it.
        direction = 0.5 * _unit(draw.normal(size=g.shape)) + _unit(g)
        scale = max(length, least) * np.linalg.norm(direction)
        found.append(_difference(loss, parameter, direction, float((g * direction).sum()), inputs) / scale)
    return float(np.max(found))


def _unit(x: Any) -> Any:
    return x / (np.linalg.norm(x) or 1)


def _difference(loss: Any, parameter: Any, direction: Any, slope: float, inputs: list[Any]) -> float:
    """How far a slope is from the nearest of the differences of the loss by several steps, until one is near enough."""
    value, least = parameter.asnumpy().copy(), np.inf
    for step in STEPS:
        sides = []
        for sign in (1, -1):
            parameter.set_data(graphls.Tensor(value + sign * step * direction))
            sides.append(float(loss(*inputs).asnumpy()))
        least = min(least, abs((sides[0] - sides[1]) / (2 * step) - slope))
        if least < ENOUGH * abs(slope):
            break
    parameter.set_data(graphls.Tensor(value))
    return least
