"""What functions are at infinities, at zeros and at their poles, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops

INF, NAN = float("inf"), float("nan")
PLACES = [0.0, -0.0, -1.0, -2.0, INF, -INF, NAN, 1.0]

LIMITS: dict[str, tuple[Callable[..., Any], Any]] = {
    "digamma": (ops.digamma, [-INF, INF, NAN, NAN, INF, NAN, NAN, -0.5772156649015329]),
    "lgamma": (ops.lgamma, [INF, INF, INF, INF, INF, INF, NAN, 0.0]),
    "trigamma": (lambda x: ops.polygamma(1, x), [INF, INF, INF, INF, 0.0, NAN, NAN, np.pi**2 / 6]),
    "bessel_i0": (ops.bessel_i0, [1, 1, 1.2660658777520082, 2.279585302336067, INF, INF, NAN, 1.2660658777520082]),
    "bessel_i0e": (ops.bessel_i0e, [1, 1, 0.4657596075936404, 0.308508322553671, 0, 0, NAN, 0.4657596075936404]),
    "bessel_i1e": (ops.bessel_i1e, [0, 0, -0.2079104153497085, -0.2152692892489376, 0, 0, NAN, 0.2079104153497085]),
    "bessel_j0": (ops.bessel_j0, [1, 1, 0.7651976865579666, 0.2238907791412357, 0, 0, NAN, 0.7651976865579666]),
    "bessel_j1": (ops.bessel_j1, [0, 0, -0.4400505857449335, -0.5767248077568734, 0, 0, NAN, 0.4400505857449335]),
    "bessel_y0": (ops.bessel_y0, [-INF, -INF, NAN, NAN, 0, NAN, NAN, 0.0882569642156769]),
    "bessel_y1": (ops.bessel_y1, [-INF, -INF, NAN, NAN, 0, NAN, NAN, -0.7812128213002887]),
    "bessel_k0e": (ops.bessel_k0e, [INF, INF, NAN, NAN, 0, NAN, NAN, 1.144463079806894]),
    "bessel_k1e": (ops.bessel_k1e, [INF, INF, NAN, NAN, 0, NAN, NAN, 1.636153486263258]),
    "hardswish": (ops.hardswish, [0, 0, -1 / 3, -1 / 3, INF, 0, NAN, 2 / 3]),
    "hypot": (lambda x: ops.hypot(x, 1.0), [1, 1, 2**0.5, 5**0.5, INF, INF, NAN, 2**0.5]),
    "logit": (ops.logit, [-INF, -INF, NAN, NAN, NAN, NAN, NAN, INF]),
    "norm": (lambda x: ops.norm(ops.stack([x, x * 0 + 3.0]), dim=0), [3, 3, 10**0.5, 13**0.5, NAN, NAN, NAN, 10**0.5]),
}
"""By SciPy 1.15 and PyTorch 2.13, but for the limits of Bessel functions at infinities, which those call nan."""


@pytest.mark.parametrize("backend", ["eager", "numpy", "onnxruntime"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LIMITS)
def test_a_function_has_its_limit(name: str, dtype: Any, backend: str) -> None:
    function, expected = LIMITS[name]
    x = Tensor(np.repeat(np.array(PLACES, dtype), 16))
    called = function if backend == "eager" else graphls.compile(function, x, backend=backend)
    found = called(x).asnumpy()
    tolerance = 32 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, np.repeat(np.array(expected, dtype), 16), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["eager", "numpy", "onnxruntime"])
def test_the_binary_cross_entropy_of_certain_answers_is_that_of_mindspore(backend: str) -> None:
    """Measured with MindSpore 2.10 on its CPU."""
    p = Tensor(np.array([0, 1, 0, 1, 1e-13, 1e-10, 1 - 2.0**-24, 0.3], np.float32))
    y = Tensor(np.array([1, 0, 0, 1, 1, 1, 0, 0.6], np.float32))

    def loss(p: Any, y: Any) -> Any:
        return ops.binary_cross_entropy(p, y, reduction="none")

    called = loss if backend == "eager" else graphls.compile(loss, p, y, backend=backend)
    measured = [27.631021, 27.631021, 0.0, 0.0, 27.535711, 23.0159, 16.635515, 0.8650537]
    np.testing.assert_allclose(called(p, y).asnumpy(), measured, rtol=1e-6, atol=1e-9)


def test_one_vector_has_rows_of_one_element() -> None:
    """The shape that MindSpore 2.10 gives."""
    assert ops.cartesian_prod(Tensor([1.0, 2.0, 3.0])).shape == (3, 1)
