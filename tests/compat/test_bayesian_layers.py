"""Layers of `mindspore.nn.probability.bnn_layers`: what they draw, their divergences, and that they learn."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Tensor, nn
from graphls.compat.probability import bayesian_layers as b


def narrow(name: str, shape: Any) -> b.NormalPosterior:
    """Weights that are hardly drawn at all."""
    return b.NormalPosterior(name, shape, loc_std=1.0, untransformed_scale_mean=-30)


@pytest.mark.parametrize("made", [b.DenseReparam, b.DenseLocalReparam])
def test_dense_layers_are_close_to_their_means(made: Any) -> None:
    gl.set_seed(2)
    layer = made(3, 4, "relu", weight_posterior_fn=narrow, bias_posterior_fn=narrow)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    weight, bias = layer.weight_posterior.mean.asnumpy(), layer.bias_posterior.mean.asnumpy()
    np.testing.assert_allclose(layer(Tensor(x)).asnumpy(), np.maximum(x @ weight.T + bias, 0), atol=1e-4)
    assert len(layer.trainable_params()) == 4


def test_convolutions_are_close_to_their_means() -> None:
    given: dict[str, Any] = {"weight_posterior_fn": narrow, "bias_posterior_fn": narrow}
    layer = b.ConvReparam(4, 6, 3, stride=2, group=2, has_bias=True, **given)
    x = Tensor(np.random.default_rng(0).normal(size=(2, 4, 8, 8)).astype(np.float32))
    same = nn.Conv2d(4, 6, 3, 2, group=2, weight_init=layer.weight_posterior.mean.value())
    found = layer(x) - layer.bias_posterior.mean.reshape((1, 6, 1, 1))
    np.testing.assert_allclose(found.asnumpy(), same(x).asnumpy(), atol=1e-3)
    assert layer(x).shape == (2, 6, 4, 4)


def test_draws_of_one_call_and_of_each_sample() -> None:
    gl.set_seed(2)
    wide = lambda name, shape: b.NormalPosterior(name, shape, untransformed_scale_mean=0.5)  # noqa: E731
    x = Tensor(np.ones((4000, 3), np.float32))
    whole = b.DenseReparam(3, 2, has_bias=False, weight_posterior_fn=wide)
    first, second = whole(x).asnumpy(), whole(x).asnumpy()
    assert (first == first[0]).all() and not (first == second).any()
    local = b.DenseLocalReparam(3, 2, has_bias=False, weight_posterior_fn=wide)
    found = local(x).asnumpy()
    deviation = np.sqrt(np.square(local.weight_posterior.std.asnumpy()).sum(1))
    np.testing.assert_allclose(found.std(0), deviation, rtol=0.06)
    np.testing.assert_allclose(found.mean(0), local.weight_posterior.mean.asnumpy().sum(1), atol=0.15)


def test_divergences() -> None:
    layer = b.DenseReparam(3, 2)
    wanted = 0.0
    for part in (layer.weight_posterior, layer.bias_posterior):
        mean, std = part.mean.asnumpy().astype(float), part.std.asnumpy().astype(float)
        wanted += (np.log(std / 0.1) + (0.01 + mean**2) / (2 * std**2) - 0.5).sum()
    np.testing.assert_allclose(float(layer.compute_kl_loss()), wanted, rtol=1e-4)


def test_networks_learn() -> None:
    gl.set_seed(1)
    net = nn.SequentialCell(b.DenseReparam(4, 8, "tanh"), b.DenseLocalReparam(8, 1))
    step = nn.TrainOneStepCell(b.WithBNNLossCell(net, nn.MSELoss(), 1.0, 1e-5), nn.Adam(net.trainable_params(), 0.02))
    x = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    losses = [float(step(Tensor(x), Tensor(x[:, :1] - x[:, 1:2]))) for _ in range(60)]
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


def test_losses_have_factors() -> None:
    net = b.DenseReparam(3, 2, weight_posterior_fn=narrow, bias_posterior_fn=narrow)
    x, y = Tensor(np.ones((2, 3), np.float32)), Tensor(np.ones((2, 2), np.float32))
    assert b.WithBNNLossCell(net, nn.MSELoss(), 1, 0).backbone_network is net
    found = float(b.WithBNNLossCell(net, nn.MSELoss(), 0, 2)(x, y))
    np.testing.assert_allclose(found, 2 * float(net.compute_kl_loss()), rtol=1e-5)


def test_what_is_refused() -> None:
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: b.NormalPosterior(3, [2]), TypeError, "`name` must be `str`"),
        (lambda: b.NormalPosterior("a", 2), TypeError, "`shape` must be `tuple` or `list`"),
        (lambda: b.NormalPosterior("a", [2], loc_mean="0"), TypeError, "`loc_mean` must be `int` or `float`"),
        (lambda: b.NormalPosterior("a", [2], loc_std=-1), TypeError, "`loc_std` must be >= 0"),
        (lambda: b.DenseReparam(2, 2, 3), ValueError, "`activation` is wrong"),
        (lambda: b.DenseReparam(2, 2, weight_prior_fn=nn.ReLU), TypeError, "`weight_prior_fn` must be `normal`"),
        (lambda: b.WithBNNLossCell(nn.ReLU(), nn.MSELoss(), -1), ValueError, "`dnn_factor` must be >= 0"),
        (lambda: b.WithBNNLossCell(nn.ReLU(), nn.MSELoss(), 1, True), TypeError, "`bnn_factor` must be"),
    ]
    for call, error, message in wrong:
        with pytest.raises(error, match=message):
            call()


@pytest.mark.usefixtures("mindspore")
def test_scripts_find_them() -> None:
    module = importlib.import_module("mindspore.nn.probability.bnn_layers")
    assert module.DenseReparam is b.DenseReparam
    assert importlib.import_module("mindspore").nn.probability.bnn_layers.ConvReparam is b.ConvReparam
