"""Activations: PyTorch's numbers, gradients, float16 to its ends, shapes, cells and wrong uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import graphls
from graphls import nn, ops
from tests.ops.agree import agree

POINTS = np.array([-6, -3.5, -1, -0.3, 0, 0.3, 1, 3.5, 6.5], np.float32)

# Each of POINTS as PyTorch 2 computes it in float64.
NUMBERS: dict[str, tuple[nn.Cell, list[float]]] = {
    "relu6": (nn.ReLU6(), [0, 0, 0, 0, 0, 0.3, 1, 3.5, 6]),
    "leaky_relu": (nn.LeakyReLU(), [-1.2, -0.7, -0.2, -0.06, 0, 0.3, 1, 3.5, 6.5]),
    "prelu": (nn.PReLU(), [-1.5, -0.875, -0.25, -0.075, 0, 0.3, 1, 3.5, 6.5]),
    "rrelu": (nn.RReLU(), [-1.375, -0.802083333, -0.229166667, -0.06875, 0, 0.3, 1, 3.5, 6.5]),
    "elu": (nn.ELU(), [-0.997521248, -0.969802617, -0.632120559, -0.259181779, 0, 0.3, 1, 3.5, 6.5]),
    "selu": (
        nn.SeLU(),
        [-1.75374145, -1.70500934, -1.11133074, -0.455667315, 0, 0.315210296, 1.05070099, 3.67745346, 6.82955642],
    ),
    "celu": (nn.CELU(1.7), [-1.65015233, -1.48307319, -0.755979166, -0.275020165, 0, 0.3, 1, 3.5, 6.5]),
    "mish": (
        nn.Mish(),
        [-0.0148540805, -0.104095754, -0.303401461, -0.151133177, 0, 0.208001372, 0.865098388, 3.49399072, 6.4999707],
    ),
    "fast_gelu": (
        nn.FastGelu(),
        [-0.00022035355, -0.00903344613, -0.154204234, -0.112515865, 0, 0.187484135, 0.845795766, 3.49096655,
         6.49989807],
    ),
    "hardsigmoid": (nn.HSigmoid(), [0, 0, 0.333333333, 0.45, 0.5, 0.55, 0.666666667, 1, 1]),
    "hardswish": (nn.HSwish(), [0, 0, -0.333333333, -0.135, 0, 0.165, 0.666666667, 3.5, 6.5]),
    "hardtanh": (nn.Hardtanh(-1.5, 2), [-1.5, -1.5, -1, -0.3, 0, 0.3, 1, 2, 2]),
    "hardshrink": (nn.HShrink(), [-6, -3.5, -1, 0, 0, 0, 1, 3.5, 6.5]),
    "softshrink": (nn.SoftShrink(), [-5.5, -3, -0.5, 0, 0, 0, 0.5, 3, 6]),
    "tanhshrink": (
        nn.Tanhshrink(),
        [-5.00001229, -2.5018221, -0.238405844, -0.00868738755, 0, 0.00868738755, 0.238405844, 2.5018221, 5.50000452],
    ),
    "threshold": (nn.Threshold(0.5, -7), [-7, -7, -7, -7, -7, -7, 1, 3.5, 6.5]),
    "softplus": (
        nn.Softplus(2, 5),
        [3.07209674e-06, 0.000455733227, 0.0634640055, 0.218743975, 0.34657359, 0.518743975, 1.06346401, 3.5, 6.5],
    ),
    "softsign": (
        nn.Softsign(),
        [-0.857142857, -0.777777778, -0.5, -0.230769231, 0, 0.230769231, 0.5, 0.777777778, 0.866666667],
    ),
    "logsigmoid": (
        nn.LogSigmoid(),
        [-6.00247569, -3.52975042, -1.31326169, -0.854355244, -0.693147181, -0.554355244, -0.313261688, -0.0297504183,
         -0.00150231016],
    ),
    "softmin": (
        nn.Softmin(),
        [0.911182962, 0.0747944521, 0.0061395025, 0.00304878671, 0.00225859675, 0.00167320963, 0.00083089131,
         6.8203712e-05, 3.39566287e-06],
    ),
    "silu": (
        nn.SiLU(),
        [-0.0148357389, -0.102592808, -0.268941421, -0.127667245, 0, 0.172332755, 0.731058579, 3.39740719, 6.49024232],
    ),
    "gelu": (
        nn.GELU(approximate=False),
        [-5.91952587e-09, -0.000814201777, -0.158655254, -0.114626573, 0, 0.185373427, 0.841344746, 3.4991858, 6.5],
    ),
    "gelu_tanh": (
        nn.GELU(),
        [-8.43964898e-11, -0.000616197655, -0.158808009, -0.114629076, 0, 0.185370924, 0.841191991, 3.4993838, 6.5],
    ),
}  # fmt: skip
EXTREMES = np.array([65504, 6e4, 1000, 300, 41, 20, 6, 0.5, 1e-3, 6e-8, 0], np.float16)
EXTREMES = np.concatenate([EXTREMES, -EXTREMES])


@pytest.mark.parametrize("name", NUMBERS)
def test_the_numbers_of_pytorch(name: str) -> None:
    cell, expected = NUMBERS[name]
    agree(cell, np.array(expected), POINTS, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 1, 3)])
def test_shapes_stay(name: str, shape: tuple[int, ...]) -> None:
    cell, _ = NUMBERS[name]
    if name == "softmin" and not shape:
        pytest.skip("an axis is needed")
    for dtype in (np.float16, np.float32):
        found = graphls.compile(cell, np.ones(shape, dtype))(np.ones(shape, dtype))
        assert found.shape == shape and found.asnumpy().dtype == dtype


@pytest.mark.parametrize("name", NUMBERS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    cell, _ = NUMBERS[name]
    x = np.array([-4.1, -2.2, -0.7, -0.1, 0.2, 0.8, 2.6, 5.1])
    weights = np.linspace(0.5, 1.5, x.size)

    def weighted(x: Any) -> Any:
        return ops.sum(ops.mul(cell(x), weights))

    value = graphls.compile(weighted, x, backend="numpy")
    found = graphls.compile(lambda x: graphls.grad(weighted)(x), x, backend="numpy")(x).asnumpy()
    steps = 1e-6 * np.eye(x.size)
    expected = [(value(x + s).item() - value(x - s).item()) / 2e-6 for s in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("function", [ops.silu, ops.fast_gelu, ops.gelu, ops.sigmoid, ops.mish, ops.hardswish])
def test_float64_compiles(function: Any) -> None:
    """The runtime fuses x * Sigmoid(x) into a kernel that float64 has not."""
    x = np.linspace(-4, 4, 9)
    agree(function, function(graphls.Tensor(x)).asnumpy(), x)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("name", NUMBERS)
def test_float16_is_right_to_its_ends(name: str, backend: str) -> None:
    """Values and gradients are those of float64 where float16 holds them, and nothing finite becomes nan."""
    cell, _ = NUMBERS[name]
    x = EXTREMES[:, None] if name == "softmin" else EXTREMES

    def both(x: Any) -> Any:
        return graphls.value_and_grad(lambda x: ops.cast(cell(x), x.dtype))(x)

    found = graphls.compile(both, x, backend=backend)(x)
    for half, exact in zip(found, both(x.astype(np.float64)), strict=True):
        with np.errstate(over="ignore"):
            wanted = exact.asnumpy().astype(np.float16)
        np.testing.assert_allclose(half.asnumpy(), wanted, rtol=4e-3, atol=2e-3)


def test_softplus_is_exact_where_it_is_tiny() -> None:
    x = np.array([-80, -40, -20, 20, 80], np.float32)
    agree(ops.softplus, np.logaddexp(0, x.astype(float)), x, rtol=1e-6, atol=0)
    agree(ops.logsigmoid, -np.logaddexp(0, -x.astype(float)), x, rtol=1e-6, atol=0)
    assert graphls.grad(ops.softplus)(np.zeros(1, np.float32)).item() == 0.5


def test_along_an_axis() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    agree(nn.Softmax2d(), special.softmax(x, 1), x)
    agree(ops.softmax2d, special.softmax(x[0], 0), x[0])
    agree(lambda x: ops.softmin(x, 1), special.softmax(-x, 1), x)
    agree(nn.GLU(2), x[:, :, :2] * special.expit(x[:, :, 2:]), x)


def test_prelu_has_a_weight_for_each_channel() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    weights = [0.1, -0.2, 0.3]
    cell = nn.PReLU(3, weights)
    agree(cell, np.where(x > 0, x, x * np.array(weights)[:, None]), x)
    assert [p.name for p in cell.get_parameters()] == ["a"]
    found = graphls.grad(cell, None, cell.trainable_params())(x)
    np.testing.assert_allclose(found[0].asnumpy(), np.where(x > 0, 0, x).sum((0, 2)), rtol=1e-5)


def test_rrelu_is_random_in_training_only() -> None:
    x = np.full((50, 40), -1, np.float32)
    cell = nn.RReLU(0.2, 0.4)
    np.testing.assert_allclose(cell(x).asnumpy(), -0.3, rtol=1e-6)
    cell.set_train()
    for found in (cell(x), graphls.compile(cell, x)(x), graphls.compile(cell, x, backend="numpy")(x)):
        values = -found.asnumpy()
        assert values.min() >= 0.2 and values.max() <= 0.4 and abs(values.mean() - 0.3) < 0.005 and values.std() > 0.05
    step = graphls.compile(cell, x)
    assert (step(x).asnumpy() != step(x).asnumpy()).any()


def test_activations_by_name() -> None:
    assert isinstance(nn.get_activation("hswish"), nn.HSwish) and isinstance(nn.get_activation("swish"), nn.SiLU)
    agree(nn.Dense(1, 1, 1, activation="leakyrelu", has_bias=False), np.array([[-0.4]]), np.array([[-2]], np.float32))


X = graphls.Tensor(POINTS)
WRONG: list[Any] = [
    (lambda: ops.prelu(np.ones((2, 3), np.float32), np.ones(2)), ValueError, r"shape \(1,\) or \(3,\), not \(2,\)"),
    (lambda: ops.rrelu(X, 0.5, 0.2), ValueError, "0 <= lower <= upper <= 1"),
    (lambda: nn.RReLU("a"), TypeError, "should be 'float', but got type 'str': 'a' is not a number"),
    (lambda: ops.celu(X, 0), ValueError, "'alpha' must not be 0"),
    (lambda: ops.softplus(X, 0), ValueError, "'beta' must not be 0"),
    (lambda: ops.hardtanh(X, 1, 1), ValueError, "below 'max_val'"),
    (lambda: ops.hardtanh(X, "a"), TypeError, "the type of 'min_val' should be 'float'"),
    (lambda: ops.softplus(X, threshold=None), TypeError, "the type of 'threshold' should be 'float'"),
    (lambda: ops.glu(X), ValueError, "even size"),
    (lambda: ops.softmax2d(X), ValueError, r"\(C, H, W\)"),
    (lambda: ops.leaky_relu(X, "a"), TypeError, "'a' is neither"),
    (lambda: nn.PReLU(0), ValueError, "'channel' must be int and must > 0"),
    (lambda: nn.PReLU(2, [1.0]), ValueError, "must have"),
    (lambda: nn.get_activation("hswich"), KeyError, "did you mean 'hswish'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_activations.py")
