"""Single numbers meet tensors that end with axes of size 1 as tensors of their rank, for which kernels are not slow."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn
from graphls.inspect.testing.samples import run
from graphls.ir import interpret, parse
from graphls.runtime.lowering import lower

ELEMENTWISE = ("Mul", "Add", "Sub", "Div", "Min", "Greater", "Where")


def slow_operators(model: onnx.ModelProto) -> list[str]:
    """Elementwise operators of a number that has fewer axes than another operand, which ends with one of size 1."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    described = (*inferred.value_info, *inferred.input, *inferred.output)
    shapes = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in described}
    shapes |= {tensor.name: list(tensor.dims) for tensor in inferred.initializer}

    def is_slow(node: onnx.NodeProto) -> bool:
        given = [shapes[name] for name in node.input]
        widest = max(given, key=len)
        numbers = [shape for shape in given if np.prod(shape) == 1]
        return np.prod(widest) > 300 and widest[-1:] == [1] and any(len(shape) < len(widest) for shape in numbers)

    return [node.op_type for node in inferred.node if node.op_type in ELEMENTWISE and is_slow(node)]


def test_no_operator_of_a_training_step_broadcasts_slowly() -> None:
    network = nn.SequentialCell(nn.Conv2d(24, 24, 1), nn.Sigmoid(), nn.ReLU(), nn.Flatten(), nn.Dense(24, 3))
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    x, y = np.ones((16, 24, 1, 1), np.float32), np.zeros(16, np.int32)
    for optimizer in (nn.Momentum, nn.Adam):
        options = {"momentum": 0.9} if optimizer is nn.Momentum else {}
        cell = nn.TrainOneStepCell(
            loss, optimizer(network.trainable_params(), learning_rate=0.1, **options)
        ).set_train()
        step = graphls.compile(cell, x, y)
        assert slow_operators(lower(step.graph).model) == []
    assert slow_operators(lower(step.graph, device="cuda").model)  # where it would be one operator more for nothing


@pytest.mark.parametrize("number", ["f32[]", "f32[1]", "f32[1,1]"])
def test_the_numbers_stay(number: str) -> None:
    text = f"""graph @g(%x: f32[20,20,1,1], %s: {number}, %c: bool[]) {{
      %a = mul(%x, %s) : f32[20,20,1,1]
      %b = sub(%s, %a) : f32[20,20,1,1]
      %d = where(%c, %a, %b) : f32[20,20,1,1]
      %e = sigmoid(%d) : f32[20,20,1,1]
      return %b, %e
    }}"""
    graph = parse(text)
    shape = tuple(graph.inputs[1].type.shape)
    arrays = [
        np.linspace(-3, 3, 400, dtype=np.float32).reshape(20, 20, 1, 1),
        np.full(shape, 0.7, np.float32),
        np.array(True),
    ]
    lowered = lower(graph)
    assert slow_operators(lowered.model) == []
    for found, expected in zip(run(lowered, graph, arrays), interpret(graph, arrays)[0], strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6)
