"""Replaces the host random inputs of a model by ONNX random operators."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from graphls.base.errors import GraphValueError
from graphls.ir.graph import Node
from graphls.runtime.lowering.lowering import Lowered
from graphls.runtime.lowering.protos import copied, replace_items


def draws_itself(lowered: Lowered) -> ModelProto:
    """The model with operators of ONNX for its random inputs, which runs without graphls but with other numbers.

    The state of random numbers is left out. Raises GraphValueError for what ONNX has no random operator for.
    """
    model = copied(lowered.model)
    graph, drawn = model.graph, {name for _, name in lowered.host}
    state = {node.inputs[0].name for node, _ in lowered.host}
    left_out = drawn | {lowered.states[name] for name in state if name in lowered.states}
    nodes: list[NodeProto] = []
    for number, (node, name) in enumerate(lowered.host):
        shape = f"random.shape.{number}"
        graph.initializer.append(numpy_helper.from_array(np.array(node.output.type.shape, np.int64), shape))
        nodes += _drawing(node, name, shape)
    replace_items(graph.input, [info for info in graph.input if info.name not in left_out])
    unwanted = {lowered.writes[name] for name in state if name in lowered.writes}
    replace_items(graph.output, [info for info in graph.output if info.name not in unwanted])
    nodes += [node for node in graph.node if not unwanted.intersection(node.output)]
    replace_items(graph.node, nodes)
    return model


def _drawing(node: Node, name: str, shape: str) -> list[NodeProto]:
    """The operators that make a random tensor of a shape, as that node says."""
    primitive = node.primitive.name
    zeros = helper.make_node("ConstantOfShape", [shape], [f"{name}.zeros"], f"{name}.zeros")
    kinds = {"random_uniform": "RandomUniformLike", "random_normal": "RandomNormalLike"}
    if primitive in kinds:
        return [zeros, helper.make_node(kinds[primitive], [f"{name}.zeros"], [name], name)]
    if primitive != "random_bernoulli":
        text = f"A model that runs without graphls cannot draw as {primitive} does; leave that out."
        raise GraphValueError(text, node.loc)
    probability = numpy_helper.from_array(np.array(node.attrs["probability"], np.float32))
    return [
        zeros,
        helper.make_node("RandomUniformLike", [f"{name}.zeros"], [f"{name}.uniform"], f"{name}.uniform"),
        helper.make_node("Constant", [], [f"{name}.probability"], f"{name}.probability", value=probability),
        helper.make_node("Less", [f"{name}.uniform", f"{name}.probability"], [name], name),
    ]
