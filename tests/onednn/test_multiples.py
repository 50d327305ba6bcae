"""Products that a check and an update both read are computed once, and scaled by the update."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir import walk
from graphls.runtime.onednn.part import OnednnPart

X = np.random.default_rng(0).normal(size=(4, 200)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 10, 4).astype(np.int32)


def trained(engine: str, scale: float, width: int = 256) -> graphls.Compiled:
    graphls.set_seed(1)
    network = nn.SequentialCell(nn.Dense(200, width), nn.ReLU(), nn.Dense(width, 10))
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    update = nn.DynamicLossScaleUpdateCell(scale, 2, 3)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, update).set_train()
    return graphls.compile(cell, X, Y, engine=engine)


def parts(step: graphls.Compiled) -> list[OnednnPart]:
    session = step._session
    every = [*session.first, *(part for branch in session.branches for part in branch), *session.last]
    return [part for part in every if isinstance(part, OnednnPart)]


@pytest.mark.parametrize("width", [256, 8192])
def test_each_product_is_computed_once(width: int) -> None:
    step = trained("onednn", 2.0**10, width)
    products = [node for node in walk(step.graph) if node.primitive.name in ("matmul", "matmul_add")]
    assert len(products) > 5, "The factor pass has made no second product, so that this test tests nothing."
    assert sum(call.kind == "matrix product" for part in parts(step) for call in part.program.calls) == 5
    assert {row.engine for row in step.plan.segments} == {"onednn"}
    checks = [call for part in parts(step) for call in part.program.calls if call.node and call.node.phase == "check"]
    kinds = Counter(call.kind for call in checks)
    assert kinds["overflow check"] == 1 and kinds["reduction"] <= 3  # of each array once, small ones by NumPy


@pytest.mark.parametrize("scale", [2.0**-3, 0.75, 2.0**10, 2.0**126])
def test_flags_and_losses_are_those_of_onnx_runtime(scale: float) -> None:
    results: list[Any] = []
    for engine in ("onednn", "onnxruntime"):
        step = trained(engine, scale)
        results.append(np.array([[float(v.asnumpy()) for v in step(X, Y)] for _ in range(8)]))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    assert (results[0][:, 1:] == results[1][:, 1:]).all()


def test_a_product_that_overflows_only_by_its_number_is_noticed() -> None:
    """A scale below 1 divides: a finite gradient of 3e38 is none that is finite when it is multiplied by 8."""
    x = np.full((4, 200), 1e19, np.float32)
    flags = []
    for engine in ("onednn", "onnxruntime"):
        graphls.set_seed(1)
        network = nn.SequentialCell(nn.Dense(200, 256, weight_init="zeros"))
        loss = nn.WithLossCell(network, nn.MSELoss())
        optimizer = nn.SGD(network.trainable_params(), 0.1)
        update = nn.FixedLossScaleUpdateCell(2.0**-3)
        cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, update).set_train()
        target = np.full((4, 256), 2e21, np.float32)
        flags.append(bool(graphls.compile(cell, x, target, engine=engine)(x, target)[1].asnumpy()))
    assert flags[0] == flags[1]
