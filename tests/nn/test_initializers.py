"""Initializers: statistics, structure, names, seeds, wrong arguments."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import initializer as init
from graphls import nn
from graphls.initializer import initializer

SHAPE = (64, 32, 3, 3)
INPUTS, OUTPUTS = 32 * 9, 64 * 9
ROOT3 = np.sqrt(3)

SPREAD: list[tuple[Any, float, float]] = [
    (init.Normal(0.5, 3.0), 0.5, np.inf),
    (init.TruncatedNormal(0.5), 0.5 * 0.87962566, 1.0),
    (init.TruncatedNormal(0.5, 0.0, -1.0, 1.0), 0.5 * 0.53955, 0.5),
    (init.Uniform(0.3), 0.3 / ROOT3, 0.3),
    (init.XavierUniform(2.0), 2 * np.sqrt(2 / (INPUTS + OUTPUTS)), 2 * np.sqrt(6 / (INPUTS + OUTPUTS))),
    (init.XavierNormal(), np.sqrt(2 / (INPUTS + OUTPUTS)), np.inf),
    (init.HeUniform(), np.sqrt(2 / INPUTS), np.sqrt(6 / INPUTS)),
    (init.HeUniform(np.sqrt(5)), np.sqrt(1 / 3 / INPUTS), np.sqrt(1 / INPUTS)),
    (init.HeUniform(3.0, nonlinearity="relu"), np.sqrt(2 / INPUTS), np.sqrt(6 / INPUTS)),
    (init.HeUniform(nonlinearity="sigmoid"), np.sqrt(1 / INPUTS), np.sqrt(3 / INPUTS)),
    (init.HeNormal(nonlinearity="tanh"), 5 / 3 * np.sqrt(1 / INPUTS), np.inf),
    (init.HeNormal(mode="fan_out"), np.sqrt(2 / OUTPUTS), np.inf),
    (init.VarianceScaling(), np.sqrt(1 / INPUTS), 2 * np.sqrt(1 / INPUTS) / 0.87962566),
    (init.VarianceScaling(3.0, "fan_out", "uniform"), np.sqrt(3 / OUTPUTS), 3 / np.sqrt(OUTPUTS)),
    (init.VarianceScaling(2.0, "fan_avg", "untruncated_normal"), np.sqrt(4 / (INPUTS + OUTPUTS)), np.inf),
]


@pytest.mark.parametrize(("given", "deviation", "bound"), SPREAD, ids=repr)
def test_spread(given: Any, deviation: float, bound: float) -> None:
    values = initializer(given, SHAPE, graphls.float64).asnumpy() - getattr(given, "mean", 0.0)
    np.testing.assert_allclose(values.std(), deviation, rtol=0.03)
    np.testing.assert_allclose(values.mean(), 0.0, atol=0.03 * deviation)
    assert np.abs(values).max() <= bound
    assert bound == np.inf or np.abs(values).max() > 0.97 * bound


NAMES = {
    "zero": 0.0, "zeros": 0.0, "one": 0.0, "ones": 0.0, "normal": 0.01, "uniform": 0.07 / ROOT3,
    "truncatedNormal": 0.01 * 0.87962566, "truncated_normal": 0.01 * 0.87962566,
    "xavier_uniform": np.sqrt(2 / (INPUTS + OUTPUTS)), "XavierUniform": np.sqrt(2 / (INPUTS + OUTPUTS)),
    "xavier_normal": np.sqrt(2 / (INPUTS + OUTPUTS)), "he_uniform": np.sqrt(2 / INPUTS),
    "HeNormal": np.sqrt(2 / INPUTS), "he_normal": np.sqrt(2 / INPUTS), "variance_scaling": np.sqrt(1 / INPUTS),
    "orthogonal": np.sqrt(1 / 288),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    values = initializer(name, SHAPE).asnumpy()
    assert values.dtype == np.float32
    np.testing.assert_allclose(values.std(), NAMES[name], rtol=0.03, atol=1e-7)
    if name.startswith(("zero", "one")):
        assert (values == name.startswith("one")).all()


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5), (4, 3, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    flat = initializer(init.Orthogonal(2.0), shape, graphls.float64).asnumpy().reshape(shape[0], -1)
    product = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_orthogonal_matrices_have_no_preferred_sign() -> None:
    """The sum over many draws is near 0, which that of a bare QR decomposition is not."""
    total = sum(init.Orthogonal()((3, 3)) for _ in range(400)) / 400
    assert np.abs(total).max() < 0.15


def test_identity_and_sparse() -> None:
    np.testing.assert_array_equal(initializer("identity", (2, 3)).asnumpy(), np.eye(2, 3))
    values = initializer(init.Sparse(0.3, 2.0), (40, 500)).asnumpy()
    assert ((values == 0).sum(axis=0) == 12).all()
    assert len({tuple(np.flatnonzero(c)) for c in values.T}) > 490, "each column has zeros of its own"
    np.testing.assert_allclose(values[values != 0].std(), 2.0, rtol=0.05)


def test_the_seed_of_numpy_changes_nothing() -> None:
    """Other libraries draw from there; without `set_seed`, too, every process starts with the same numbers."""

    def drawn(seed: int) -> Any:
        code = f"import numpy, graphls; numpy.random.seed({seed}); print(graphls.nn.Dense(3, 2).weight.asnumpy())"
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout

    assert drawn(1) == drawn(2)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_dirac_convolution_passes_channels_on(groups: int, axes: int) -> None:
    cell = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[axes]
    weight = initializer(init.Dirac(groups), (4, 4 // groups, *[3] * axes))
    conv = cell(4, 4, 3, group=groups, weight_init=weight)
    x = np.random.default_rng(0).normal(size=(2, 4, *[5] * axes)).astype(np.float32)
    np.testing.assert_array_equal(conv(x).asnumpy(), x)


@pytest.mark.parametrize("given", [init.Sparse(0.5), init.Orthogonal(), "xavier_normal", "truncated_normal"], ids=str)
def test_a_seed_gives_the_same_values(given: Any) -> None:
    draws = []
    for seed in (3, 3, 4):
        graphls.set_seed(seed)
        draws.append(initializer(given, (20, 30)).asnumpy())
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


WRONG: list[Any] = [
    (lambda: initializer("xavier", (2, 2)), ValueError, "no initializer 'xavier'"),
    (lambda: initializer("sparse", (2, 2)), ValueError, "no initializer 'sparse'"),
    (lambda: initializer("identity", (2, 2, 2)), ValueError, "rank 2"),
    (lambda: initializer("orthogonal", (2,)), ValueError, "rank 2"),
    (lambda: initializer("dirac", (2, 2)), ValueError, "rank 3 or 4 or 5"),
    (lambda: initializer(init.Dirac(3), (4, 4, 3)), ValueError, "3 groups"),
    (lambda: init.Dirac(0), ValueError, "'groups'"),
    (lambda: init.Dirac(1.0), TypeError, "'groups'"),
    (lambda: init.Sparse(1.5), ValueError, "'sparsity'"),
    (lambda: init.Sparse("a"), TypeError, "'sparsity'"),
    (lambda: init.Normal("a"), TypeError, "'sigma'"),
    (lambda: init.Uniform(True), TypeError, "'scale'"),
    (lambda: init.TruncatedNormal(a=1.0, b=1.0), ValueError, r"\[a, b\]"),
    (lambda: init.TruncatedNormal(a=9.0, b=10.0), ValueError, r"\[a, b\]"),
    (lambda: init.VarianceScaling(0), ValueError, "'scale'"),
    (lambda: init.VarianceScaling(mode="fan"), ValueError, "'fan_in', 'fan_out', 'fan_avg'"),
    (lambda: init.VarianceScaling(distribution="cauchy"), ValueError, "'distribution'"),
    (lambda: init.HeNormal(nonlinearity="gelu"), ValueError, "'nonlinearity'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_initializers.py")
