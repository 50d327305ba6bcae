"""The incomplete gamma and beta functions against SciPy, on both sides of where the series change, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import graphls as gl
from graphls import Tensor, nn, ops
from graphls.ops.math.incomplete_functions import betainc
from tests.ops.agree import agree, compared
from tests.ops.slopes import assert_slopes

A = np.array([1e-3, 0.01, 0.5, 1, 2, 3.7, 10, 50, 300, 5000])[:, None]
X = np.array([1e-8, 0.01, 0.5, 1, 2, 5, 12, 60, 310, 5050])
C = np.array([1e-3, 0.5, 1, 3.7, 30, 400])[:, None, None]
D = np.array([1e-3, 0.5, 2.5, 30, 900])[:, None]
Y = np.array([1e-9, 0.01, 0.2, 0.5, 0.7, 0.99, 1 - 1e-9])


def test_gamma() -> None:
    agree(ops.igamma, special.gammainc(A, X), A, X, rtol=1e-8, atol=1e-290)
    agree(ops.igammac, special.gammaincc(A, X), A, X, rtol=1e-8, atol=1e-290)
    low = np.float32([0.5, 2, 30]), np.float32([0.25, 3, 28])
    expected = special.gammainc(*(x.astype(float) for x in low))
    agree(ops.Igamma(), expected, *low, rtol=1e-6)
    compared(nn.IGamma()(*map(Tensor, low)), expected, 1e-6, 0)
    agree(ops.Igammac(), special.gammaincc(*(x.astype(float) for x in low)), *low, rtol=1e-6)


def test_beta() -> None:
    agree(ops.Betainc(), special.betainc(C, D, Y), C, D, Y, rtol=1e-9, atol=1e-290)
    agree(nn.LBeta(), special.betaln(2.5, [0.5, 3.0]), np.array([2.5, 2.5]), np.array([0.5, 3.0]), rtol=1e-12)


def test_large_parameters_and_bounds() -> None:
    """One array of both, as compiling these graphs takes longer than all else."""
    inf, nan = np.inf, np.nan
    a = np.array([1e7, 1e7, 1e8, 1e10, 0, 0, -1, 2, 2, inf, 2, nan, 2, inf, 0])
    x = np.array([1e7, 1e7 + 3e3, 1e8 - 2e4, 1e10 + 1e5, 1, 0, 1, -1, 0, 1, inf, 1, nan, inf, inf])
    agree(ops.igamma, special.gammainc(a, x), a, x, atol=1e-8)
    agree(ops.igammac, special.gammaincc(a, x), a, x, atol=1e-8)
    large = np.array([[2e6, 2e6, 0.5001], [1e9, 1e7, 0.9901], [3.0, 1e12, 1e-12], [1e30, 2.0, 0.3], [1e-6, 1e-6, 0.3]])
    a, b = np.array([0, -1, 2, 2, 1, nan, 1, 2, 2.0]), np.array([1, 1, 2, 2, 0, 1, 1, 2, 2.0])
    x = np.array([0.5, 0.5, -1, 2, 0.5, 0.5, nan, 0, 1])
    a, b, x = np.concatenate([large, np.stack([a, b, x], axis=1)]).T.copy()
    agree(betainc, np.append(special.betainc(*large.T), [nan] * 7 + [0, 1]), a, b, x, atol=1e-8)


@pytest.mark.parametrize("function", [ops.igamma, ops.igammac])
def test_gradients_of_gamma(function: Any) -> None:
    assert_slopes(function, np.array([0.3, 2.0, 3.0, 20.0]), np.array([0.5, 1.0, 5.0, 18.0]))


def test_gradients_of_beta() -> None:
    assert_slopes(betainc, np.array([0.3, 2.0, 20.0]), np.array([2.5, 1.0, 15.0]), np.array([0.4, 0.1, 0.6]))


def test_gradients_at_ends() -> None:
    a, b = Tensor(np.array([0.5, 1, 2])), Tensor(np.array([2.0, 3, 4]))
    slope = gl.grad(lambda x: ops.igamma(a, x).sum())(Tensor(np.zeros(3)))
    np.testing.assert_allclose(slope.asnumpy(), [np.inf, 1, 0])
    for end, first, second in ((0.0, a, b), (1.0, b, a)):
        slope = gl.grad(lambda x, f=first, s=second: betainc(f, s, x).sum())(Tensor(np.full(3, end)))
        np.testing.assert_allclose(slope.asnumpy(), [np.inf, 3, 0])


def test_gradients_of_mindspore() -> None:
    """Numbers that MindSpore 2.10 gives."""
    found = gl.grad(ops.igamma, (0, 1))(Tensor(np.float32([2, 3])), Tensor(np.float32([1, 5])))
    for slope, wanted in zip(found, ([-0.276195973, -0.113692820], [0.367878824, 0.0842242166]), strict=True):
        np.testing.assert_allclose(slope.asnumpy(), wanted, rtol=3e-6)


def test_second_derivatives_and_vmap() -> None:
    a, x = Tensor(np.array([2.0, 3.0])), Tensor(np.array([1.0, 5.0]))
    slope = gl.grad(lambda x: gl.grad(lambda x: ops.igamma(a, x).sum())(x).sum())
    density = np.exp(-x.asnumpy()) * x.asnumpy() ** (a.asnumpy() - 1) / special.gamma(a.asnumpy())
    np.testing.assert_allclose(slope(x).asnumpy(), density * ((a.asnumpy() - 1) / x.asnumpy() - 1), rtol=1e-9)
    found = ops.vmap(ops.igamma)(a, x).asnumpy()
    np.testing.assert_allclose(found, special.gammainc(a.asnumpy(), x.asnumpy()), rtol=1e-10)


def test_broadcasting_and_nothing() -> None:
    assert ops.igamma(Tensor(np.ones((2, 1))), Tensor(np.ones(3))).shape == (2, 3)
    assert ops.igamma(Tensor(np.ones((0, 2))), Tensor(np.ones(2))).shape == (0, 2)
    assert ops.igamma(Tensor(np.float32([1.0])), 2.0).dtype == gl.float32
