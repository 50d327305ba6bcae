"""Layers against NumPy, their initial values, and wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import initializer as init
from graphls import nn

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 3)).astype(np.float32)
IMAGES = RNG.normal(size=(3, 2, 6, 6)).astype(np.float32)
BACKENDS = ("numpy", "onnxruntime")


def outputs(cell: nn.Cell, x: Any) -> list[Any]:
    return [graphls.compile(cell, x, backend=b)(x).asnumpy() for b in BACKENDS]


def test_dense() -> None:
    cell = nn.Dense(3, 5, activation="relu")
    weight, bias = cell.weight.asnumpy(), cell.bias.asnumpy()
    for x in (X, RNG.normal(size=(2, 4, 3)).astype(np.float32)):
        for found in outputs(cell, x):
            np.testing.assert_allclose(found, np.maximum(x @ weight.T + bias, 0), rtol=1e-5, atol=1e-6)
    assert [p.name for p in cell.get_parameters()] == ["weight", "bias"]
    assert [p.name for p in nn.Dense(3, 5, has_bias=False).get_parameters()] == ["weight"]
    given = nn.Dense(3, 2, weight_init=graphls.Tensor(np.ones((2, 3), np.float32)), bias_init="ones")
    np.testing.assert_allclose(outputs(given, X)[0], np.repeat(X.sum(1, keepdims=True), 2, 1) + 1, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_to_float_casts_parameters_and_inputs(backend: str) -> None:
    cell = nn.SequentialCell(nn.Dense(3, 5), nn.BatchNorm1d(5), nn.ReLU()).to_float(graphls.float16)
    found = graphls.compile(cell.set_train(), X, backend=backend)(X)
    assert found.dtype is graphls.float16
    assert all(p.dtype is graphls.float32 for p in cell.get_parameters())


def test_convolution_and_pooling_shapes() -> None:
    shapes = {
        nn.Conv2d(2, 4, 3): (3, 4, 6, 6),
        nn.Conv2d(2, 4, 3, pad_mode="valid", has_bias=True): (3, 4, 4, 4),
        nn.Conv2d(2, 4, (3, 2), stride=2, pad_mode="pad", padding=(1, 1, 0, 0), group=2): (3, 4, 3, 3),
        nn.MaxPool2d(2, 2): (3, 2, 3, 3),
        nn.AvgPool2d(3, 2, "same"): (3, 2, 3, 3),
        nn.Flatten(): (3, 72),
    }
    for cell, shape in shapes.items():
        first, second = outputs(cell, IMAGES)
        assert first.shape == shape
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)


def test_convolution_with_bias() -> None:
    cell = nn.Conv2d(2, 3, 1, has_bias=True)
    weight, bias = cell.weight.asnumpy()[:, :, 0, 0], cell.bias.asnumpy()
    expected = np.einsum("oc,nchw->nohw", weight, IMAGES) + bias[:, None, None]
    for found in outputs(cell, IMAGES):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["ReLU", "Sigmoid", "Tanh", "GELU", "SiLU", "Softmax", "LogSoftmax", "Identity"])
def test_activations(name: str) -> None:
    first, second = outputs(getattr(nn, name)(), X)
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    assert first.shape == X.shape


def test_dropout_is_for_training() -> None:
    cell, x = nn.Dropout(p=0.25), np.ones((40, 50), np.float32)
    np.testing.assert_array_equal(cell(x).asnumpy(), x)
    first, second = (cell.set_train()(x).asnumpy() for _ in range(2))
    assert abs((first == 0).mean() - 0.25) < 0.05 and (first != second).any()
    assert nn.Dropout(0.9).p == pytest.approx(0.1) and nn.Dropout().p == 0.5
    step = graphls.compile(nn.SequentialCell(cell, cell), x, backend="numpy")
    assert (step(x).asnumpy() == 0).mean() > 0.35, "each use of a cell draws a mask of its own"


def test_initial_values() -> None:
    graphls.set_seed(1)
    cell = nn.Dense(100, 400)
    bound = 1 / np.sqrt(100)
    for values in (cell.weight.asnumpy(), cell.bias.asnumpy()):
        assert bound * 0.95 < np.abs(values).max() <= bound and abs(values.mean()) < bound / 10
    conv = nn.Conv2d(4, 64, 5, has_bias=True)
    bound = 1 / np.sqrt(4 * 25)
    for values in (conv.weight.asnumpy(), conv.bias.asnumpy()):
        assert bound * 0.9 < np.abs(values).max() <= bound
    graphls.set_seed(1)
    np.testing.assert_array_equal(nn.Dense(100, 400).weight.asnumpy(), cell.weight.asnumpy())


@pytest.mark.parametrize(
    ("given", "low", "high", "deviation"),
    [
        ("zeros", 0, 0, 0),
        ("ones", 1, 1, 0),
        (3, 3, 3, 0),
        ("normal", -0.1, 0.1, 0.01),
        (init.Normal(2.0, 10.0), 0, 20, 2.0),
        (init.TruncatedNormal(1.0), -2, 2, 0.88),
        ("uniform", -0.07, 0.07, 0.07 / np.sqrt(3)),
        ("xavier_uniform", -np.sqrt(6 / 150), np.sqrt(6 / 150), np.sqrt(2 / 150)),
        ("he_uniform", -np.sqrt(6 / 50), np.sqrt(6 / 50), np.sqrt(2 / 50)),
        (init.HeUniform(mode="fan_out"), -np.sqrt(6 / 100), np.sqrt(6 / 100), np.sqrt(2 / 100)),
        ("he_normal", -2, 2, np.sqrt(2 / 50)),
    ],
)
def test_initializers(given: Any, low: float, high: float, deviation: float) -> None:
    values = init.initializer(given, (100, 50)).asnumpy()
    assert values.shape == (100, 50) and values.dtype == np.float32
    assert low - 1e-6 <= values.min() and values.max() <= high + 1e-6
    np.testing.assert_allclose(values.std(), deviation, rtol=0.05, atol=1e-6)


WRONG: list[Any] = [
    (lambda: nn.Dense(0, 3), ValueError, "'in_channels' must be int and must > 0, but got '0' with type 'int'"),
    (lambda: nn.Dense(3, 2.5), TypeError, "'out_channels'"),
    (lambda: nn.Dense(3, 2, has_bias=1), TypeError, "'has_bias' must be bool"),
    (lambda: nn.Dense(3, 2, weight_init="onez"), ValueError, "did you mean 'one"),
    (lambda: nn.Dense(3, 2, weight_init=graphls.Tensor(np.ones((3, 2)))), ValueError, r"must have \(2, 3\)"),
    (lambda: nn.Dense(3, 2, weight_init=[1]), TypeError, "Initializer"),
    (lambda: nn.Dense(3, 2, activation="rel"), KeyError, "did you mean 'relu'"),
    (lambda: nn.Dense(3, 2, activation=3), TypeError, "name or a cell"),
    (lambda: nn.Dense(4, 2)(X), ValueError, "inner sizes 3 and 4 differ"),
    (lambda: nn.Conv2d(2, 3, 3, group=2), ValueError, "divisible"),
    (lambda: nn.Conv2d(2, 3, 0), ValueError, "'kernel_size'"),
    (lambda: nn.Conv2d(2, 3, 3, pad_mode="sam"), ValueError, "'pad_mode'"),
    (lambda: nn.Conv2d(2, 3, 3, padding=1), ValueError, "'padding'"),
    (lambda: nn.Conv2d(3, 3, 3)(IMAGES), ValueError, "cannot apply kernels"),
    (lambda: nn.MaxPool2d(9)(IMAGES), ValueError, "does not fit"),
    (lambda: nn.AvgPool2d(2, stride="a"), TypeError, "'stride'"),
    (lambda: nn.Dropout(p=1.0), ValueError, r"\[0, 1\)"),
    (lambda: nn.Dropout(p="a"), TypeError, "type of 'p' should be 'float'"),
    (lambda: nn.BatchNorm2d(0), ValueError, "'num_features'"),
    (lambda: nn.BatchNorm2d(2, eps=0), ValueError, "'eps'"),
    (lambda: nn.BatchNorm2d(2, momentum=1.5), ValueError, "'momentum'"),
    (lambda: nn.BatchNorm2d(2, momentum="a"), TypeError, "'momentum'"),
    (lambda: nn.BatchNorm2d(3)(IMAGES), ValueError, "3 features"),
    (lambda: nn.BatchNorm2d(2)(X), ValueError, "rank 4"),
    (lambda: init.HeUniform(mode="in"), ValueError, "'in'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_layers.py")
