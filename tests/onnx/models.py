"""Small ONNX models that tests load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper, parser

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def tensor(name: str, shape: Sequence[Any] | None, kind: int = FLOAT) -> ValueInfoProto:
    """What a model declares of an input or an output."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto | str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
    **more: Any,
) -> ModelProto:
    """A model of some nodes; outputs that are names are of floats."""
    arrays = {name: np.asarray(value) for name, value in (constants or {}).items()}
    held = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    infos = [tensor(o, None) if isinstance(o, str) else o for o in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), infos, held)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """A node, whose inputs and outputs are names with spaces between, "_" for one that is left out."""
    names = [["" if n == "_" else n for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(kind, *names, **attributes)


def filled(text: str, dtype: Any = np.float32, **shapes: tuple[int, ...]) -> ModelProto:
    """A model in ONNX's own text, whose tensors of these names are random."""
    made, draw = parser.parse_model(text), np.random.default_rng(3)
    kept = [tensor for tensor in made.graph.initializer if tensor.name not in shapes]
    arrays = {name: 0.5 * draw.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    del made.graph.initializer[:]
    made.graph.initializer.extend([*kept, *(numpy_helper.from_array(a, name) for name, a in arrays.items())])
    return made


def perceptron(seed: int = 0) -> ModelProto:
    """x -> relu(x @ w + b) @ v, for x of (batch, 3); v is a Constant."""
    draw = np.random.default_rng(seed)
    w, v = draw.normal(size=(3, 8)).astype(np.float32), draw.normal(size=(8, 2)).astype(np.float32)
    nodes = [
        node("Constant", "", "v", value=numpy_helper.from_array(v)),
        node("MatMul", "x w", "y", name="/first/MatMul"),
        node("Add", "y b", "z", name="/first/Add"),
        node("Relu", "z", "h", name="/act/Relu"),
        node("MatMul", "h v", "out", name="/second/MatMul"),
    ]
    constants = {"w": w, "b": np.zeros(8, np.float32)}
    return model(nodes, [tensor("x", ["batch", 3])], [tensor("out", ["batch", 2])], constants)
