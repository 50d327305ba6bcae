"""The ONNX form of loops is well typed, in native half precision too, and casts what it captures once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn, ops
from graphls.runtime.lowering import lower

X = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)


def network(x: Any, w: Any) -> Any:
    low, weight = ops.cast(x, graphls.float16), ops.cast(w, graphls.float16)

    def body(c: Any, a: Any) -> Any:
        c = ops.cond(ops.sum(c) > 0, lambda v: ops.matmul(v, weight) + a, lambda v: v * a, c)
        return ops.while_loop(lambda v: ops.sum(v * v) > 100.0, lambda v: v * 0.5, c), c

    return ops.scan(body, low[0], low, reverse=True)


def step() -> Any:
    return graphls.compile(network, X, np.eye(3, dtype=np.float32), backend="numpy")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_model_is_well_typed(device: str) -> None:
    model = lower(step().graph, device=device).model
    onnx.checker.check_model(model, full_check=True)
    assert [n.op_type for n in model.graph.node].count("Scan") == 1


def test_captured_halves_are_widened_before_the_loop() -> None:
    """What the region multiplies by is the float32 form of the weight, made once."""
    model = lower(step().graph).model
    (scan,) = (n for n in model.graph.node if n.op_type == "Scan")
    (body,) = (a.g for a in scan.attribute if a.name == "body")
    made = {name for n in model.graph.node for name in n.output}
    branches = [a.g for n in body.node if n.op_type == "If" for a in n.attribute]
    (product,) = (n for branch in branches for n in branch.node if n.op_type == "Gemm")
    assert product.input[1] in made


def test_a_training_step_of_a_layer_is_well_typed() -> None:
    lstm = nn.LSTM(3, 4, 2, bidirectional=True).to_float(graphls.float16)
    network = nn.WithLossCell(nn.SequentialCell(First(lstm), nn.Dense(8, 2)), nn.MSELoss())
    cell = nn.TrainOneStepWithLossScaleCell(
        network, nn.Adam(network.trainable_params(), 0.01), nn.DynamicLossScaleUpdateCell(16, 2, 3)
    )
    y = np.zeros((5, 2, 2), np.float32)
    for mode in ("outputs", "window"):
        graph = graphls.compile(cell, X, y, backend="numpy", overflow_mode=mode).graph
        for device in ("cpu", "cuda"):
            onnx.checker.check_model(lower(graph, device=device).model, full_check=True)


class First(nn.Cell):
    """The first of the results of a cell."""

    def __init__(self, cell: Any) -> None:
        super().__init__(auto_prefix=False)
        self.cell = cell

    def construct(self, x: Any) -> Any:
        return self.cell(x)[0]
