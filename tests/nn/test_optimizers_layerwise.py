"""LARS and Lamb: the ratio of norms, and LARS around other optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from tests.nn import descent
from tests.nn.test_optimizers import BACKENDS, Decay, follow, gradients, parameters

CASES: list[dict[str, Any]] = [
    {},
    {"epsilon": 1e-2, "coefficient": 0.3},
    {"coefficient": 0.5, "use_clip": True},
    {"coefficient": 0.02, "use_clip": True},
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_lars_over_many_steps(number: int, backend: str) -> None:
    given, own = parameters(), CASES[number]
    rates = [0.1, 0.05, 0.02]
    inner = nn.Momentum(given, rates, 0.9, weight_decay=0.1, loss_scale=4.0)
    expected = [
        descent.LARS(
            p.asnumpy().astype(np.float64), rates, 0.0 if p.name in ("bn.gamma", "fc.bias") else 0.1, 4.0,
            is_scaled=p.name != "fc.bias", **own,
        )
        for p in given
    ]  # fmt: skip
    follow(nn.LARS(inner, **own), expected, backend, 4.0)


def test_lars_with_groups_of_their_own_rates_and_a_changing_decay() -> None:
    given = parameters()
    groups = [{"params": given[:2], "lr": Decay(), "weight_decay": Decay()}, {"params": given[2:]}]
    optimizer = nn.LARS(nn.Momentum(groups, 0.05, 0.9), 1e-5, 0.1, True, lambda parameter: True)
    settings = [(lambda t: 0.1 / (t + 1),) * 2] * 2 + [(0.05, 0.0)] * 2
    expected = [
        descent.LARS(p.asnumpy().astype(np.float64), lr, decay, coefficient=0.1, use_clip=True)
        for p, (lr, decay) in zip(given, settings, strict=True)
    ]
    follow(optimizer, expected, "onnxruntime")


def test_lars_answers_as_the_optimizer_inside_does() -> None:
    given = parameters()
    inner = nn.Adam(given, 0.5, weight_decay=0.25, loss_scale=2.0)
    optimizer = nn.LARS(inner)
    assert optimizer.parameters is inner.parameters and optimizer.global_step is inner.global_step
    assert optimizer.learning_rate is inner.learning_rate and not optimizer.dynamic_lr
    assert float(optimizer.get_lr()) == 0.5 and optimizer.get_weight_decay() == 0.25 and optimizer.loss_scale == 2.0
    assert optimizer.get_lr_parameter(given[0]).name == "learning_rate"
    assert (inner.get_weight_decay(), inner.loss_scale) == (0.0, 1.0)
    assert optimizer.lars_flag == (True, False, True, True)
    assert {p.name for p in optimizer.get_parameters()} == {p.name for p in inner.get_parameters()}


@pytest.mark.parametrize("make", [nn.AdamWeightDecay, nn.AdamW, nn.Lamb, nn.SGD])
def test_lars_decays_in_place_of_the_optimizer_inside(make: Any) -> None:
    given = parameters()
    before = [p.asnumpy() for p in given]
    make_zeros = tuple(np.zeros_like(g) for g in gradients(0))
    nn.LARS(make(given, learning_rate=0.1, weight_decay=0.5), lars_filter=lambda parameter: False)(make_zeros)
    assert [p.asnumpy().tolist() for p in given] == [w.tolist() for w in before]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rate_of_zero_and_a_parameter_of_zeros_clip_to_numbers(backend: str) -> None:
    w = graphls.Parameter(np.zeros(3, np.float32), name="w")
    optimizer = nn.LARS(nn.SGD([w], [0.0, 0.5]), use_clip=True)
    g = (np.ones(3, np.float32),)
    step = graphls.compile(optimizer, g, backend=backend)
    step(g)
    step(g)
    assert w.tolist() == [0, 0, 0]


def test_a_list_inside_lars_warns_where_it_ends() -> None:
    w = graphls.Parameter(np.ones(2, np.float32), name="w")
    optimizer, g = nn.LARS(nn.SGD([w], [0.5])), (graphls.Tensor(np.ones(2, np.float32)),)
    optimizer(g)
    with pytest.warns(UserWarning, match="1 learning rates is shorter"):
        optimizer(g)


def lamb(w: list[float], g: list[float], decay: float = 0.0) -> Any:
    parameter = graphls.Parameter(np.array(w, np.float32), name="w")
    nn.Lamb([parameter], 0.01, weight_decay=decay)((np.array(g, np.float32),))
    return parameter.asnumpy()


def test_the_trust_of_lamb_is_bounded() -> None:
    np.testing.assert_allclose(lamb([0, 0], [1, -1]), [-0.01, 0.01], rtol=1e-5, err_msg="1 for a weight of zeros")
    np.testing.assert_allclose(lamb([3, 4], [0, 0]), [3, 4], err_msg="1 for a direction of zeros")
    np.testing.assert_allclose(lamb([300, 400], [1, 1]), [299.9, 399.9], rtol=1e-6, err_msg="10 at most")
    np.testing.assert_allclose(lamb([0.3, 0.4], [1, 1]), np.float32([0.3, 0.4]) - 0.01 * 0.5 / np.sqrt(2), rtol=1e-5)
    huge = np.float32(2e19)
    assert lamb([huge, huge], [0, 0], decay=1.0).tolist() == [huge, huge], "0 where both norms are infinite"
