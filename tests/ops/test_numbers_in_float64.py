"""Python numbers keep all of their digits in functions of float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops

TENTH = 0.1
X = np.array([[0.25, 0.5, -3.0], [2.0, 1.0, 0.7]])
PLACES = Tensor(np.array([0, 1], np.int32))
SOME = X > 0.6


def assigned(x: Any) -> Any:
    x[0] = TENTH
    x[1, 1:] = [TENTH, 0.3]
    return x


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "full": (lambda x: x + ops.full((2, 3), TENTH, dtype=graphls.float64), X + TENTH),
    "full_like": (lambda x: ops.full_like(x, TENTH), np.full((2, 3), TENTH)),
    "fill": (lambda x: x * ops.fill(graphls.float64, (3,), TENTH), X * TENTH),
    "scalar_to_tensor": (lambda x: x * ops.scalar_to_tensor(TENTH, graphls.float64), X * TENTH),
    "cast": (lambda x: x * ops.cast(TENTH, graphls.float64), X * TENTH),
    "elements": (assigned, np.array([[TENTH] * 3, [2.0, TENTH, 0.3]])),
    "masked_fill": (lambda x: ops.masked_fill(x, Tensor(SOME), TENTH), np.where(SOME, TENTH, X)),
    "index_fill": (lambda x: ops.index_fill(x, 1, PLACES, TENTH), np.where([True, True, False], TENTH, X)),
    "scatter": (
        lambda x: ops.scatter(x, 1, Tensor(np.array([[0], [1]], np.int32)), TENTH),
        np.where([[True, False, False], [False, True, False]], TENTH, X),
    ),
    "slice_scatter": (
        lambda x: ops.slice_scatter(x, ops.full((2, 1), TENTH, dtype=graphls.float64), 1, 0, 1),
        np.where([True, False, False], TENTH, X),
    ),
    "pad": (lambda x: ops.pad(x, (1, 0), value=TENTH), np.pad(X, ((0, 0), (1, 0)), constant_values=TENTH)),
    "amax": (lambda x: ops.amax(x, 1, initial=2.1), np.max(X, 1, initial=2.1)),
    "amin": (lambda x: ops.amin(x, 1, initial=TENTH), np.min(X, 1, initial=TENTH)),
    "quantile": (lambda x: ops.quantile(x, TENTH), np.quantile(X, TENTH)),
    "quantiles": (lambda x: ops.quantile(x, [TENTH, 0.7], 0), np.quantile(X, [TENTH, 0.7], 0)),
    "logspace": (
        lambda x: x[0] * ops.logspace(TENTH, 1.3, 3, dtype=graphls.float64),
        X[0] * np.logspace(TENTH, 1.3, 3),
    ),
    "bucketize": (lambda x: ops.bucketize(x * 0.1, [TENTH, 0.2]), [[0, 0, 0], [1, 0, 0]]),
    "histc": (lambda x: ops.histc(x * 0.1, 2, TENTH, 0.2), np.histogram(X * 0.1, 2, (TENTH, 0.2))[0]),
    "clamp": (lambda x: ops.clamp(x, TENTH, 0.7), np.clip(X, TENTH, 0.7)),
    "where": (lambda x: ops.where(Tensor(SOME), TENTH, x), np.where(SOME, TENTH, X)),
    "matrix_diag": (lambda x: ops.matrix_diag(x, 0, 3, 4, TENTH)[0, 0, 1], TENTH),
}


@pytest.mark.parametrize("backend", ["eager", "numpy", "onnxruntime"])
@pytest.mark.parametrize("name", CASES)
def test_a_number_is_not_rounded_to_float32(name: str, backend: str) -> None:
    function, expected = CASES[name]
    called = function if backend == "eager" else graphls.compile(function, Tensor(X), backend=backend)
    np.testing.assert_allclose(called(Tensor(X)).asnumpy(), expected, rtol=1e-14, atol=0)
