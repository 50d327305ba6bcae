"""Gamma, Poisson and Laplace numbers and choices: their distributions, seeds, gradients and wrong uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import graphls
from graphls import ops
from tests.ops.agree import BACKENDS
from tests.ops.test_random import drawn

N = 5000
F32 = np.float32

CONTINUOUS: dict[str, tuple[Callable[[], Any], Any]] = {
    "laplace": (lambda: ops.laplace((N,), 3.0, 2.0), stats.laplace(3, 2)),
    "standard_laplace": (lambda: ops.standard_laplace((N,)), stats.laplace()),
    **{
        f"gamma {alpha}": (lambda a=alpha: ops.gamma((N,), a, 2.0), stats.gamma(alpha, scale=0.5))
        for alpha in (0.1, 0.7, 1.0, 2.5, 50.0)
    },
    "random_gamma": (lambda: ops.random_gamma((N,), 3.0), stats.gamma(3)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str) -> None:
    function, expected = CONTINUOUS[name]
    for x in drawn(function):
        assert stats.kstest(x, expected.cdf).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.0, 0.3, 4.0, 9.9, 10.0, 37.5, 4000.0, 1e7])
def test_counts(rate: float) -> None:
    for x in drawn(lambda: ops.poisson((N,), rate)):
        assert (x == np.floor(x)).all() and (x >= 0).all()
        if not rate:
            assert not x.any()
            continue
        edges = np.unique(stats.poisson(rate).ppf(np.linspace(0, 1, 21)[1:-1]))
        bins = np.concatenate(([-np.inf], edges, [np.inf]))
        shares = np.diff(np.concatenate(([0], stats.poisson(rate).cdf(edges), [1])))
        counts = np.histogram(x, bins + 0.5)[0]
        kept = shares * N > 5
        assert stats.chisquare(counts[kept], shares[kept] / shares[kept].sum() * counts[kept].sum()).pvalue > 1e-3


def test_each_element_has_a_distribution_of_its_own() -> None:
    graphls.set_seed(2)
    for x in drawn(lambda: ops.random_gamma((4000,), F32([0.5, 20]))):
        np.testing.assert_allclose(x.mean(0), [0.5, 20], rtol=0.05)
    for x in drawn(lambda: ops.random_poisson((4000,), F32([0.5, 20]), dtype=graphls.float64)):
        np.testing.assert_allclose(x.mean(0), [0.5, 20], rtol=0.05)
    assert np.isnan(ops.gamma((2,), F32([-1, 0]), 1.0).asnumpy()).all()
    assert np.isnan(ops.poisson((1,), -1.0).asnumpy()).all()
    halves = ops.random_gamma((100,), ops.ones(2, graphls.float16))
    assert halves.dtype is graphls.float16 and np.isfinite(halves.asnumpy()).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_that_the_graph_computes(backend: str) -> None:
    rates = F32([0.5, 3, 40])

    def draws(rates: Any) -> Any:
        return ops.random_poisson((N,), rates), ops.random_gamma((N,), rates)

    graphls.set_seed(1)
    for x in graphls.compile(draws, rates, backend=backend)(rates):
        assert (abs(x.asnumpy().mean(0) - rates) < 4 * np.sqrt(rates / N)).all()


def test_draws_of_one_seed_do_not_depend_on_each_other() -> None:
    x = ops.gamma((N,), 0.7, 1.0, seed=3).asnumpy()
    assert stats.kstest(x, stats.gamma(0.7).cdf).pvalue > 1e-3
    assert x.tolist() == ops.gamma((N,), 0.7, 1.0, seed=3).tolist() != ops.gamma((N,), 0.7, 1.0, seed=4).tolist()
    assert ops.poisson((9,), 5.0, 3).tolist() == ops.poisson((9,), 5.0, 3).tolist()
    assert ops.standard_laplace((9,), 3).tolist() != ops.standard_laplace((9,), 4).tolist()


def test_gradients_of_scales() -> None:
    for function in (lambda s: ops.laplace((5,), 0.0, s, seed=2), lambda s: 1 / ops.gamma((5,), 2.0, s, seed=2)):
        graphls.set_seed(1)
        value, gradient = ops.value_and_grad(lambda s: ops.sum(function(s)))(graphls.Tensor(2.0))  # noqa: B023
        assert gradient.item() == pytest.approx(value.item() / 2, rel=1e-5)
    assert ops.grad(lambda a: ops.sum(ops.gamma((5,), a, 1.0)))(graphls.Tensor(2.0)).item() == 0


def test_categories() -> None:
    shares = F32([[0.1, 0.2, 0.7], [0.5, 0.5, 0]])
    with np.errstate(divide="ignore"):
        logits = np.log(shares) + 3
    for x in drawn(lambda: ops.random_categorical(logits, 4000)):
        counts = np.stack([np.bincount(row, minlength=3) for row in x]) / 4000
        np.testing.assert_allclose(counts, shares, atol=0.03)
    assert ops.random_categorical(logits, 5, dtype=graphls.int16).dtype is graphls.int16
    for x in drawn(lambda: ops.multinomial_with_replacement(shares, 2, 5, 4000, True)):
        assert x.dtype == np.int64
        np.testing.assert_allclose(np.stack([np.bincount(r, minlength=3) for r in x]) / 4000, shares, atol=0.03)
    assert sorted(ops.multinomial_with_replacement(shares[0], -1, 0, 3).tolist()) == [0, 1, 2]
    again = [ops.multinomial_with_replacement(shares, 1, 2, 50, True).tolist() for _ in range(2)]
    assert again[0] == again[1] != ops.multinomial_with_replacement(shares, 1, 3, 50, True).tolist()


def test_choices() -> None:
    graphls.set_seed(2)
    mask = np.zeros((3, 4, 2), bool)
    mask[0, 1, 1] = mask[2, 3, 0] = mask[1, 0, 1] = True
    true = {(0, 1, 1), (2, 3, 0), (1, 0, 1)}
    places, counts = ops.choice_with_mask(graphls.Tensor(mask), 5)
    assert places.shape == (5, 3) and places.dtype is graphls.int32 and counts.tolist() == [True] * 3 + [False] * 2
    assert set(map(tuple, places.tolist()[:3])) == true and places.tolist()[3:] == [[0, 0, 0]] * 2
    many = [tuple(ops.choice_with_mask(graphls.Tensor(mask), 1)[0].tolist()[0]) for _ in range(100)]
    assert all(many.count(place) > 15 for place in true)
    assert ops.choice_with_mask(graphls.Tensor(mask), 30)[1].tolist() == [True] * 3 + [False] * 27
    places, counts = ops.choice_with_mask(graphls.Tensor(np.zeros((0, 2), bool)), 2)
    assert places.tolist() == [[0, 0]] * 2 and counts.tolist() == [False] * 2
    for backend in BACKENDS:
        places, counts = graphls.compile(lambda m: ops.choice_with_mask(m, 4), mask, backend=backend)(mask)
        assert set(map(tuple, places.tolist()[:3])) == true and counts.tolist() == [True] * 3 + [False]


WRONG: list[Any] = [
    (lambda: ops.gamma((-1,), 1.0, 1.0), ValueError, "0 or more"),
    (lambda: ops.gamma((3,), np.ones(2), 1.0), ValueError, "broadcast"),
    (lambda: ops.laplace((3,), np.ones(2), 1.0), ValueError, "broadcast"),
    (lambda: ops.standard_laplace((3,), 0.5), TypeError, "seed is an integer"),
    (lambda: ops.random_categorical(np.ones(3), 2), ValueError, "cannot draw 2 samples"),
    (lambda: ops.random_categorical(np.ones((3, 3)), 2, dtype=graphls.float32), TypeError, "int16, int32 or int64"),
    (lambda: ops.multinomial_with_replacement(np.ones(3), 1.5, 0, 2), TypeError, "'seed' must be int"),
    (lambda: ops.multinomial_with_replacement(np.ones(3), 1, 0, 4), ValueError, "without replacement"),
    (lambda: ops.choice_with_mask(np.ones(3)), TypeError, "takes bools"),
    (lambda: ops.choice_with_mask(np.ones(3, bool), 0), ValueError, "cannot choose 0"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_distributions.py")
