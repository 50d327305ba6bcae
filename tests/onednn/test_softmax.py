"""Softmax, its logarithm and their gradients: numbers and nan are those of NumPy, and each is one kernel."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.runtime.onednn.part import OnednnPart
from tests.onednn.test_program import kinds, trained

SHAPES = [((6, 10), 1), ((1, 5), 1), ((5, 1), 1), ((3, 4, 5), 1), ((2, 3, 4, 17), 3), ((2, 16, 5, 5), 1), ((7, 3), 0)]
FUNCTIONS = {"softmax": ops.softmax, "log_softmax": ops.log_softmax}


def exact(name: str, x: np.ndarray, axis: int) -> np.ndarray:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = wide - wide.max(axis, keepdims=True)
        total = np.exp(shifted).sum(axis, keepdims=True)
        return np.asarray(np.exp(shifted) / total if name == "softmax" else shifted - np.log(total))


def gradient(name: str, x: np.ndarray, g: np.ndarray, axis: int) -> np.ndarray:
    y = exact(name, x, axis)
    with np.errstate(all="ignore"):
        if name == "softmax":
            return np.asarray(y * g - y * (y * g).sum(axis, keepdims=True))
        return np.asarray(g - np.exp(y) * g.astype(np.float64).sum(axis, keepdims=True))


def data(shape: tuple[int, ...], scale: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, g = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    return x * np.float32(scale), g


def with_specials(x: np.ndarray, axis: int) -> np.ndarray:
    """nan, infinities and rows of -inf only, each in a row of its own along an axis as far as there are rows."""
    rows = np.moveaxis(x.copy(), axis, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    for row, number in zip(range(len(flat)), (np.nan, np.inf, -np.inf), strict=False):
        flat[row, row % flat.shape[1]] = number
    if len(flat) > 4:
        flat[4] = -np.inf
    return np.ascontiguousarray(np.moveaxis(flat.reshape(rows.shape), -1, axis))


def both(name: str, axis: int, x: np.ndarray, g: np.ndarray) -> tuple[Any, list[np.ndarray]]:
    """A step of a function and its gradient, and their results."""

    def step(x: Any, g: Any) -> Any:
        y, back = ops.vjp(lambda x: FUNCTIONS[name](x, axis), x)
        return y, back(g)

    compiled = graphls.compile(step, x, g, engine="onednn")
    y, (gradient,) = compiled(x, g)
    return compiled, [y.asnumpy(), gradient.asnumpy()]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("is_special", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_and_nan_are_those_of_the_definition(
    name: str, shape: tuple[int, ...], axis: int, is_special: bool
) -> None:
    x, g = data(shape)
    x = with_specials(x, axis) if is_special else x
    _, results = both(name, axis, x, g)
    for result, expected in zip(results, (exact(name, x, axis), gradient(name, x, g, axis)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_infinite_gradients_give_what_numpy_gives(name: str) -> None:
    x, g = data((8, 9))
    g[0, 2], g[1, 3], g[2, 4] = np.nan, np.inf, -np.inf
    x[3, :8] = -np.inf
    g[3, 1] = np.inf
    _, (_, result) = both(name, 1, x, g)
    np.testing.assert_allclose(result, gradient(name, x, g, 1), rtol=2e-6, atol=1e-6)


def test_probabilities_near_one_have_an_exact_logarithm() -> None:
    x = np.array([[12.0, 0.0, 0.0], [9.0, 1.0, -2.0], [10007.0, 10000.0, 0.0]], np.float32)
    step = graphls.compile(lambda x: ops.log_softmax(x, 1), x, engine="onednn")
    np.testing.assert_allclose(step(x).asnumpy(), exact("log_softmax", x, 1), rtol=2e-5, atol=1.2e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_is_fast_kernels_in_one_program(name: str) -> None:
    x, g = data((40, 33))
    step, _ = both(name, 1, x, g)
    (part,) = step._session.first
    assert isinstance(part, OnednnPart)
    assert not any(call.primitive.is_reference for call in part.program.calls if hasattr(call, "primitive"))
    found = kinds(step)
    assert found[f"{name.replace('_', ' ')}, gradient"] == 1
    assert found["reduction"] == (1 if name == "softmax" else 2)


def test_what_a_gradient_of_a_softmax_gives_joins_no_kernel() -> None:
    x, g = data((4, 5))
    step = graphls.compile(
        lambda x, y, g: ops.abs(g * y - y * ops.sum(g * y, 1, keepdims=True)), x, x, g, engine="onednn"
    )
    expected = np.abs(g * x - x * (g * x).sum(1, keepdims=True))
    np.testing.assert_allclose(step(x, x, g).asnumpy(), expected, rtol=1e-5, atol=1e-5)
    assert kinds(step) == Counter({"softmax, gradient": 1, "elementwise": 1})


def test_a_training_with_a_softmax_inside_has_the_losses_of_onnx_runtime() -> None:
    losses = {}
    x = np.random.default_rng(1).normal(size=(4, 6, 12)).astype(np.float32)
    for engine in ("onednn", "onnxruntime"):
        graphls.set_seed(1)
        network = nn.SequentialCell(nn.Dense(12, 20), nn.Softmax(1), nn.Dense(20, 9), nn.LogSoftmax(-1))
        step = trained(network, x, engine)
        losses[engine] = [float(step(x, np.zeros((4, 6, 9), np.float32)).asnumpy()) for _ in range(20)]
    np.testing.assert_allclose(losses["onednn"], losses["onnxruntime"], rtol=1e-5)
