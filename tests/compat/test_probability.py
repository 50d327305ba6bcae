"""Distributions of `mindspore.nn.probability` against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import graphls as gl
from graphls import Tensor, nn
from graphls.compat.probability import discrete
from graphls.compat.probability import distributions as p

X = np.array([0.3, 0.75, 1.5], np.float32)

KINDS: dict[str, tuple[Any, Any, Any, Any]] = {
    "Normal": (p.Normal(0.5, 2.0), stats.norm(0.5, 2.0), (1.0, 3.0), stats.norm(1.0, 3.0)),
    "Uniform": (p.Uniform(0.0, 2.0), stats.uniform(0, 2), None, None),
    "Exponential": (p.Exponential(1.5), stats.expon(scale=1 / 1.5), (0.5,), stats.expon(scale=2)),
    "Laplace": (p.Laplace(0.5, 2.0), stats.laplace(0.5, 2.0), None, None),
    "Logistic": (p.Logistic(0.5, 2.0), stats.logistic(0.5, 2.0), None, None),
    "Gumbel": (p.Gumbel(0.5, 2.0), stats.gumbel_r(0.5, 2.0), None, None),
    "LogNormal": (p.LogNormal(0.2, 0.5), stats.lognorm(0.5, scale=np.exp(0.2)), None, None),
    "Cauchy": (p.Cauchy(0.5, 2.0), stats.cauchy(0.5, 2.0), None, None),
}


@pytest.mark.parametrize("name", KINDS)
def test_densities_and_moments(name: str) -> None:
    own, wanted, _, _ = KINDS[name]
    for method, other in (("prob", "pdf"), ("log_prob", "logpdf"), ("cdf", "cdf"), ("survival_function", "sf")):
        np.testing.assert_allclose(getattr(own, method)(Tensor(X)).asnumpy(), getattr(wanted, other)(X), rtol=2e-4)
    np.testing.assert_allclose(float(own.entropy()), wanted.entropy(), rtol=1e-4)
    if name == "Cauchy":
        with pytest.raises(AttributeError, match=r"Cauchy has no mean.*test_probability"):
            own.mean()
        return
    for method, other in (("mean", "mean"), ("var", "var"), ("sd", "std")):
        np.testing.assert_allclose(float(getattr(own, method)()), getattr(wanted, other)(), rtol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_samples_follow_the_distribution(name: str) -> None:
    own, wanted, _, _ = KINDS[name]
    gl.set_seed(3)
    drawn = own.sample((4000,)).asnumpy()
    assert drawn.shape == (4000,)
    assert stats.kstest(drawn, wanted.cdf).pvalue > 1e-3


def test_whole_numbers_of_one_probability() -> None:
    own, wanted = discrete.Bernoulli(probs=0.3), stats.bernoulli(0.3)
    x = np.array([0.0, 1.0])
    np.testing.assert_allclose(own.prob(Tensor(x)).asnumpy(), wanted.pmf(x), rtol=1e-5)
    np.testing.assert_allclose(own.cdf(Tensor(x)).asnumpy(), wanted.cdf(x), rtol=1e-5)
    np.testing.assert_allclose(float(own.entropy()), wanted.entropy(), rtol=1e-5)
    assert abs(float(own.sample((4000,)).mean()) - 0.3) < 0.05
    assert float(own.mode()) == 0.0


@pytest.mark.parametrize("name", ["Normal", "Exponential"])
def test_divergences(name: str) -> None:
    own, wanted, parameters, other = KINDS[name]
    x = np.linspace(*((-30, 30) if name == "Normal" else (1e-6, 40)), 400_001)
    integral = integrate.trapezoid(wanted.pdf(x) * (wanted.logpdf(x) - other.logpdf(x)), x)
    np.testing.assert_allclose(float(own.kl_loss(name, *parameters)), integral, rtol=1e-3)
    total = float(own.cross_entropy(name, *parameters))
    np.testing.assert_allclose(total, integral + wanted.entropy(), rtol=1e-3)
    with pytest.raises(ValueError, match=f"kl_loss supports only '{name}', not 'Other'"):
        own.kl_loss("Other", *parameters)


def test_parameters_of_a_call_and_of_a_graph() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.normal = p.Normal(dtype=gl.float32)

        def construct(self, x: Any, mean: Any) -> Any:
            return self.normal("log_prob", x, mean, 2.0)

    found = Net()(Tensor(X), Tensor([0.5]))
    np.testing.assert_allclose(found.asnumpy(), stats.norm(0.5, 2.0).logpdf(X), rtol=1e-5)
    by_mean = gl.grad(Net(), 1)(Tensor(X), Tensor([0.5])).asnumpy()
    np.testing.assert_allclose(by_mean, [((X - 0.5) / 4).sum()], rtol=1e-5)
    with pytest.raises(ValueError, match="Normal needs its parameter 'mean', at its creation or in the call"):
        p.Normal().prob(Tensor(X))
    with pytest.raises(TypeError, match="Normal has no parameter 'scale'"):
        p.Normal(scale=1.0)
    assert p.Logistic(0.5, 2.0).loc.tolist() == 0.5
