"""The pass `freeze` on training steps, beside networks whose parameters were frozen before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, api, nn
from graphls.ir.graph import walk


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.backbone = nn.Dense(4, 6, weight_init=Tensor(rng.standard_normal((6, 4)).astype(np.float32)))
        self.head = nn.Dense(6, 3, weight_init=Tensor(rng.standard_normal((3, 6)).astype(np.float32)))
        for part in (self.backbone, self.head):
            part.bias.set_data(np.zeros(part.bias.shape, np.float32))

    def construct(self, x: Any) -> Any:
        return self.head(graphls.ops.tanh(self.backbone(x)))


def step_of(net: Net, scaled: bool) -> Any:
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.AdamW(net.trainable_params(), learning_rate=1e-2)
    if not scaled:
        return nn.TrainOneStepCell(loss, optimizer).set_train()
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(256, 2, 100)).set_train()


@pytest.mark.parametrize("scaled", [False, True])
def test_a_frozen_step_is_that_of_a_network_that_was_frozen_before(scaled: bool) -> None:
    x = Tensor(np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32))
    labels = Tensor(np.arange(5, dtype=np.int32) % 3)
    before, net = Net(), Net()
    for parameter in before.backbone.get_parameters():
        parameter.requires_grad = False
    expected = graphls.compile(step_of(before, scaled), x, labels)
    whole = step_of(net, scaled)
    frozen = graphls.compile(whole, x, labels, passes=f"freeze{{match='backbone.*'}}, {api.CPU_PASSES}")
    for _ in range(3):
        first, second = expected(x, labels), frozen(x, labels)
        first, second = (found[0] if scaled else found for found in (first, second))
        np.testing.assert_allclose(second.asnumpy(), first.asnumpy(), rtol=1e-6)
    pairs = zip(before.get_parameters(), net.get_parameters(), strict=True)
    assert all(np.allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6) for a, b in pairs)
    written = {write.state.name for write in frozen.graph.writes}
    assert written == {write.state.name for write in expected.graph.writes}
    products = [sum(node.primitive.is_product for node in walk(each.graph)) for each in (expected, frozen)]
    assert products[0] == products[1]
