"""Bessel functions, on both sides of where the series change, and zeta against SciPy, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

RISING = ["i0", "i0e", "i1", "i1e", "j0", "j1"]
SINGULAR = ["k0", "k0e", "k1", "k1e", "y0", "y1"]
PLACES = np.array([1e-8, 1e-3, 0.3, 1.0, 1.9, 1.9999999, 2.0, 2.0000001, 3.3, 7.9, 8.0, 8.0000001, 9.5, 20, 123.4, 600])


@pytest.mark.parametrize("name", [*RISING, *SINGULAR])
def test_bessel_functions(name: str) -> None:
    x = np.concatenate([-PLACES[::-1], [0], PLACES]) if name in RISING else PLACES
    function, reference = getattr(ops, f"bessel_{name}"), getattr(special, name)
    agree(function, reference(x), x, rtol=1e-12, atol=1e-13)
    low = x[np.abs(x) < 50].astype(np.float32)
    agree(getattr(ops, f"Bessel{name.capitalize()}")(), reference(low.astype(float)), low, rtol=1e-6, atol=1e-7)
    assert function(graphls.Tensor(np.zeros((0, 2)))).shape == (0, 2)


@pytest.mark.parametrize("name", [*RISING, *SINGULAR])
def test_gradients(name: str) -> None:
    x = np.array([0.5, 1.7, 2.4, 5.0, 7.5, 9.0])
    assert_slopes(getattr(ops, f"bessel_{name}"), np.concatenate([x, -x]) if name in RISING else x)


def test_gradients_at_zero() -> None:
    for name, expected in (("i0", 0), ("i1", 0.5), ("i1e", 0.5), ("j0", 0), ("j1", 0.5)):
        found = graphls.grad(getattr(ops, f"bessel_{name}"))(graphls.Tensor(np.zeros(1)))
        np.testing.assert_allclose(found.asnumpy(), [expected], atol=1e-12)


@pytest.mark.parametrize("name", [*RISING, *SINGULAR])
def test_bounds(name: str) -> None:
    x = np.array([0, np.inf, np.nan, 1e200, *([-np.inf] if name in RISING else [-1.0])])
    with np.errstate(all="ignore"):
        expected: Any = getattr(special, name)(x)
    limits = {"i0": np.inf, "i1": np.copysign(np.inf, x), "j0": 0, "j1": 0, "y0": 0, "y1": 0}
    expected = np.where(np.abs(x) > 1, limits.get(name, expected), expected)
    agree(getattr(ops, f"bessel_{name}"), expected, x, atol=1e-60)


X, Q = np.array([1.0001, 1.5, 2, 3.7, 10, 50, 300]), np.array([[0.01], [0.5], [1], [2.5], [30], [1e6]])


def test_zeta() -> None:
    """The smallest results are sums of many, so that single ones are compared."""
    agree(ops.zeta, special.zeta(X, Q), X, Q, rtol=1e-11, atol=1e-300)
    agree(ops.Zeta(), special.zeta(X[:4], Q), X[:4].astype(np.float32), Q.astype(np.float32), rtol=1e-3)
    assert_slopes(ops.zeta, X[1:5], Q[1:5])


def test_zeta_of_negative_numbers() -> None:
    x, q = np.array([2.0, 3.0, 5.0, 4.0, 2.0, 2.5]), np.array([-0.5, -0.5, -3.25, -100.7, -1e6 - 0.25, -0.5])
    agree(ops.zeta, special.zeta(x, q), x, q, rtol=1e-11)
    found = graphls.grad(lambda x, q: ops.sum(ops.zeta(x, q)), 1)(*map(graphls.Tensor, (x[:5], q[:5])))
    np.testing.assert_allclose(found.asnumpy(), -x[:5] * special.zeta(x[:5] + 1, q[:5]), rtol=1e-9)


def test_bounds_of_zeta() -> None:
    x = np.array([0.5, 1, 1, 2, 2, 3.5, 2, np.nan, 2, np.inf, 1.5])
    q = np.array([1, 1, -1, 0, -1, -1.5, np.inf, 1, np.nan, 1, 1e300])
    agree(ops.zeta, special.zeta(x, q), x, q, rtol=1e-9)
    found = graphls.grad(lambda x, q: ops.zeta(x, q), (0, 1))(*map(graphls.Tensor, (np.array([1.0, 2.0]), np.zeros(2))))
    assert all(np.isfinite(g.asnumpy()).all() for g in found)


def test_short_names() -> None:
    assert ops.i0 is ops.bessel_i0
    x = graphls.Tensor(np.float16([0, 1, 5]))
    assert x.i0().dtype is graphls.float16
    np.testing.assert_allclose(x.i0().asnumpy(), np.i0([0.0, 1, 5]), rtol=1e-3)
