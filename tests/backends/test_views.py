"""Outputs of segments are given as they are made, and not as views, which the runtime would copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphls
from graphls import nn
from graphls.ir.parse import parse
from graphls.passes.schedule.partition import Partition
from graphls.runtime.lowering.lowering import Lowered, lower
from graphls.runtime.lowering.weights import serialised
from graphls.runtime.onnxruntime.model import without_views
from graphls.runtime.onnxruntime.part import OrtPart

TEXT = """
graph @main(%x: f32[2,3], %y: f32[3,4]) {
  %p = matmul(%x, %y) : f32[2,4]
  %a = reshape(%p) {shape=[8]} : f32[8]
  %b = reshape(%a) {shape=[4,2]} : f32[4,2]
  %c = exp(%b) : f32[4,2]
  %d = reshape(%c) {shape=[8]} : f32[8]
  %e = reshape(%x) {shape=[6]} : f32[6]
  %t = transpose(%y) {permutation=[1,0]} : f32[4,3]
  %f = reshape(%t) {shape=[12]} : f32[12]
  %g = neg(%f) : f32[12]
  return %b, %a, %d, %e, %f, %g
}
"""


def kinds(lowered: Lowered) -> list[str]:
    makers = {name: node.op_type for node in lowered.model.graph.node for name in node.output}
    return [makers[name] for name in lowered.outputs]


def test_views_of_products_and_transpositions_are_these_and_nothing_else_is() -> None:
    lowered = without_views(lower(parse(TEXT)))
    # Only one output can be the product itself, and elementwise nodes and inputs keep their views.
    assert kinds(lowered) == ["Gemm", "Reshape", "Reshape", "Reshape", "Transpose", "Neg"]
    session = onnxruntime.InferenceSession(serialised(lowered.model))
    x, y = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    given = session.run(list(lowered.outputs), dict(zip(lowered.inputs, (x, y), strict=True)))
    product = x @ y
    known = [product, product, np.exp(product), x, y.T, -y.T]
    for array, expected in zip(given, known, strict=True):
        np.testing.assert_allclose(array.reshape(-1), expected.reshape(-1), rtol=1e-6)


def test_views_that_nothing_reads_any_more_are_gone() -> None:
    text = TEXT.replace("return %b, %a, %d, %e, %f, %g", "return %b, %d, %g")
    nodes = [node.op_type for node in without_views(lower(parse(text))).model.graph.node]
    assert nodes.count("Reshape") == 4  # %a and %b for the exponential, %d, and %f for the negation


WIDTH = 144
"""Channels for which gradients are so large that their operands are divided by the loss scale."""


class Network(nn.Cell):
    """Kernels of one place and of several, whose gradients are products in other shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.many = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 3)
        self.pool, self.last = nn.AdaptiveAvgPool2d(1), nn.Dense(WIDTH, 3)

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        return self.last(graphls.ops.flatten(self.pool(self.many(graphls.ops.relu(self.one(x))))))


def trained(backend: str = "onnxruntime") -> tuple[graphls.Compiled, list[bytes]]:
    graphls.set_seed(5)
    network = Network()
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2.0**8, 2, 3)).set_train()
    x, y = np.linspace(-1, 1, 4 * WIDTH * 9, dtype=np.float32).reshape(4, WIDTH, 3, 3), np.arange(4, dtype=np.int32) % 3
    step = graphls.compile(cell, x, y, backend=backend)
    for _ in range(3):
        step(x, y)
    return step, [parameter.asnumpy().tobytes() for parameter in step.parameters.values()]


def test_gradients_cross_without_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = trained()[1]
    monkeypatch.setattr("graphls.runtime.target.Partition", lambda engine, skips: Partition(engine, skips, 0))
    monkeypatch.setenv("GRAPHLS_CACHE", str(tmp_path))
    for _ in range(2):  # the second time with the model that the first one kept
        step, states = trained()
        assert states == known
        first = step._session.first[0]
        assert isinstance(first, OrtPart)
        crossing = {value.type.shape for value in first.gives}
        assert {(WIDTH, WIDTH, 1, 1), (WIDTH, WIDTH, 3, 3)} <= crossing
        assert (WIDTH, WIDTH, 1, 1) not in {tuple(made.shape) for made in first.session.get_outputs()}
        assert "Reshape" not in {kind for kind in kinds(first.lowered) if kind != "Identity"}
