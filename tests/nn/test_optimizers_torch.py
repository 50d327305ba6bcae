"""Optimizers against numbers that PyTorch 2.13 computed once, in float64, where the formulas are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn

STEPS = 100

# 100 steps from w = (1, -2, 0.5) by the gradients of `gradient` with the class and the settings beside each row.
CASES: list[Any] = [
    # AdamW(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3)
    (lambda w: nn.AdamW(w, 0.02, (0.8, 0.95), 1e-3, 0.3), [1.0915253, -1.11758369, -0.32098529]),
    # AdamW(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3, amsgrad=True)
    (lambda w: nn.AdamW(w, 0.02, (0.8, 0.95), 1e-3, 0.3, amsgrad=True), [1.08008871, -1.11751161, -0.31255874]),
    # Adamax(lr=0.02, betas=(0.8, 0.95), eps=1e-9, weight_decay=0.1)
    (lambda w: nn.AdaMax(w, 0.02, 0.8, 0.95, 1e-9, 0.1), [1.30204391, -1.68081779, -0.05323683]),
    # Adadelta(lr=2.0, rho=0.8, eps=1e-3, weight_decay=0.1)
    (lambda w: nn.Adadelta(w, 2.0, 0.8, 1e-3, weight_decay=0.1), [2.52856133, -0.47446601, -2.18247]),
    # Adagrad(lr=0.1, initial_accumulator_value=0.1, eps=0, weight_decay=0.1)
    (lambda w: nn.Adagrad(w, 0.1, 0.1, weight_decay=0.1), [1.34686379, -1.63965498, -0.22063336]),
    # Adam(lr=0.02, betas=(0.8, 0.95), eps=1e-12, weight_decay=0.1)
    (lambda w: nn.Adam(w, 0.02, 0.8, 0.95, 1e-12, weight_decay=0.1), [1.43017352, -1.55689991, -0.31103499]),
    # SGD(lr=0.02, momentum=0.7, dampening=0.2, weight_decay=0.1)
    (lambda w: nn.SGD(w, 0.02, 0.7, 0.2, 0.1), [1.80754589, -1.20548525, -0.96962831]),
    # SGD(lr=0.02, momentum=0.7, nesterov=True)
    (lambda w: nn.SGD(w, 0.02, 0.7, nesterov=True), [2.92648964, -2.05078135, -1.51723281]),
    (lambda w: nn.Momentum(w, 0.02, 0.7, use_nesterov=True), [2.92648964, -2.05078135, -1.51723281]),
    # RMSprop(lr=0.02, alpha=0.8, eps=0, momentum=0.7, weight_decay=0.1)
    (lambda w: from_zero(nn.RMSProp(w, 0.02, 0.8, 0.7, 1e-12, weight_decay=0.1)),
     [2.06346571, -0.92007669, -1.47094778]),
    # RMSprop(lr=0.02, alpha=0.8, eps=0, momentum=0.7, centered=True)
    (lambda w: from_zero(nn.RMSProp(w, 0.02, 0.8, 0.7, 1e-12, centered=True)), [3.7975239, -2.12157458, -2.35709482]),
]  # fmt: skip


def from_zero(optimizer: nn.RMSProp) -> nn.RMSProp:
    """PyTorch's mean of squares begins at 0, MindSpore's at 1."""
    for state in optimizer.ms:
        state.set_data(np.zeros(state.shape, np.float32))
    return optimizer


def gradient(t: int) -> Any:
    return np.array([np.cos(0.7 * t * (i + 1)) + 0.3 * (i - 1) for i in range(3)], np.float32)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_same_numbers_as_pytorch(number: int) -> None:
    make, expected = CASES[number]
    w = graphls.Parameter(np.array([1.0, -2.0, 0.5], np.float32), name="w")
    step = graphls.compile(make([w]), (gradient(0),))
    for t in range(STEPS):
        step((gradient(t),))
    np.testing.assert_allclose(w.asnumpy(), expected, rtol=2e-5, atol=1e-6)
