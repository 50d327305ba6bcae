"""Batch normalisation against an independent NumPy program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

RNG = np.random.default_rng(11)
X = RNG.normal(2.0, 3.0, size=(5, 3, 4, 2)).astype(np.float32)
AXES = (0, 2, 3)
BACKENDS = ("numpy", "onnxruntime")


def column(v: Any) -> Any:
    return np.asarray(v)[:, None, None]


def normalised(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    return (x - column(mean)) / np.sqrt(column(variance) + 1e-5) * column(gamma) + column(beta)


def layer() -> nn.BatchNorm2d:
    return nn.BatchNorm2d(3, gamma_init=graphls.Tensor([1.0, 2.0, 3.0]), beta_init=graphls.Tensor([0.0, -1.0, 1.0]))


def test_names() -> None:
    alone = nn.BatchNorm2d(3)
    assert [p.name for p in alone.get_parameters()] == ["mean", "variance", "gamma", "beta"]
    assert [p.requires_grad for p in alone.get_parameters()] == [False, False, True, True]

    class Top(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.bn = alone

    assert [p.name for p in Top().get_parameters()] == ["bn.moving_mean", "bn.moving_variance", "bn.gamma", "bn.beta"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_and_evaluation(backend: str) -> None:
    cell = layer().set_train()
    gamma, beta = [1, 2, 3], [0, -1, 1]
    mean, variance = np.zeros(3), np.ones(3)
    step = graphls.compile(cell, X, backend=backend)
    for number in range(3):
        x = X * (number + 1)
        batch_mean, batch_variance = x.mean(AXES, dtype=np.float64), x.var(AXES, dtype=np.float64)
        expected = normalised(x, batch_mean, batch_variance, gamma, beta)
        np.testing.assert_allclose(step(x).asnumpy(), expected, rtol=1e-4, atol=1e-5)
        count = x.size // 3
        mean = 0.9 * mean + 0.1 * batch_mean
        variance = 0.9 * variance + 0.1 * batch_variance * count / (count - 1)
        np.testing.assert_allclose(cell.moving_mean.asnumpy(), mean, rtol=1e-5)
        np.testing.assert_allclose(cell.moving_variance.asnumpy(), variance, rtol=1e-5)
    evaluate = graphls.compile(cell.set_train(False), X, backend=backend)
    np.testing.assert_allclose(evaluate(X).asnumpy(), normalised(X, mean, variance, gamma, beta), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cell.moving_mean.asnumpy(), mean, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision_is_computed_in_single(backend: str) -> None:
    cell = layer().to_float(graphls.float16).set_train()
    x = (X * 300).astype(np.float16)
    found = graphls.compile(cell, x, backend=backend)(x)
    assert found.dtype is graphls.float16
    wide = x.astype(np.float64)
    expected = normalised(wide, wide.mean(AXES), wide.var(AXES), [1, 2, 3], [0, -1, 1])
    np.testing.assert_allclose(found.asnumpy(), expected, atol=5e-3)
    moved = cell.moving_variance.asnumpy()
    assert moved.dtype == np.float32 and np.isfinite(moved).all() and moved.max() > 70000, "beyond float16"


def test_statistics_are_chosen_by_argument() -> None:
    cell = nn.BatchNorm2d(3, use_batch_statistics=False).set_train()
    np.testing.assert_allclose(cell(X).asnumpy(), X / np.sqrt(1 + 1e-5), rtol=1e-5)
    assert cell.moving_mean.asnumpy().tolist() == [0, 0, 0]
    cell = nn.BatchNorm2d(3, use_batch_statistics=True)
    assert abs(cell(X).asnumpy().mean()) < 1e-4 and cell.moving_mean.asnumpy().all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_and_one_move_per_step(backend: str) -> None:
    cell = layer().set_train()
    weights = tuple(cell.trainable_params())
    scale = RNG.normal(size=X.shape).astype(np.float32)

    def loss(x: Any) -> Any:
        return ops.sum(cell(x) * scale)

    def step(x: Any) -> Any:
        value = loss(x)
        return value, graphls.grad(loss, 0, weights)(x)

    def value(x: Any) -> Any:
        return (normalised(x, x.mean(AXES), x.var(AXES), [1, 2, 3], [0, -1, 1]) * scale).sum()

    _, (by_x, (by_gamma, by_beta)) = graphls.compile(step, X, backend=backend)(X)
    wide, direction = X.astype(np.float64), RNG.normal(size=X.shape)
    slope = (value(wide + 1e-5 * direction) - value(wide - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose((by_x.asnumpy() * direction).sum(), slope, rtol=1e-3)
    centred = (wide - column(wide.mean(AXES))) / np.sqrt(column(wide.var(AXES)) + 1e-5)
    np.testing.assert_allclose(by_gamma.asnumpy(), (centred * scale).sum(AXES), rtol=1e-3)
    np.testing.assert_allclose(by_beta.asnumpy(), scale.sum(AXES), rtol=1e-3)


def test_the_moving_mean_moves_once_in_a_training_step() -> None:
    net = nn.SequentialCell(nn.BatchNorm2d(3), nn.Flatten(), nn.Dense(24, 2))
    cell = nn.TrainOneStepCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9)
    ).set_train()
    graphls.compile(cell, X, np.zeros((5, 2), np.float32))(X, np.zeros((5, 2), np.float32))
    np.testing.assert_allclose(net[0].moving_mean.asnumpy(), 0.1 * X.mean(AXES), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("constant", [3.1, 1e3 / 3, 1e5 / 7, -7e6 / 9])
def test_a_constant_feature_has_the_gradient_of_its_formula(constant: float, backend: str) -> None:
    """Also beside a large number, where what rounding leaves of the mean would be larger than eps."""
    x, weights = np.full((7, 2), constant, np.float32), RNG.normal(size=(7, 2)).astype(np.float32)
    cell = nn.BatchNorm1d(2).set_train()

    def step(x: Any) -> Any:
        return cell(x), graphls.grad(lambda x: ops.sum(cell(x) * weights))(x)

    y, by_x = graphls.compile(step, x, backend=backend)(x)
    np.testing.assert_array_equal(y.asnumpy(), np.zeros_like(x))
    centred = weights - weights.mean(0, dtype=np.float64)
    np.testing.assert_allclose(by_x.asnumpy(), centred / np.sqrt(1e-5), rtol=1e-5, atol=1e-3)
