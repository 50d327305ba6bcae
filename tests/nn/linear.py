"""A linear network, and the same in float64 with stochastic gradient descent, for tests of training steps."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphls
from graphls import nn, ops

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
RNG = np.random.default_rng(0)
WEIGHT, BIAS = RNG.normal(size=(4, 3)), RNG.normal(size=3)
BATCHES = [(RNG.normal(size=(2, 4)).astype(F32), RNG.normal(size=(2, 3)).astype(F32)) for _ in range(7)]
OVERFLOW = (np.full((2, 4), np.inf, F32), BATCHES[0][1])


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(WEIGHT.astype(F32), name="weight")
        self.bias = graphls.Parameter(BIAS.astype(F32), name="bias")

    def construct(self, x: Any) -> Any:
        return ops.matmul(x, self.weight) + self.bias


def with_loss() -> tuple[Any, Any]:
    net = Net()
    return net, nn.WithLossCell(net, nn.MSELoss())


class Reference:
    """The same network in float64: loss and gradients, stochastic gradient descent, and an average of the weights."""

    def __init__(self, rate: float) -> None:
        self.weights = [WEIGHT.astype(F32).astype(float), BIAS.astype(F32).astype(float)]
        self.rate = rate
        self.average = [w.copy() for w in self.weights]

    def gradients(self, x: Any, y: Any) -> tuple[float, list[Any]]:
        error = x @ self.weights[0] + self.weights[1] - y
        slope = 2 * error / error.size
        return float((error**2).mean()), [x.T @ slope, slope.sum(0)]

    def descend(self, grads: list[Any]) -> None:
        self.weights = [w - self.rate * g for w, g in zip(self.weights, grads, strict=True)]

    def average_with(self, decay: float) -> None:
        self.average = [a * decay + w * (1 - decay) for a, w in zip(self.average, self.weights, strict=True)]


def check(parameters: Any, arrays: Any) -> None:
    for parameter, array in zip(parameters, arrays, strict=True):
        np.testing.assert_allclose(parameter.asnumpy(), array, rtol=2e-5, atol=1e-6)
