"""Inverses, determinants and factors of matrices against NumPy and SciPy, with their gradients of both orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import linalg

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.matrices import assert_both_slopes, draw, positive
from tests.ops.slopes import assert_slopes

SHAPES = [(2, 1, 4, 4), (1, 1), (0, 3, 3), (2, 0, 0)]


def upper_factor(x: Any) -> Any:
    return np.linalg.cholesky(x).swapaxes(-1, -2)


def inverse_of_factor(x: Any) -> Any:
    lower = np.tril(x)
    return np.linalg.inv(lower @ lower.swapaxes(-1, -2))


OF_SQUARES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "inverse": (ops.inverse, np.linalg.inv, draw),
    "pinv": (ops.pinv, np.linalg.pinv, draw),
    "det": (ops.det, np.linalg.det, draw),
    "slogdet": (ops.slogdet, lambda x: tuple(np.linalg.slogdet(x)), draw),
    "logdet": (ops.logdet, lambda x: np.linalg.slogdet(x)[1], positive),
    "cholesky": (ops.cholesky, np.linalg.cholesky, positive),
    "upper cholesky": (lambda x: ops.cholesky(x, upper=True), upper_factor, positive),
    "cholesky_inverse": (ops.cholesky_inverse, inverse_of_factor, positive),
    "matrix_exp": (ops.matrix_exp, linalg.expm, draw),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", OF_SQUARES)
def test_functions_of_square_matrices(name: str, shape: Any) -> None:
    function, reference, make = OF_SQUARES[name]
    x = make(*shape)
    expected = np.zeros(shape) if not x.size and name == "matrix_exp" else reference(x)
    if x.size:
        agree(function, expected, x.astype(np.float32), rtol=2e-3, atol=2e-3)
    agree(function, expected, x, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", OF_SQUARES)
def test_gradients_of_functions_of_square_matrices(name: str) -> None:
    function, _, make = OF_SQUARES[name]
    assert_both_slopes(function, make(2, 3, 3))
    assert_slopes(function, make(1, 1))


SYSTEMS = [((5, 3, 3), (3, 2)), ((1, 1), (1, 1)), ((3, 3), (3, 0)), ((0, 3, 3), (3, 2))]
triangular = ops.MatrixTriangularSolve


def cholesky_solution(rhs: Any, factor: Any) -> Any:
    return np.linalg.solve(np.tril(factor) @ np.tril(factor).swapaxes(-1, -2), rhs)


SOLVERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "matrix_solve": (ops.matrix_solve, np.linalg.solve),
    "adjoint": (lambda a, b: ops.matrix_solve(a, b, adjoint=True), lambda a, b: np.linalg.solve(a.swapaxes(-1, -2), b)),
    "lower": (triangular(), lambda a, b: np.linalg.solve(np.tril(a), b)),
    "upper": (triangular(lower=False), lambda a, b: np.linalg.solve(np.triu(a), b)),
    "lower adjoint": (triangular(adjoint=True), lambda a, b: np.linalg.solve(np.tril(a).swapaxes(-1, -2), b)),
    "upper adjoint": (triangular(False, True), lambda a, b: np.linalg.solve(np.triu(a).swapaxes(-1, -2), b)),
    "cholesky_solve": (lambda a, b: ops.cholesky_solve(b, a), lambda a, b: cholesky_solution(b, a)),
    "upper cholesky_solve": (
        lambda a, b: ops.cholesky_solve(b, a, upper=True), lambda a, b: cholesky_solution(b, a.swapaxes(-1, -2))
    ),
}  # fmt: skip


@pytest.mark.parametrize("shapes", SYSTEMS, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_systems(name: str, shapes: Any) -> None:
    function, reference = SOLVERS[name]
    matrix, rhs = positive(*shapes[0]), draw(*shapes[1])
    agree(function, reference(matrix, rhs), matrix, rhs, rtol=1e-9, atol=1e-9)
    if matrix.ndim != rhs.ndim:
        assert_slopes(function, matrix, rhs)


@pytest.mark.parametrize("name", ["matrix_solve", "lower", "upper adjoint"])
def test_second_gradients_of_systems(name: str) -> None:
    assert_both_slopes(SOLVERS[name][0], positive(2, 3, 3), draw(3, 2))


def test_triangles_are_all_that_is_read() -> None:
    matrix = positive(3, 3)
    hidden = np.where(np.tri(3) > 0, matrix, np.nan)
    agree(triangular(), np.linalg.solve(np.tril(matrix), matrix), hidden, matrix, rtol=1e-9)
    agree(ops.cholesky_inverse, inverse_of_factor(matrix), hidden, rtol=1e-9)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 0)], ids=str)
def test_systems_by_known_factors(shape: Any) -> None:
    matrix, rhs = draw(*shape), draw(*shape[:-1], 2)
    packed, pivots = np.zeros(shape), np.zeros(shape[:-1], np.int32)
    for i in np.ndindex(shape[:-2] if matrix.size else (0,)):
        packed[i], pivots[i] = linalg.lu_factor(matrix[i])
    pivots = pivots + 1
    agree(ops.lu_solve, np.linalg.solve(matrix, rhs), rhs, packed, pivots, rtol=1e-9)
    if matrix.size:
        p, lower, upper = linalg.lu(matrix)
        agree(ops.lu_unpack, (p, lower, upper), packed, pivots, rtol=1e-9)
        agree(lambda a, i: ops.lu_unpack(a, i, unpack_data=False), (p,), packed, pivots)
        agree(lambda a, i: ops.lu_unpack(a, i, unpack_pivots=False), (lower, upper), packed, pivots)
        assert_slopes(lambda b, a: ops.lu_solve(b, a, graphls.Tensor(pivots)), rhs, packed)


TALL = [(5, 3), (3, 3), (2, 4, 2), (1, 1), (3, 1)]
WIDE = [(3, 5), (2, 2, 3), (1, 3)]


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", [*TALL, *WIDE, (3, 0), (2, 0, 3), (0, 3, 2)], ids=str)
def test_orthogonal_factors(shape: Any, mode: Any) -> None:
    x = draw(*shape)
    agree(lambda x: ops.qr(x, mode), tuple(np.linalg.qr(x, mode)), x, rtol=1e-9, atol=1e-9)
    if x.size:
        assert_slopes(lambda x: ops.qr(x, mode), x)


def test_second_gradients_of_orthogonal_factors() -> None:
    assert_both_slopes(ops.qr, draw(3, 2))


def test_orthogonal_factors_of_dependent_columns() -> None:
    x = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0], [3.0, 6.0, 0.0]])
    q, r = (t.asnumpy() for t in ops.qr(graphls.Tensor(x), "complete"))
    np.testing.assert_allclose(q @ r, x, atol=1e-12)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5), (3, 1)], ids=str)
def test_reflections(shape: Any) -> None:
    """Against LAPACK's geqrf, orgqr and ormqr."""
    x = draw(*shape)
    packed, tau, *_ = linalg.lapack.dgeqrf(x)
    agree(ops.geqrf, (packed, tau), x, rtol=1e-9, atol=1e-9)
    complete = np.linalg.qr(x, "complete")[0]
    if shape[0] >= shape[1]:
        agree(ops.orgqr, np.linalg.qr(x)[0], packed, tau, rtol=1e-9, atol=1e-9)
        assert_slopes(ops.orgqr, packed, tau)
    for transpose in (False, True):
        q, other = complete.T if transpose else complete, draw(shape[0], 2)
        agree(lambda *a, t=transpose: ops.ormqr(*a, True, t), q @ other, packed, tau, other, rtol=1e-9, atol=1e-9)
        agree(lambda *a, t=transpose: ops.ormqr(*a, False, t), other.T @ q, packed, tau, other.T.copy(), atol=1e-9)
    assert_slopes(ops.geqrf, x)
    assert_slopes(ops.ormqr, packed, tau, draw(shape[0], 2))


@pytest.mark.parametrize("shape", [*TALL, *WIDE], ids=str)
def test_pseudo_inverses(shape: Any) -> None:
    x = draw(*shape)
    agree(ops.pinv, np.linalg.pinv(x), x, rtol=1e-9, atol=1e-9)
    assert_slopes(ops.pinv, x)


LEAST_SQUARES = [((5, 3), (5, 2)), ((5, 3), (5,)), ((3, 3), (3, 1)), ((3, 5), (3, 2)), ((2, 4), (2,))]


@pytest.mark.parametrize("shapes", LEAST_SQUARES, ids=str)
def test_least_squares(shapes: Any) -> None:
    x, y = draw(*shapes[0]), draw(*shapes[1])
    agree(ops.lstsq, np.linalg.lstsq(x, y)[0], x, y, rtol=1e-9, atol=1e-9)
    assert_slopes(ops.lstsq, x, y)
    agree(ops.lstsq, np.zeros((3, 0)), np.ones((5, 3)), np.zeros((5, 0)))


@pytest.mark.parametrize("factor", [1e-9, 4, 60, -300])
def test_exponentials_of_every_size(factor: float) -> None:
    x = factor * np.stack([positive(3, 3), np.diag([1.0, 2.0, 3.0]), np.triu(np.ones((3, 3)), 1)]) / 10
    agree(ops.matrix_exp, linalg.expm(x), x, rtol=1e-8, atol=1e-12)
    if abs(factor) <= 4:
        agree(ops.matrix_exp, linalg.expm(x), x.astype(np.float32), rtol=1e-4, atol=1e-5)
