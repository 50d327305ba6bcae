"""Gradients of determinants are cofactors, which are finite where a matrix is singular, and so are their slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops
from tests.ops.slopes import assert_slopes

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(3)


def of_rank(size: int, rank: int) -> Array:
    return RANDOM.normal(size=(size, rank)) @ RANDOM.normal(size=(rank, size))


SINGULAR: dict[str, Array] = {
    "zeros of 1": np.zeros((1, 1)),
    "zeros of 2": np.zeros((2, 2)),
    "rows of whole numbers": np.arange(1.0, 10.0).reshape(3, 3),
    "first column": np.array([[0.0, 1.0], [0.0, 2.0]]),
    "first pivot": np.diag([0.0, 2.0, 3.0]),
    "two pivots": np.diag([2.0, 0.0, 3.0, 0.0]),
    "rank 2 of 3": of_rank(3, 2),
    "rank 3 of 4": of_rank(4, 3),
    "rank 1 of 4": of_rank(4, 1),
    "batch": np.stack([np.zeros((3, 3)), np.eye(3)[[1, 0, 2]], of_rank(3, 3), of_rank(3, 2)]).reshape(2, 2, 3, 3),
}


def cofactors(x: Array) -> Array:
    """By the determinants of what is left without a row and a column."""
    if x.ndim > 2:
        return np.stack([cofactors(matrix) for matrix in x])
    size = len(x)
    rest = [[np.delete(np.delete(x, i, 0), j, 1) for j in range(size)] for i in range(size)]
    found = [[(-1) ** (i + j) * np.linalg.det(rest[i][j]) for j in range(size)] for i in range(size)]
    return np.array(found)


def gradient(x: Any) -> Any:
    return ops.grad(lambda x: ops.sum(ops.det(x)))(x)


@pytest.mark.parametrize(("dtype", "backend"), [(np.float32, "onnxruntime"), (np.float64, "numpy")])
@pytest.mark.parametrize("name", SINGULAR)
def test_the_gradient_of_a_determinant(name: str, dtype: Any, backend: str) -> None:
    x = SINGULAR[name].astype(dtype)
    found = graphls.compile(gradient, x, backend=backend)(x)
    assert found.dtype == Tensor(x).dtype
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    expected = cofactors(SINGULAR[name])
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=tolerance, atol=tolerance * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("name", SINGULAR)
def test_the_second_gradient_of_a_determinant(name: str) -> None:
    assert_slopes(gradient, SINGULAR[name])


def test_cofactors_of_16_bits_are_rounded_once() -> None:
    x = Tensor(SINGULAR["rows of whole numbers"], "float16")
    np.testing.assert_array_equal(graphls.compile(gradient, x)(x).asnumpy(), [[-3, 6, -3], [6, -12, 6], [-3, 6, -3]])
