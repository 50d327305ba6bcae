"""Operator classes of activations and losses are the functions they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls import ops
from tests.ops.agree import agree

X = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
P, Q = 1 / (1 + np.exp(-X)), 1 / (1 + np.exp(-X[::-1]))
W = np.array([0.5, 1, 2], np.float32)

CASES: list[tuple[str, dict[str, Any], Any, tuple[Any, ...]]] = [
    ("FastGeLU", {}, ops.fast_gelu(X), (X,)),
    ("HSigmoid", {}, ops.hardsigmoid(X), (X,)),
    ("HSwish", {}, ops.hardswish(X), (X,)),
    ("L2Loss", {}, (X**2).sum() / 2, (X,)),
    ("Mish", {}, ops.mish(X), (X,)),
    ("PReLU", {}, ops.prelu(X, W), (X, W)),
    ("ReLU6", {}, ops.relu6(X), (X,)),
    ("SeLU", {}, ops.selu(X), (X,)),
    ("Softplus", {}, ops.softplus(X), (X,)),
    ("Softsign", {}, ops.softsign(X), (X,)),
    ("CeLU", {"alpha": 0.5}, ops.celu(X, 0.5), (X,)),
    ("Elu", {"alpha": 0.5}, ops.elu(X, 0.5), (X,)),
    ("HShrink", {"lambd": 0.1}, ops.hardshrink(X, 0.1), (X,)),
    ("SoftShrink", {"lambd": 0.1}, ops.softshrink(X, 0.1), (X,)),
    ("BCEWithLogitsLoss", {}, ops.binary_cross_entropy_with_logits(X, Q, W, W), (X, Q, W, W)),
    ("BinaryCrossEntropy", {"reduction": "none"}, ops.binary_cross_entropy(P, Q, reduction="none"), (P, Q)),
    ("KLDivLoss", {"reduction": "sum"}, ops.kl_div(X, Q, "sum"), (X, Q)),
    ("SmoothL1Loss", {"beta": 0.3}, ops.smooth_l1_loss(X, Q, 0.3), (X, Q)),
    ("SoftMarginLoss", {}, ops.soft_margin_loss(X, np.sign(Q - 0.5)), (X, np.sign(Q - 0.5))),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_operator_classes(number: int) -> None:
    name, settings, expected, inputs = CASES[number]
    agree(getattr(ops, name)(**settings), np.asarray(expected), *inputs, rtol=1e-5)
