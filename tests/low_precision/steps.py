"""Steps whose products are low, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn
from graphls.base.errors import GraphRuntimeError
from graphls.runtime.onednn.library import library

X = np.random.default_rng(1).standard_normal((16, 24)).astype(np.float32)
LABELS = np.random.default_rng(2).integers(0, 5, 16).astype(np.int32)

RECIPES: dict[str, amp.Recipe] = {
    "delayed": amp.DelayedScaling(amax_history_len=3),
    "current": amp.CurrentScaling(),
    "block": amp.BlockScaling(),
    "mx": amp.MXFP8(),
    "nvfp4": amp.NVFP4(),
}


def network(recipe: amp.Recipe | None = None) -> nn.SequentialCell:
    """A perceptron with two layers, of equal weights in each call."""
    graphls.set_seed(3)
    net = nn.SequentialCell(nn.Dense(24, 32), nn.ReLU(), nn.Dense(32, 5))
    return net if recipe is None else amp.auto_mixed_precision(net, recipe)  # type: ignore[return-value]


def training(net: nn.Cell, scale: float | None = None) -> nn.Cell:
    """A training step of a network, with dynamic loss scaling from `scale` on."""
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    if scale is None:
        return nn.TrainOneStepCell(loss, optimizer)
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(scale, 2, 1000))


def compiled(net: nn.Cell, scale: float | None = None, **options: Any) -> Any:
    """The compiled training step."""
    return graphls.compile(training(net, scale), X, LABELS, **options)


def named(graph: Any, name: str) -> list[Any]:
    """The nodes of a primitive, also in regions."""
    return [node for node in graphls.ir.walk(graph) if node.primitive.name == name]


def require_engine(engine: str) -> None:
    """Skip the test where what the engine needs is not installed."""
    if engine == "xla":
        pytest.importorskip("jax")
    if engine == "onednn":
        try:
            library()
        except GraphRuntimeError as error:
            pytest.skip(error.message)
