"""Normalisation of samples, groups, channels and batches against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.ops.agree import BACKENDS, agree

RNG = np.random.default_rng(4)
X = RNG.normal(1.0, 2.0, size=(3, 6, 5, 4)).astype(np.float32)
GAMMA, BETA = (RNG.normal(size=6).astype(np.float32) for _ in range(2))


def normalised(x: Any, axes: Any, eps: float) -> Any:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def by_groups(x: Any, groups: int, eps: float = 1e-5) -> Any:
    return normalised(x.reshape(len(x), groups, -1), 2, eps).reshape(x.shape)


def column(values: Any, rank: int) -> Any:
    return np.reshape(values, (1, -1, *[1] * (rank - 2)))


def tensor(array: Any) -> graphls.Tensor:
    return graphls.Tensor(array)


CASES: dict[str, tuple[nn.Cell, Any, Any]] = {
    "layer": (nn.LayerNorm((4,)), X, lambda x: normalised(x, 3, 1e-7)),
    "layer of two axes": (nn.LayerNorm([5, 4], 2, 2, epsilon=0.1), X, lambda x: normalised(x, (2, 3), 0.1)),
    "layer, parameters of fewer axes": (
        nn.LayerNorm((4,), 1, gamma_init=tensor(GAMMA[:4]), beta_init="ones"), X,
        lambda x: normalised(x, (1, 2, 3), 1e-7) * GAMMA[:4] + 1,
    ),
    "rms": (
        nn.RMSNorm((4,), 1e-3, tensor(GAMMA[:4])), X,
        lambda x: x / np.sqrt((x.astype(np.float64) ** 2).mean(3, keepdims=True) + 1e-3) * GAMMA[:4],
    ),
    "group": (
        nn.GroupNorm(3, 6, gamma_init=tensor(GAMMA), beta_init=tensor(BETA)), X,
        lambda x: by_groups(x, 3) * column(GAMMA, 4) + column(BETA, 4),
    ),
    "group of rows": (nn.GroupNorm(2, 6, 0.1), X[:, :, 0, 0], lambda x: by_groups(x, 2, 0.1)),
    "instance 1": (nn.InstanceNorm1d(6), X[..., 0], lambda x: by_groups(x, 6)),
    "instance 2": (nn.InstanceNorm2d(6, gamma_init=tensor(GAMMA)), X, lambda x: by_groups(x, 6) * column(GAMMA, 4)),
    "instance 3": (nn.InstanceNorm3d(6), X[..., None], lambda x: by_groups(x, 6)),
    "batch 1": (nn.BatchNorm1d(6, beta_init=tensor(BETA)), X[..., 0],
                lambda x: normalised(x, (0, 2), 1e-5) + column(BETA, 3)),
    "batch 3": (nn.BatchNorm3d(6, gamma_init=tensor(GAMMA)), X[..., None],
                lambda x: normalised(x, (0, 2, 3, 4), 1e-5) * column(GAMMA, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_cells(name: str, backend: str) -> None:
    cell, x, expected = CASES[name]
    cell.set_train()
    found = graphls.compile(cell, x, backend=backend)(x)
    np.testing.assert_allclose(found.asnumpy(), expected(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision_is_computed_in_single(name: str, backend: str) -> None:
    """With squares that no float16 holds, also where the network is cast."""
    cell, x, expected = CASES[name]
    x = (x * 400).astype(np.float16)
    net = nn.SequentialCell(cell).to_float(graphls.float16).set_train()
    try:
        found = graphls.compile(net, x, backend=backend)(x)
    finally:
        cell.to_float(graphls.float32)
    assert found.dtype is graphls.float16
    np.testing.assert_allclose(found.asnumpy(), expected(x.astype(np.float64)), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_slopes(name: str, backend: str) -> None:
    cell, x, expected = CASES[name]
    cell.set_train()
    scale = RNG.normal(size=x.shape)
    weights = tuple(cell.trainable_params())

    def loss(x: Any) -> Any:
        return ops.sum(cell(x) * tensor(scale.astype(np.float32)))

    step = graphls.compile(lambda x: graphls.grad(loss, 0, weights)(x), x, backend=backend)
    by_x, by_weights = step(x)
    direction = RNG.normal(size=x.shape)
    ends = [(expected(x.astype(np.float64) + s * direction) * scale).sum() for s in (1e-5, -1e-5)]
    np.testing.assert_allclose((by_x.asnumpy() * direction).sum(), (ends[0] - ends[1]) / 2e-5, rtol=2e-3, atol=1e-3)
    assert [w.shape for w in by_weights] == [p.shape for p in weights]
    if name not in ("rms",):
        axes = tuple(i for i in range(x.ndim) if i != 1) if "layer" not in name else None
        shift = scale.sum(axes) if axes else scale.reshape(-1, *weights[-1].shape).sum(0)
        np.testing.assert_allclose(by_weights[-1].asnumpy(), shift, rtol=1e-3, atol=1e-4)


def test_parameters() -> None:
    names = {
        nn.LayerNorm((4,)): ["gamma", "beta"],
        nn.RMSNorm((4,)): ["gamma"],
        nn.GroupNorm(2, 4): ["gamma", "beta"],
        nn.InstanceNorm2d(4): ["gamma", "beta"],
        nn.BatchNorm3d(4): ["mean", "variance", "gamma", "beta"],
    }
    for cell, expected in names.items():
        assert [p.name for p in cell.get_parameters()] == expected
    assert nn.GroupNorm(2, 4, affine=False).trainable_params() == []
    assert nn.InstanceNorm1d(4, affine=False).trainable_params() == []


def test_empty_batches() -> None:
    for name, (cell, x, _) in CASES.items():
        if "batch" not in name:
            for backend in BACKENDS:
                assert graphls.compile(cell, x[:0], backend=backend)(x[:0]).shape == x[:0].shape


def test_functions() -> None:
    agree(lambda x: ops.layer_norm(x, (5, 4)), normalised(X, (2, 3), 1e-5), X, rtol=1e-4, atol=1e-5)
    agree(lambda x, g: ops.layer_norm(x, 4, g, g, eps=0.1), normalised(X, 3, 0.1) * GAMMA[:4] + GAMMA[:4],
          X, GAMMA[:4], rtol=1e-4, atol=1e-5)  # fmt: skip
    agree(lambda x: ops.group_norm(x, 2, GAMMA, BETA), by_groups(X, 2) * column(GAMMA, 4) + column(BETA, 4), X,
          rtol=1e-4, atol=1e-5)  # fmt: skip
    root = np.sqrt((X.astype(np.float64) ** 2).mean((2, 3), keepdims=True) + 1e-6)
    agree(lambda x: ops.rms_norm(x, np.ones((5, 4), np.float32)), (X / root, 1 / root), X, rtol=1e-4, atol=1e-5)


def test_batch_norm_moves_parameters_only_in_training() -> None:
    mean, variance = (graphls.Parameter(np.full(6, v, np.float32), requires_grad=False) for v in (0.5, 2.0))
    given = (X - 0.5) / np.sqrt(2.0 + 1e-5) * column(GAMMA, 4) + column(BETA, 4)

    def function(x: Any) -> Any:
        return ops.batch_norm(x, mean, variance, GAMMA, BETA)

    agree(function, given, X, rtol=1e-4, atol=1e-5)
    agree(lambda x: ops.batch_norm(x, np.full(6, 0.5, np.float32), np.full(6, 2.0, np.float32)),
          (X - 0.5) / np.sqrt(2.0 + 1e-5), X, rtol=1e-4, atol=1e-5)  # fmt: skip
    assert (mean.asnumpy() == 0.5).all()
    step = graphls.compile(lambda x: ops.batch_norm(x, mean, variance, GAMMA, BETA, True, 0.25), X)
    expected = normalised(X, (0, 2, 3), 1e-5) * column(GAMMA, 4) + column(BETA, 4)
    np.testing.assert_allclose(step(X).asnumpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean.asnumpy(), 0.75 * 0.5 + 0.25 * X.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(variance.asnumpy(), 0.75 * 2 + 0.25 * X.var((0, 2, 3), ddof=1), rtol=1e-5)


@pytest.mark.parametrize("radius", [0, 1, 7])
def test_local_response_norm(radius: int) -> None:
    total = np.zeros(X.shape)
    for i, j in np.ndindex(6, 6):
        if abs(i - j) <= radius:
            total[:, i] += X[:, j].astype(np.float64) ** 2
    expected = X / (2.0 + 0.5 * total) ** 0.75
    agree(lambda x: ops.lrn(x, radius, 2.0, 0.5, 0.75), expected, X, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(nn.LRN(radius, 2.0, 0.5, 0.75)(X).asnumpy(), expected, rtol=1e-4, atol=1e-5)


WRONG: list[Any] = [
    (lambda: nn.LayerNorm(4), TypeError, "'normalized_shape' must be tuple or list"),
    (lambda: nn.LayerNorm(()), ValueError, "must have an axis"),
    (lambda: nn.LayerNorm((5,))(X), ValueError, "does not fit"),
    (lambda: nn.LayerNorm((4,))(X.astype(np.int32)), TypeError, "takes floats"),
    (lambda: nn.RMSNorm((5,))(X), ValueError, "does not fit"),
    (lambda: nn.GroupNorm(4, 6), ValueError, "do not make 4 groups"),
    (lambda: nn.GroupNorm(3, 3)(X), ValueError, "'weight' of group_norm"),
    (lambda: nn.InstanceNorm2d(6)(X[0]), ValueError, "rank 4"),
    (lambda: nn.InstanceNorm2d(6, momentum="a"), TypeError, "'momentum'"),
    (lambda: nn.BatchNorm1d(6)(X), ValueError, "rank 2 or 3"),
    (lambda: nn.BatchNorm2d(6, data_format="NHWC"), ValueError, "'data_format'"),
    (lambda: ops.layer_norm(X, (4,), GAMMA), ValueError, "'weight' of layer_norm"),
    (lambda: ops.layer_norm(X, ()), ValueError, "does not fit"),
    (lambda: ops.group_norm(X, 2.0), TypeError, "'num_groups'"),
    (lambda: ops.batch_norm(X, GAMMA[:2], GAMMA), ValueError, "'running_mean' of batch_norm"),
    (lambda: ops.batch_norm(GAMMA, GAMMA, GAMMA), ValueError, "batch with channels"),
    (lambda: ops.lrn(X, 1.5), TypeError, "'depth_radius'"),
    (lambda: ops.lrn(X, norm_region="WITHIN"), ValueError, "ACROSS_CHANNELS"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_normalization.py")
