"""Loss scaling costs no matrix products: those that only the overflow check would read are not computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn

X, Y = np.ones((8, 128), np.float32), np.ones((8, 256), np.float32)


def step_of(optimizer: Any, is_scaled: bool) -> graphls.Compiled:
    net = nn.WithLossCell(nn.SequentialCell(nn.Dense(128, 256), nn.ReLU(), nn.Dense(256, 256)), nn.MSELoss())
    update = optimizer(net.trainable_params())
    if not is_scaled:
        return graphls.compile(nn.TrainOneStepCell(net, update), X, Y)
    manager = nn.DynamicLossScaleUpdateCell(2**8, 2, 100)
    return graphls.compile(nn.TrainOneStepWithLossScaleCell(net, update, manager), X, Y)


def products(step: graphls.Compiled) -> int:
    kernels = step.profile(X, Y, steps=1).runs[0].kernels
    return sum("Gemm" in kernel.operator or "MatMul" in kernel.operator for kernel in kernels)


OPTIMIZERS: dict[str, Any] = {
    "Momentum": lambda parameters: nn.Momentum(parameters, 0.1, 0.9),
    "Adam": lambda parameters: nn.Adam(parameters, 0.1),
    "AdamWeightDecay": lambda parameters: nn.AdamWeightDecay(parameters, 0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_loss_scaling_runs_no_more_products(name: str) -> None:
    plain, scaled = (step_of(OPTIMIZERS[name], is_scaled) for is_scaled in (False, True))
    assert products(scaled) == products(plain) == 5
    backward = [{p.phase: p.flops for p in step.summary().phases}["backward"] for step in (plain, scaled)]
    assert backward[1] < 1.1 * backward[0]
