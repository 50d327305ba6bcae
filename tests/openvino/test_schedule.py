"""Gradients of weights are made between the layers of the backward pass, with loss scaling as without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn

pytest.importorskip("openvino")
SIZE, ROWS, LAYERS = 160, 16, 4


def step_of(scaled: bool) -> Any:
    network = nn.SequentialCell(*(nn.Dense(SIZE, SIZE, activation="tanh") for _ in range(LAYERS)))
    loss = nn.WithLossCell(network, nn.MSELoss())
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    manager = nn.DynamicLossScaleUpdateCell(2.0**10, 2, 1000)
    given = (loss, optimizer, manager) if scaled else (loss, optimizer)
    return (nn.TrainOneStepWithLossScaleCell if scaled else nn.TrainOneStepCell)(*given).set_train()


def products(model: Any) -> list[bool]:
    """Whether each product behind the forward pass, in the order in which they run, is a gradient of weights."""
    found = []
    for operator in model.get_runtime_model().get_ops():
        facts = operator.get_rt_info()
        if facts["layerType"].astype(str) == "MatMul":
            shape = tuple(operator.output(0).get_partial_shape().to_shape())
            found.append((int(facts["execOrder"].astype(str)), shape == (SIZE, SIZE)))
    return [is_of_weights for _, is_of_weights in sorted(found)][LAYERS:]


@pytest.mark.parametrize("scaled", [False, True])
def test_products_for_weights_stand_between_those_for_values(scaled: bool, parts: list[Any]) -> None:
    x = np.ones((ROWS, SIZE), np.float32)
    step = graphls.compile(step_of(scaled), x, x, engine="openvino")
    step(x, x)
    order = products(parts[0].compiled)
    assert sorted(order) == [False] * (LAYERS - 1) + [True] * LAYERS
    assert True in order[:2], "gradients of weights wait for the end of the backward pass"


def test_the_reciprocal_of_a_number_is_that_of_numpy() -> None:
    for value in (3.0, 2.0**20, -0.5, np.inf, np.nan, 0.0):
        x = np.full((), value, np.float32)
        step = graphls.compile(lambda s: graphls.ops.reciprocal(s), x, engine="openvino")
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(step(x).asnumpy(), np.reciprocal(x))
