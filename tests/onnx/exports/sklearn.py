"""Models of scikit-learn in graphls, which has no gradients of its own to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper

import graphls
import graphls.onnx

FOLDER = Path(__file__).parent / "files" / "sklearn"
X = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)


def doubled(model: ModelProto) -> ModelProto:
    """A model in float64: its inputs, outputs and tensors, and what is cast to floats."""
    double = ModelProto()
    double.CopyFrom(model)
    for info in (*double.graph.input, *double.graph.output):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in double.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for node in double.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    return double


def scores(name: str, is_double: bool = False) -> Any:
    """The network that gives probabilities, or the value of a regression."""
    model = onnx.load(FOLDER / f"{name}.onnx")
    output = model.graph.output[-1].name
    return graphls.onnx.load(doubled(model) if is_double else model, outputs=[output])
