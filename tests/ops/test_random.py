"""Random tensors: their distributions, and that they follow from seed, step and place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import BACKENDS

F32 = np.float32
N = 20_000
ONES = np.ones((2, 3, 4, 5), F32)

DRAWS: dict[str, tuple[Callable[..., Any], tuple[int, ...], str]] = {
    "rand": (lambda x: ops.rand(2, 3), (2, 3), "float32"),
    "rand of a shape": (lambda x: ops.rand((4,), dtype=graphls.float16), (4,), "float16"),
    "rand_like": (lambda x: ops.rand_like(x), (2, 3, 4, 5), "float32"),
    "randn": (lambda x: ops.randn(3, 0), (3, 0), "float32"),
    "randn odd": (lambda x: ops.randn(3, 3, dtype=graphls.float64), (3, 3), "float64"),
    "randn_like": (lambda x: ops.randn_like(x, dtype=graphls.float16), (2, 3, 4, 5), "float16"),
    "standard_normal": (lambda x: ops.standard_normal((2, 2)), (2, 2), "float32"),
    "normal": (lambda x: ops.normal((4, 1), ops.zeros(3), 2.0), (4, 3), "float32"),
    "uniform": (lambda x: ops.uniform((2, 1), 1.0, ops.ones(3) * 2), (2, 3), "float32"),
    "uniform integers": (lambda x: ops.uniform((9,), 1, 5, dtype=graphls.int32), (9,), "int32"),
    "randint": (lambda x: ops.randint(-3, 3, (2, 5)), (2, 5), "int64"),
    "randint_like": (lambda x: ops.randint_like(x, 0, 9), (2, 3, 4, 5), "float32"),
    "randperm": (lambda x: ops.randperm(7, dtype=graphls.int32), (7,), "int32"),
    "shuffle": (lambda x: ops.shuffle(ops.arange(8)), (8,), "int64"),
    "bernoulli": (lambda x: ops.bernoulli(x, 0.3), (2, 3, 4, 5), "float32"),
    "multinomial": (lambda x: ops.multinomial(ops.ones((2, 3)), 4), (2, 4), "int32"),
    "multinomial of all": (lambda x: ops.multinomial(ops.ones(5), 5, False), (5,), "int32"),
    "dropout1d": (lambda x: ops.dropout1d(x[0, 0]), (4, 5), "float32"),
    "dropout2d": (lambda x: ops.dropout2d(x), (2, 3, 4, 5), "float32"),
    "dropout3d": (lambda x: ops.dropout3d(x[None]), (1, 2, 3, 4, 5), "float32"),
    "gamma": (lambda x: ops.gamma((3, 1), ops.ones(2) * 3, 2.0), (3, 2), "float32"),
    "random_gamma": (lambda x: ops.random_gamma((2,), ops.ones(3, graphls.float64)), (2, 3), "float64"),
    "laplace": (lambda x: ops.laplace((3, 1), ops.zeros(2), 2.0), (3, 2), "float32"),
    "standard_laplace": (lambda x: ops.standard_laplace((3, 0)), (3, 0), "float32"),
    "poisson": (lambda x: ops.poisson((4, 1), ops.ones(3) * 30), (4, 3), "float32"),
    "random_poisson": (lambda x: ops.random_poisson((2,), ops.ones(3) * 3, dtype=graphls.int64), (2, 3), "int64"),
    "random_categorical": (lambda x: ops.random_categorical(ops.ones((2, 9)), 4), (2, 4), "int64"),
    "multinomial_with_replacement": (
        lambda x: ops.multinomial_with_replacement(ops.ones(9), -1, 0, 5), (5,), "int64",
    ),
    "StandardNormal": (lambda x: ops.StandardNormal()((3,)), (3,), "float32"),
    "UniformReal": (lambda x: ops.UniformReal(seed=2)((3, 2)), (3, 2), "float32"),
    "UniformInt": (lambda x: ops.UniformInt()((3, 2), 1, 9), (3, 2), "int32"),
    "Multinomial": (lambda x: ops.Multinomial()(ops.ones((2, 3)), 4), (2, 4), "int32"),
}


COMPUTED = ("gamma", "random_gamma", "laplace")
"""What the graph computes of uniform and normal numbers, to the last bits of a runtime's logarithms."""


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_follows_from_seed_and_step(name: str) -> None:
    function, shape, dtype = DRAWS[name]
    runs = []
    for backend in BACKENDS:
        for _ in range(2):
            graphls.set_seed(3)
            step = graphls.compile(lambda x: function(x) + 0 * x.size, ONES, backend=backend)
            runs.append([step(ONES) for _ in range(3)])
    assert all(t.shape == shape and t.dtype.long_name == dtype for run in runs for t in run)
    first, second, _ = (t.tolist() for t in runs[0])
    for i, run in enumerate(runs):
        same = runs[i // 2 * 2] if name in COMPUTED else runs[0]
        assert [t.tolist() for t in run] == [t.tolist() for t in same]
        for found, expected in zip(run, runs[0], strict=True):
            np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-5)
    assert first != second or not np.size(first) or len(set(np.ravel(first))) < 3
    eager = function(graphls.Tensor(ONES))
    assert eager.shape == shape and eager.dtype.long_name == dtype


def drawn(function: Callable[..., Any]) -> Any:
    """What a compiled step draws, after what is drawn at once."""
    graphls.set_seed(5)
    eager = function().asnumpy()
    compiled = graphls.compile(lambda x: function() + 0 * x, np.zeros((), eager.dtype), backend="numpy")
    return eager, compiled(np.zeros((), eager.dtype)).asnumpy()


def test_distributions() -> None:
    for x in drawn(lambda: ops.normal((N,), 3.0, 2.0)):
        assert x.mean() == pytest.approx(3, abs=0.05) and x.std() == pytest.approx(2, abs=0.05)
        assert ((x - 3) ** 4).mean() / 16 == pytest.approx(3, abs=0.2)
        assert (abs(x - 3) < 2).mean() == pytest.approx(0.6827, abs=0.01)
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.03 and abs(np.corrcoef(x[0::2], x[1::2])[0, 1]) < 0.03
    for x in drawn(lambda: ops.uniform((N,), -1.0, 3.0)):
        assert x.min() >= -1 and x.max() < 3
        assert x.mean() == pytest.approx(1, abs=0.05) and x.var() == pytest.approx(16 / 12, abs=0.05)
    for x in drawn(lambda: ops.randint(-2, 3, (N,))):
        np.testing.assert_allclose(np.bincount(x + 2) / N, 0.2, atol=0.02)
    for x in drawn(lambda: ops.bernoulli(ops.ones(N), 0.3)):
        assert set(x) == {0, 1} and x.mean() == pytest.approx(0.3, abs=0.02)
    for x in drawn(lambda: ops.randperm(N)):
        assert sorted(x) == list(range(N)) and abs(np.corrcoef(x, np.arange(N))[0, 1]) < 0.03


def test_a_probability_for_each_element() -> None:
    p = np.array([0, 0.5, 1], F32)
    found = ops.bernoulli(ops.ones((2000, 3), graphls.int32), p).asnumpy()
    assert found.dtype == np.int32
    np.testing.assert_allclose(found.mean(0), p, atol=0.05)


def test_multinomial_samples() -> None:
    weights = np.array([[1, 0, 3, 4], [0, 0, 2, 0]], F32)
    for x in drawn(lambda: ops.multinomial(weights, 4000)):
        counts = np.stack([np.bincount(row, minlength=4) for row in x]) / 4000
        np.testing.assert_allclose(counts, weights / weights.sum(1, keepdims=True), atol=0.03)
        assert counts[0, 1] == 0 and counts[1, 2] == 1
    for x in drawn(lambda: ops.multinomial(np.tile(weights[:1], (4000, 1)), 3, False)):
        assert {tuple(sorted(row)) for row in x} == {(0, 2, 3)}
        np.testing.assert_allclose(np.bincount(x[:, 0], minlength=4) / 4000, weights[0] / 8, atol=0.03)


def test_shuffled_slices_stay_together() -> None:
    x = np.arange(12).reshape(6, 2)
    found = ops.shuffle(x).asnumpy()
    assert sorted(map(tuple, found)) == list(map(tuple, x))


@pytest.mark.parametrize(("name", "shape"), [("dropout1d", (N, 3, 2)), ("dropout2d", (N, 3, 2, 2))])
def test_dropout_of_channels(name: str, shape: Any) -> None:
    function = getattr(ops, name)
    for x in drawn(lambda: function(ops.ones(shape), 0.25)):
        rows = x.reshape(N, 3, -1)
        assert set(np.unique(rows)) == {0, F32(1 / 0.75)} and (rows == rows[:, :, :1]).all()
        assert (rows[:, :, 0] == 0).mean() == pytest.approx(0.25, abs=0.01)
        assert (rows[:, 0, 0] != rows[:, 1, 0]).any()
    tensor = graphls.Tensor(np.ones(shape, F32))
    assert (function(tensor, 0.5, False).asnumpy() == 1).all() and (function(tensor, 1.0).asnumpy() == 0).all()


def test_seeds_of_what_is_drawn_at_once() -> None:
    functions: list[Any] = [
        lambda seed: ops.standard_normal((3,), seed),
        lambda seed: ops.randperm(8, seed),
        lambda seed: ops.rand(3, seed=seed),
    ]
    for function in functions:
        assert function(4).tolist() == function(4).tolist() != function(5).tolist()
        assert function(None).tolist() != function(None).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_flow_to_the_parameters_of_a_distribution(backend: str) -> None:
    def function(mean: Any, deviation: Any) -> Any:
        draw = ops.normal((3,), mean, deviation)
        _, gradients = ops.value_and_grad(lambda m, d: ops.sum(ops.normal((3,), m, d)), (0, 1))(mean, deviation)
        return draw, *gradients

    graphls.set_seed(1)
    operands = np.array(1, F32), np.array(2, F32)
    draw, by_mean, by_deviation = graphls.compile(function, *operands, backend=backend)(*operands)
    assert draw.shape == (3,) and by_mean.tolist() == 3 and by_deviation.shape == ()

    def masked(x: Any) -> Any:
        y = ops.dropout2d(x, 0.5)
        return y, ops.grad(lambda x: ops.sum(ops.dropout2d(x, 0.5)))(x)

    step = graphls.compile(masked, ONES, backend=backend)
    assert set(np.unique(step(ONES)[1].asnumpy())) <= {0, 2}


def test_places_in_a_program_draw_different_numbers() -> None:
    def function(x: Any) -> Any:
        return [ops.rand(4) + x, ops.rand(4) + x, ops.randn(4) + x]

    found = graphls.compile(function, np.zeros((), F32), backend="numpy")(np.zeros((), F32))
    assert len({tuple(t.tolist()) for t in found}) == 3


def test_the_random_streams_stay_what_they_are() -> None:
    """Checkpoints resume on any version, so these numbers may never change."""
    from graphls.ir.registry import lookup

    state = np.array([7, 11], np.int64)

    def drawn(name: str, **attrs: Any) -> Any:
        operation = lookup(name)
        types = operation.result_types((graphls.Tensor(state).type,), {"site": 13, **attrs}, ())
        return operation.evaluate((state,), {"site": 13, **attrs}, types)[0].tolist()

    assert drawn("random_integers", shape=(4,), start=-50, stop=50) == INTEGERS
    assert drawn("random_permutation", size=6) == PERMUTATION
    np.testing.assert_allclose(drawn("random_normal", shape=(3,)), NORMALS, rtol=1e-6)


INTEGERS = [29, 4, -22, 18]
PERMUTATION = [4, 5, 1, 0, 2, 3]
NORMALS = [-0.2205994576215744, 1.1044667959213257, 0.9350969195365906]

WRONG: list[Any] = [
    (lambda x: ops.rand(-1), ValueError, "0 or more"),
    (lambda x: ops.rand(2.0), TypeError, "A size is an integer|A shape is made of integers"),
    (lambda x: ops.rand(2, dtype=graphls.int32), TypeError, "floating point"),
    (lambda x: ops.rand(2, seed="a"), TypeError, "A seed is an integer"),
    (lambda x: ops.normal((2,), ops.zeros(3), 1.0), ValueError, "broadcast"),
    (lambda x: ops.randint(3, 3, (2,)), ValueError, "from 3 up to a higher number"),
    (lambda x: ops.randint(0.0, 3, (2,)), TypeError, "integers as bounds"),
    (lambda x: ops.randint(0, 2**64, (2,)), ValueError, "a range of int64"),
    (lambda x: ops.shuffle(ops.sum(x)), ValueError, "not a number"),
    (lambda x: ops.bernoulli(x, 1.5), ValueError, "from 0 to 1"),
    (lambda x: ops.multinomial(x, 1), ValueError, "cannot draw 1 samples with replacement"),
    (lambda x: ops.multinomial(x[0, 0, 0], 9, False), ValueError, "cannot draw 9 samples without"),
    (lambda x: ops.dropout1d(x), ValueError, "2 or 3 axes"),
    (lambda x: ops.dropout2d(x, 1.5), ValueError, "'p' must be at least 0 and at most 1"),
    (lambda x: ops.dropout3d(x, "a"), TypeError, "type of 'p' should be 'float'"),
]


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int, is_traced: bool) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, ONES, backend="numpy") if is_traced else function(graphls.Tensor(ONES))
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_random.py")
