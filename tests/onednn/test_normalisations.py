"""Layer, group, instance and RMS normalisation: kernels, gradients, and nan and infinities as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.onednn.test_program import kinds, trained

FORWARD, BACKWARD = "layer normalisation", "layer normalisation, gradients"


class Residual(nn.Cell):
    """Two blocks whose gradients of x come from the normalisation and from around it."""

    def __init__(self, make: Callable[[], nn.Cell]) -> None:
        super().__init__()
        self.first, self.second = make(), make()
        self.dense, self.other = nn.Dense(24, 24), nn.Dense(24, 24)

    def construct(self, x: Any) -> Any:
        x = x + self.dense(self.first(x))
        return x + ops.relu(self.other(self.second(x))) + x * 0.5


def images(norm: nn.Cell) -> nn.Cell:
    return nn.SequentialCell(
        nn.Conv2d(3, 12, 3), norm, nn.ReLU(), nn.Conv2d(12, 5, 3), nn.InstanceNorm2d(5), nn.Conv2d(5, 2, 1)
    )


def rows(*norms: nn.Cell) -> nn.Cell:
    return nn.SequentialCell(nn.Dense(24, 24), *norms, nn.Dense(24, 3))


def frozen() -> nn.Cell:
    norm = nn.LayerNorm((24,))
    norm.gamma.requires_grad = norm.beta.requires_grad = False
    return rows(norm, nn.ReLU())


class Own(nn.Cell):
    """A normalisation written by hand, without sums."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = graphls.Parameter(np.linspace(0.5, 2, 24).astype(np.float32))

    def construct(self, x: Any) -> Any:
        centred = x - ops.mean(x, -1, True)
        return centred * ops.rsqrt(ops.mean(ops.square(centred), -1, True) + 1e-3) * self.factors


NETWORKS: dict[str, tuple[Callable[[], nn.Cell], tuple[int, ...], int]] = {
    "layer": (lambda: rows(nn.LayerNorm((24,), epsilon=1e-5)), (4, 7, 24), 1),
    "matrix": (lambda: rows(nn.LayerNorm((24,))), (5, 24), 1),
    "single": (lambda: rows(nn.LayerNorm((24,))), (1, 24), 1),
    "two axes": (lambda: rows(nn.LayerNorm((7, 24), 1, 1, epsilon=1e-5)), (4, 7, 24), 1),
    "four axes": (lambda: rows(nn.LayerNorm((24,), epsilon=1e-5)), (2, 3, 5, 24), 1),
    "two in a row": (lambda: rows(nn.LayerNorm((24,)), nn.ReLU(), nn.LayerNorm((24,))), (6, 24), 2),
    "without sums": (lambda: rows(Own(), nn.Tanh()), (6, 24), 1),
    "frozen": (frozen, (6, 24), 1),
    "residual": (lambda: Residual(lambda: nn.LayerNorm((24,))), (4, 7, 24), 2),
    "groups": (lambda: images(nn.GroupNorm(4, 12)), (3, 3, 9, 7), 2),
    "one group": (lambda: images(nn.GroupNorm(1, 12)), (1, 3, 8, 8), 2),
    "instances": (lambda: images(nn.InstanceNorm2d(12)), (2, 3, 8, 8), 2),
    "rms": (lambda: rows(nn.RMSNorm((24,))), (4, 7, 24), 0),
}


def losses(name: str, engine: str) -> tuple[graphls.Compiled, list[float]]:
    make, shape, _ = NETWORKS[name]
    graphls.set_seed(3)
    x = np.random.default_rng(4).normal(1, 2, shape).astype(np.float32)
    network = make()
    target = np.zeros(network(graphls.Tensor(x)).shape, np.float32)
    step = trained(network, x, engine)
    return step, [float(step(x, target).asnumpy()) for _ in range(20)]


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_are_those_of_onnx_runtime(name: str) -> None:
    step, found = losses(name, "onednn")
    np.testing.assert_allclose(found, losses(name, "onnxruntime")[1], rtol=1e-5, atol=1e-6)
    assert found[-1] < found[0]
    assert step.plan.segments[0].engine == "onednn" and len(step.plan.segments) <= 2


@pytest.mark.parametrize("name", NETWORKS)
def test_each_is_one_kernel_in_each_direction(name: str) -> None:
    count = kinds(losses(name, "onednn")[0])
    assert count[FORWARD] == count[BACKWARD] == NETWORKS[name][2]


def both(x: np.ndarray, g: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> tuple[graphls.Compiled, list[Any]]:
    """Layer normalisation and its gradients."""

    def step(x: Any, g: Any, gamma: Any, beta: Any) -> Any:
        y, back = ops.vjp(lambda *operands: ops.layer_norm(operands[0], x.shape[-1:], *operands[1:]), x, gamma, beta)
        return y, back(g)

    compiled = graphls.compile(step, x, g, gamma, beta, engine="onednn")
    y, gradients = compiled(x, g, gamma, beta)
    return compiled, [v.asnumpy() for v in (y, *gradients)]


def exact(x: np.ndarray, g: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> list[np.ndarray]:
    x, g, gamma, beta = (a.astype(np.float64) for a in (x, g, gamma, beta))
    leading = tuple(range(x.ndim - 1))
    with np.errstate(all="ignore"):
        centred = x - x.mean(-1, keepdims=True)
        root = 1 / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-5)
        n, scaled = centred * root, g * gamma
        levelled = scaled - scaled.mean(-1, keepdims=True) - n * (scaled * n).mean(-1, keepdims=True)
        return [n * gamma + beta, levelled * root, (g * n).sum(leading), g.sum(leading)]


@pytest.mark.parametrize("shape", [(6, 33), (1, 5), (3, 1, 16), (2, 3, 4, 7), (40, 512)])
@pytest.mark.parametrize("is_special", [False, True])
def test_numbers_and_nan_are_those_of_the_definition(shape: tuple[int, ...], is_special: bool) -> None:
    rng = np.random.default_rng(5)
    x, g = (rng.normal(2, 3, shape).astype(np.float32) for _ in range(2))
    gamma, beta = (rng.normal(size=shape[-1]).astype(np.float32) for _ in range(2))
    if is_special:
        first = x.reshape(-1, shape[-1])
        first[0, 1] = np.nan
        first[-1, 0] = np.inf
        g.reshape(-1, shape[-1])[len(first) // 2, 2] = -np.inf
    compiled, results = both(x, g, gamma, beta)
    for result, expected in zip(results, exact(x, g, gamma, beta), strict=True):
        if is_special:
            assert (np.isnan(result) == np.isnan(expected)).all()
        else:
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5 * max(1, np.abs(expected).max()))
    assert kinds(compiled)[FORWARD] == kinds(compiled)[BACKWARD] == 1


def test_factors_may_come_from_the_statistics() -> None:
    x = np.random.default_rng(6).normal(2, 3, (4, 8)).astype(np.float32)

    def adaptive(x: Any) -> Any:
        mean = ops.mean(x, 1, True)
        centred = x - mean
        n = centred * ops.rsqrt(ops.mean(ops.square(centred), 1, True) + 1e-5)
        return n * ops.mean(mean * x, 0) + ops.sum(n, 0)

    step = graphls.compile(adaptive, x, engine="onednn")
    mean = x.mean(1, keepdims=True)
    n = (x - mean) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(step(x).asnumpy(), n * (mean * x).mean(0) + n.sum(0), rtol=1e-4, atol=1e-4)
