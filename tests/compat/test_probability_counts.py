"""Gamma, Beta, Poisson and Categorical of `mindspore.nn.probability`: SciPy, and what MindSpore 2.10 gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import graphls as gl
from graphls import Tensor, nn
from graphls.compat.probability import discrete, distributions

A, B = np.float32([0.5, 2, 3]), np.float32([1, 0.5, 2])
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "Gamma": (distributions.Gamma(Tensor(A), Tensor(B)), stats.gamma(A, scale=1 / B), np.float32([0.5, 2, 3])),
    "Beta": (distributions.Beta(Tensor(A), Tensor(B)), stats.beta(A, B), np.float32([0.25, 0.5, 0.9])),
    "Poisson": (discrete.Poisson(Tensor(A)), stats.poisson(A), np.float32([0, 2, 5])),
}
PROBS = np.float32([[0.25, 0.25, 0.5], [0.1, 0.2, 0.7]])


def near(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_densities_and_moments(name: str) -> None:
    own, wanted, x = KINDS[name]
    near(own.log_prob(Tensor(x)), wanted.logpmf(x) if name == "Poisson" else wanted.logpdf(x))
    near(own.mean(), wanted.mean())
    near(own.var(), wanted.var())
    near(own.sd(), wanted.std())
    if name == "Poisson":
        with pytest.raises(AttributeError, match="Poisson has no entropy"):
            own.entropy()
    else:
        near(own.entropy(), wanted.entropy())


@pytest.mark.parametrize("name", KINDS)
def test_probabilities_of_at_most_and_of_more(name: str) -> None:
    own, wanted, x = KINDS[name]
    near(own.cdf(Tensor(x)), wanted.cdf(x))
    near(own.log_cdf(Tensor(x)), wanted.logcdf(x))
    near(own.survival_function(Tensor(x)), wanted.sf(x))
    near(own.log_survival(Tensor(x)), wanted.logsf(x))
    near(own.cdf(Tensor(x - 9)), [0, 0, 0])
    near(own.survival_function(Tensor(x - 9)), [1, 1, 1])


def test_small_probabilities_of_more_are_not_lost() -> None:
    far = {"Gamma": np.float32([40, 90, 30]), "Beta": np.float32([0.25, 0.5, 0.99999]), "Poisson": np.float32([15] * 3)}
    for name, x in far.items():
        own, wanted, _ = KINDS[name]
        np.testing.assert_allclose(own.survival_function(Tensor(x)).asnumpy(), wanted.sf(x), rtol=2e-5)


def test_modes_are_those_of_mindspore() -> None:
    near(KINDS["Gamma"][0].mode(), [np.nan, 2, 1])
    near(KINDS["Beta"][0].mode(), [np.nan, np.nan, 2 / 3])
    near(KINDS["Poisson"][0].mode(), [0, 2, 3])


def test_values_that_cannot_be() -> None:
    near(KINDS["Gamma"][0].log_prob(Tensor(np.float32([0, -1, 3]))), [np.inf, np.nan, -2.4164810180664062])
    near(KINDS["Beta"][0].log_prob(Tensor(np.float32([0, -1, 2]))), [np.inf, np.nan, np.nan])
    near(KINDS["Poisson"][0].log_prob(Tensor(np.float32([-1, 2.5, 5]))), [-np.inf, -1.46810615, -2.29442835])
    near(discrete.Categorical(Tensor(PROBS)).log_prob(Tensor(np.float32([5, -1]))), [np.nan, np.nan])


def test_divergences() -> None:
    gamma, beta = KINDS["Gamma"][0], KINDS["Beta"][0]
    near(gamma.kl_loss("Gamma", 1.5, 1.0), [1.2703628454614777, 1.0508891590740705, 0.1099678552924277])
    near(beta.kl_loss("Beta", 1.5, 1.0), [0.9013877113318893, 0.49999999999999967, 0.12110820834650227])
    other = Tensor(np.float32([0.5, 0.25, 0.25]))
    near(discrete.Categorical(Tensor(PROBS)).kl_loss("Categorical", other), [0.17328679513998632, 0.5151610905205587])


def test_classes() -> None:
    own = discrete.Categorical(Tensor(PROBS))
    near(own.log_prob(Tensor(np.float32([2, 0]))), np.log([0.5, 0.1]))
    near(own.cdf(Tensor(np.float32([1, 0]))), [0.5, 0.1])
    near(own.entropy(), [1.0397207708399179, 0.8018185525433373])
    near(own.var(), [[0.6875], [0.44]])
    assert own.mode().asnumpy().tolist() == [2, 2] and own.mode().dtype == gl.int32
    near(discrete.Categorical(Tensor(np.float32([0, 1]))).entropy(), 0)


def test_samples_follow_the_distributions() -> None:
    gl.set_seed(3)
    for name in ("Gamma", "Beta"):
        own, wanted, _ = KINDS[name]
        quantiles = wanted.cdf(own.sample((4000,)).asnumpy())
        assert quantiles.shape == (4000, 3)
        assert all(stats.kstest(column, "uniform").pvalue > 1e-3 for column in quantiles.T)
    drawn = KINDS["Poisson"][0].sample((4000,)).asnumpy()
    np.testing.assert_allclose(drawn.mean(0), A, atol=0.15)
    classes = discrete.Categorical(Tensor(PROBS)).sample((4000,)).asnumpy()
    assert classes.shape == (4000, 2) and classes.dtype == np.int32
    np.testing.assert_allclose([(classes == number).mean(0) for number in range(3)], PROBS.T, atol=0.04)


def test_they_are_parts_of_graphs() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.gamma, self.classes = distributions.Gamma(2.0, 0.5), discrete.Categorical()

        def construct(self, x: Tensor, probs: Tensor) -> Any:
            return self.gamma("log_prob", x), self.classes.log_prob(x, probs)

    first, second = Net()(Tensor(np.float32([1, 2])), Tensor(PROBS))
    near(first, stats.gamma(2, scale=2).logpdf([1, 2]))
    near(second, np.log([0.25, 0.7]))
