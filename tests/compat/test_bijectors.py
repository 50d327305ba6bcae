"""Bijectors of `mindspore.nn.probability`: formulas, slopes by differentiation, and numbers of MindSpore 2.10."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from scipy import stats

import graphls as gl
from graphls import Tensor, nn
from graphls.compat.probability import bijectors as b
from graphls.compat.probability import distributions as p
from graphls.compat.probability.bijectors import Bijector, TransformedDistribution
from graphls.compat.probability.discrete import Geometric, Poisson
from graphls.compat.probability.distributions import HalfNormal, StudentT

X = np.float32([0.5, 1.0, 2.5])
# What MindSpore 2.10 gives for X, and [0.1, 0.5, 0.9] where GumbelCDF is inverted; its Softplus fails there.
MEASURED: dict[str, tuple[Bijector, list[Any]]] = {
    "Exp": (b.Exp(), [
        [1.64872145652771, 2.7182798385620117, 12.182494163513184], [-0.6931471824645996, 0.0, 0.9162907600402832],
        [0.5, 1.0, 2.5], [0.6931471824645996, -0.0, -0.9162907600402832],
    ]),
    "PowerTransform": (b.PowerTransform(0.5), [
        [1.5624996423721313, 2.250000238418579, 5.062500476837158], [-0.5857864618301392, 0.0, 1.1622776985168457],
        [0.2231435477733612, 0.40546509623527527, 0.8109301924705505],
        [0.3465735912322998, -0.0, -0.4581453800201416],
    ]),
    "ScalarAffine": (b.ScalarAffine(-2.0, 0.5), [
        [-0.5, -1.5, -4.5], [-0.0, -0.25, -1.0], 0.6931471824645996, -0.6931471824645996,
    ]),
    "GumbelCDF": (b.GumbelCDF(0.5, 2.0), [
        [0.36787882447242737, 0.45895612239837646, 0.6922000646591187],
        [-1.1680649518966675, 1.2330257892608643, 5.000734329223633],
        [-1.6931471824645996, -1.7219476699829102, -2.061026096343994],
        [2.1616997718811035, 1.7528072595596313, 3.048874855041504],
    ]),
    "InvertExp": (b.Invert(b.Exp()), [
        [-0.6931471824645996, 0.0, 0.9162907600402832], [1.64872145652771, 2.7182798385620117, 12.182494163513184],
        [0.6931471824645996, -0.0, -0.9162907600402832], [0.5, 1.0, 2.5],
    ]),
}  # fmt: skip
METHODS = ("forward", "inverse", "forward_log_jacobian", "inverse_log_jacobian")
KINDS = [*(kind for kind, _ in MEASURED.values()), b.PowerTransform(0.0), b.Softplus(2.0), b.Invert(b.Softplus(0.5))]


@pytest.mark.parametrize("name", MEASURED)
def test_numbers_of_mindspore(name: str) -> None:
    kind, wanted = MEASURED[name]
    assert kind.name == name
    for method, numbers in zip(METHODS, wanted, strict=True):
        x = np.float32([0.1, 0.5, 0.9]) if name == "GumbelCDF" and method.startswith("inverse") else X
        np.testing.assert_allclose(getattr(kind, method)(Tensor(x)).asnumpy(), numbers, rtol=3e-6, atol=1e-6)
        np.testing.assert_allclose(kind(method, Tensor(x)).asnumpy(), numbers, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_inverses_and_slopes(kind: Bijector) -> None:
    x = Tensor(X.astype(np.float64))
    y = kind.forward(x)
    np.testing.assert_allclose(kind.inverse(y).asnumpy(), X, rtol=1e-6)
    for method, at in (("forward", x), ("inverse", y)):
        slope = gl.grad(lambda x, method=method: getattr(kind, method)(x).sum())(at).asnumpy()
        found = getattr(kind, f"{method}_log_jacobian")(at).asnumpy()
        np.testing.assert_allclose(np.broadcast_to(found, 3), np.log(np.abs(slope)), rtol=1e-6, atol=1e-7)


def test_softplus_far_out() -> None:
    far = Tensor(np.float32([-80, 80]))
    np.testing.assert_allclose(b.Softplus().forward(far).asnumpy(), [np.exp(-80), 80], rtol=1e-4)
    np.testing.assert_allclose(b.Softplus().forward_log_jacobian(far).asnumpy(), [-80, 0], atol=1e-6)
    np.testing.assert_allclose(b.Softplus().inverse(Tensor(np.float32([1e-30, 80]))).asnumpy(), [np.log(1e-30), 80])


def test_transformed_distributions() -> None:
    own, wanted = TransformedDistribution(b.Exp(), p.Normal(0.5, 2.0)), stats.lognorm(2.0, scale=np.exp(0.5))
    pairs = {"prob": "pdf", "log_prob": "logpdf", "cdf": "cdf", "log_cdf": "logcdf", "survival_function": "sf",
             "log_survival": "logsf"}  # fmt: skip
    for method, other in pairs.items():
        np.testing.assert_allclose(getattr(own, method)(Tensor(X)).asnumpy(), getattr(wanted, other)(X), rtol=2e-5)
    np.testing.assert_equal(own.log_prob(Tensor(np.float32([-1, 0]))).asnumpy(), np.float32([np.nan, -np.inf]))
    for method in ("mean", "var", "entropy"):
        with pytest.raises(AttributeError):
            getattr(own, method)()
    gl.set_seed(3)
    drawn = TransformedDistribution(b.Exp(), p.Normal(0.5, 2.0), seed=4).sample((4000,)).asnumpy()
    assert stats.kstest(wanted.cdf(drawn), "uniform").pvalue > 1e-3 and own.sample((2, 3)).shape == (2, 3)


def test_linear_transformations_also_turned_around() -> None:
    own = b.ScalarAffine(2.0, 1.0)(p.Normal(0.5, 2.0))
    assert isinstance(own, TransformedDistribution) and own.is_linear_transformation and float(own.mean()) == 2.0
    near = {"log_prob": [-2.3755455017089844, -2.3364830017089844, -2.3130455017089844],
            "cdf": [0.3538302183151245, 0.40129369497299194, 0.5497382283210754]}  # fmt: skip
    for method, numbers in near.items():
        np.testing.assert_allclose(own(method, Tensor(X)).asnumpy(), numbers, rtol=1e-5)
    for turned in (b.ScalarAffine(-2.0, 1.0), b.Invert(b.ScalarAffine(-0.5, 0.5))):
        found = turned(p.Normal(0.5, 2.0)).cdf(Tensor(X)).asnumpy()
        np.testing.assert_allclose(found, stats.norm(0, 4).cdf(X), rtol=1e-5)
    unknown = TransformedDistribution(b.Exp(), p.Normal())
    np.testing.assert_allclose(unknown.cdf(Tensor(X), 0.5, 2.0).asnumpy(), stats.norm(0.5, 2).cdf(np.log(X)), rtol=1e-5)


def test_what_is_refused() -> None:
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: b.Exp().forward(Tensor([1, 2])), TypeError, "takes a tensor of floats"),
        (lambda: b.Exp().forward(1.0), TypeError, "takes a tensor of floats"),
        (lambda: b.Exp()("backward", Tensor(X)), ValueError, "not 'backward'"),
        (lambda: Bijector().forward(Tensor(X)), AttributeError, "Bijector has no forward"),
        (lambda: b.GumbelCDF(0.0, 0.0), ValueError, "scale must be greater than zero"),
        (lambda: b.PowerTransform(-1.0), ValueError, "Power must be greater than or equal to zero"),
        (lambda: b.ScalarAffine(True), TypeError, "scale cannot be type"),
        (lambda: b.ScalarAffine(1.0, None), TypeError, "shift cannot be type"),
        (lambda: b.ScalarAffine(1), TypeError, "scale takes floats"),
        (lambda: b.Invert(3), TypeError, "the type of 'bijector' should be 'Bijector'"),
        (lambda: TransformedDistribution(3, p.Normal()), TypeError, "should be 'Bijector'"),
        (lambda: TransformedDistribution(b.Exp(), 3), TypeError, "should be 'Distribution'"),
        (lambda: TransformedDistribution(b.Exp(), Poisson(2.0, dtype=gl.int32)), TypeError, "distribution of floats"),
    ]
    for call, error, message in wrong:
        with pytest.raises(error, match=message):
            call()


class Net(nn.Cell):
    """A density through a bijector whose shift is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = gl.Parameter(Tensor(np.float32(0.0)), name="shift")
        self.transformed = TransformedDistribution(b.Softplus(), p.Normal(0.0, 1.0))

    def construct(self, x: Tensor) -> Tensor:
        return -self.transformed.log_prob(x - self.shift).sum()


def test_steps_train_through_bijectors() -> None:
    net = Net()
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.01))
    losses = [float(step(Tensor(X + 1))) for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and losses[4] < losses[0]


# Numbers of MindSpore 2.10.
def test_distributions_with_a_few_formulas() -> None:
    for own, method, wanted in (
        (HalfNormal(1.0, 2.0), "prob", [0.3866681158542633, 0.3989422917366028, 0.30113717913627625]),
        (StudentT(2.0, 1.0, 2.0), "log_prob", [-1.7790254354476929, -1.732867956161499, -2.1046221256256104]),
    ):
        np.testing.assert_allclose(getattr(own, method)(Tensor(X)).asnumpy(), wanted, rtol=1e-5)
    own, x = Geometric(0.3), Tensor(np.float32([-1, 0, 1, 2.7]))
    numbers = {"prob": [0, 0.3, 0.21, 0.147], "cdf": [0, 0.3, 0.51, 0.657], "survival_function": [1, 0.7, 0.49, 0.343]}
    for method, wanted in numbers.items():
        np.testing.assert_allclose(getattr(own, method)(x).asnumpy(), wanted, rtol=1e-5)
    moments = {"mean": 2.33333325, "mode": 0, "var": 7.7777768, "sd": 2.7888667, "entropy": 2.03621435}
    for method, number in moments.items():
        np.testing.assert_allclose(float(getattr(own, method)()), number, rtol=1e-5)
    np.testing.assert_allclose(float(own.kl_loss("Geometric", 0.5)), 0.27427626, rtol=1e-5)
    assert float(HalfNormal(1.0, 2.0).prob(Tensor(np.float32(-0.5)))) == 0


def test_samples_of_geometric() -> None:
    gl.set_seed(3)
    drawn = Geometric(0.3).sample((4000,)).asnumpy()
    assert drawn.min() == 0 and abs(drawn.mean() - 7 / 3) < 0.2


@pytest.mark.usefixtures("mindspore")
def test_scripts_find_them() -> None:
    msb = importlib.import_module("mindspore.nn.probability.bijector")
    msd = importlib.import_module("mindspore.nn.probability.distribution")
    assert msb.Exp is b.Exp and msd.TransformedDistribution is TransformedDistribution
    found = importlib.import_module("mindspore").nn.probability
    assert found.bijector.Softplus is b.Softplus and found.distribution.StudentT is StudentT
