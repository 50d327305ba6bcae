"""A step through convolutions of many channels, whose gradients take other forms than those of few."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphls
from graphls import nn, ops


class Network(nn.Cell):
    """Convolutions with kernels of sizes 1 and 3 behind normalisations, a padded pool and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 128, 3, weight_init="normal")
        self.norm = nn.BatchNorm2d(128)
        self.pool = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        self.second = nn.Conv2d(128, 128, 3, weight_init="normal")
        self.third = nn.Conv2d(128, 64, 1, weight_init="normal")
        self.last = nn.Dense(64, 4)

    def construct(self, x: graphls.Tensor) -> Any:
        x = self.pool(ops.relu(self.norm(self.first(x))))
        x = ops.relu(x + self.norm(self.second(x)))
        return self.last(ops.mean(ops.relu(self.third(x)), (2, 3)))


def states_after_steps(backend: str) -> dict[str, np.ndarray]:
    """The parameters after three steps from the same start."""
    graphls.set_seed(1)
    random = np.random.default_rng(2)
    x, y = random.normal(size=(16, 3, 8, 8)).astype(np.float32), random.integers(0, 4, 16).astype(np.int32)
    network = nn.WithLossCell(Network(), nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    cell = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.05, 0.9)).set_train()
    step = graphls.compile(cell, x, y, backend=backend)
    for _ in range(3):
        step(x, y)
    return {parameter.name: parameter.asnumpy() for parameter in network.get_parameters()}


def test_both_backends_train_alike() -> None:
    expected = states_after_steps("numpy")
    for name, found in states_after_steps("onnxruntime").items():
        np.testing.assert_allclose(found, expected[name], rtol=2e-3, atol=2e-4, err_msg=name)
