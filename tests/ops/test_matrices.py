"""Inverses, determinants and factors of matrices against NumPy and SciPy, with their gradients of both orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import linalg

import graphls
from graphls import amp, nn, ops
from graphls.tree import leaves
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

RNG = np.random.default_rng(3)
SHAPES = [(2, 1, 4, 4), (1, 1), (0, 3, 3), (2, 0, 0)]


def draw(*shape: int) -> Any:
    """Numbers whose square matrices need pivots: their diagonals are small."""
    x = RNG.normal(size=shape)
    if len(shape) > 1 and shape[-1] == shape[-2] > 1:
        x = x + 3 * np.eye(shape[-1])[::-1]
    return x


def positive(*shape: int) -> Any:
    x = draw(*shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1])


def assert_both_slopes(function: Callable[..., Any], *arrays: Any) -> None:
    """Check the gradient of a function, and the gradient of that gradient."""
    assert_slopes(function, *arrays)
    places = tuple(range(len(arrays)))

    def total(*tensors: Any) -> Any:
        return sum(ops.sum(ops.sin(result)) for result in leaves(function(*tensors)))

    assert_slopes(lambda *tensors: graphls.grad(total, places)(*tensors), *arrays)


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


def test_singular_matrices() -> None:
    """NumPy raises; a graph goes on with infinities and nan. Determinants are right."""
    singular = np.float32([[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[2, 1], [1, 2]]])
    agree(ops.det, np.float32([0, 0, 3]), singular)
    agree(ops.slogdet, (np.float32([0, 0, 1]), np.float32([-np.inf, -np.inf, np.log(3)])), singular)
    agree(ops.logdet, np.float32([-np.inf, -np.inf, np.log(3)]), singular)
    for backend in ("numpy", "onnxruntime"):
        found = graphls.compile(ops.inverse, singular, backend=backend)(singular).asnumpy()
        assert not np.isfinite(found[:2]).all(axis=(1, 2)).any() and np.isfinite(found[2]).all()
    agree(ops.logdet, np.float32(np.nan), np.float32([[0, 1], [1, 0]]))


def test_what_is_not_positive_definite_has_nan() -> None:
    matrices = np.float32([[[1, 2], [2, 1]], [[0, 0], [0, 0]], [[2, 1], [1, 2]], [[np.nan, 0], [0, 1]]])
    for backend in ("numpy", "onnxruntime"):
        found = graphls.compile(ops.cholesky, matrices, backend=backend)(matrices).asnumpy()
        assert np.isnan(found).any(axis=(1, 2)).tolist() == [True, True, False, True]


def test_a_zero_on_the_diagonal_is_no_singular_matrix() -> None:
    x = np.float32([[0, 2, 1], [1, 0, 0], [0, 0, 3]])
    agree(ops.inverse, np.linalg.inv(x), x)
    agree(ops.det, np.float32(-6), x)


def test_a_large_system_is_as_exact_as_numpy() -> None:
    x = RNG.normal(size=(60, 60))
    for backend in ("numpy", "onnxruntime"):
        found = graphls.compile(ops.inverse, x, backend=backend)(x).asnumpy()
        assert np.abs(found @ x - np.eye(60)).max() < 100 * np.abs(np.linalg.inv(x) @ x - np.eye(60)).max()


@pytest.mark.parametrize("dtype", [graphls.float16, graphls.bfloat16])
def test_16_bit_matrices_are_computed_in_single_precision(dtype: Any) -> None:
    x = graphls.Tensor(positive(4, 4), dtype)
    for function in (ops.inverse, ops.cholesky, ops.det, ops.matrix_solve):
        operands = (x, x) if function is ops.matrix_solve else (x,)
        expected = ops.cast(function(*(ops.cast(o, graphls.float32) for o in operands)), dtype)
        for backend in ("numpy", "onnxruntime"):
            found = graphls.compile(function, *operands, backend=backend)(*operands)
            assert found.dtype is dtype
            found, wanted = (np.float32(t.asnumpy()) for t in (found, expected))
            np.testing.assert_allclose(found, wanted, rtol=0.01, atol=0.01)


class Inverting(nn.Cell):
    def construct(self, x: Any) -> Any:
        return ops.inverse(x) @ x


def test_mixed_precision_leaves_the_inside_of_an_inverse_alone() -> None:
    """The product outside is one in 16 bits, those of the elimination are not."""
    x = graphls.Tensor(positive(6, 6).astype(np.float32))
    step = graphls.compile(amp.auto_mixed_precision(Inverting(), "O1"), x, backend="numpy")
    halves = [n for n in step.graph.nodes if any(v.type.dtype is graphls.float16 for v in n.outputs)]
    assert [n.primitive.name for n in halves if n.primitive.name not in ("cast", "constant")] == ["matmul"]
    inner = [n for node in step.graph.nodes for region in node.regions for n in region.nodes]
    assert inner and not any(v.type.dtype is graphls.float16 for n in inner for v in n.outputs)


def test_conditions_may_stand_between() -> None:
    """A construct that branches is traced again; the inverse before the condition is there once."""

    class Branching(nn.Cell):
        def construct(self, x: Any) -> Any:
            found = ops.inverse(x)
            return found if ops.sum(found) > 0 else -found

    x = positive(3, 3)
    expected = np.linalg.inv(x) * np.sign(np.linalg.inv(x).sum())
    for backend in ("numpy", "onnxruntime"):
        np.testing.assert_allclose(graphls.compile(Branching(), x, backend=backend)(x).asnumpy(), expected, rtol=1e-9)
    names = [[n.primitive.name for n in graphls.trace_graph(f, x).graph.nodes] for f in (ops.inverse, Branching())]
    assert names[0].count("scan") == names[1].count("scan") > 0


def test_loops_and_branches_around() -> None:
    x = positive(3, 3, 3)

    def looped(x: Any) -> Any:
        start = ops.zeros((), graphls.float64)
        return ops.scan(lambda total, m: (total + ops.det(m) + ops.sum(ops.cholesky(m)), ops.inverse(m)), start, x)

    agree(looped, (sum(np.linalg.det(x)) + np.linalg.cholesky(x).sum(), np.linalg.inv(x)), x, rtol=1e-9)
    assert_slopes(looped, x)
    assert_slopes(lambda x: ops.cond(ops.sum(x) > 0, lambda x: ops.matrix_solve(x, x * x), lambda x: x, x), x)


class Gaussian(nn.Cell):
    """The negative log-likelihood of normal data by a factor of its precision."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = graphls.Parameter(np.eye(3, dtype=np.float32) * 2, name="factor")

    def construct(self, x: Any) -> Any:
        precision = self.factor @ self.factor.mT
        return ops.trace(precision @ (x.mT @ x)) / x.shape[0] - ops.logdet(precision)


def test_training_with_a_determinant() -> None:
    """The optimum is known: the precision is the inverse of the covariance."""
    x = RNG.normal(size=(64, 3)).astype(np.float32)
    optimum = 3 + np.log(np.linalg.det(x.T @ x / 64))
    for backend in ("numpy", "onnxruntime"):
        net = Gaussian()
        step = graphls.compile(nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.05)), x, backend=backend)
        losses = [float(step(x)) for _ in range(60)]
        assert losses[0] > optimum + 1 and losses[-1] == pytest.approx(optimum, abs=1e-3)


def test_methods() -> None:
    x = graphls.Tensor(positive(3, 3))
    for name in ("inverse", "det", "slogdet", "logdet", "cholesky", "qr", "pinv", "cholesky_inverse", "matrix_exp"):
        made, expected = leaves(getattr(x, name)()), leaves(getattr(ops, name)(x))
        for a, b in zip(made, expected, strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


M, S = np.ones((2, 3), np.float32), np.eye(3, dtype=np.float32)
WRONG: list[Any] = [
    (lambda: ops.inverse(M), ValueError, r"inverse takes square matrices, not f32\[2,3\]\."),
    (lambda: ops.det(M[0]), ValueError, "det takes square matrices"),
    (lambda: ops.slogdet(M), ValueError, "slogdet takes square matrices"),
    (lambda: ops.cholesky(M), ValueError, "cholesky takes square matrices"),
    (lambda: ops.cholesky_inverse(M), ValueError, "cholesky_inverse takes square matrices"),
    (lambda: ops.cholesky_solve(M, S), ValueError, r"right-hand sides with 3 rows, not f32\[2,3\]"),
    (lambda: ops.matrix_solve(M, M), ValueError, "matrix_solve takes square matrices"),
    (lambda: ops.matrix_solve(S, M), ValueError, r"matrix_solve with f32\[3,3\] takes right-hand sides with 3 rows"),
    (lambda: ops.matrix_solve(S, S[0]), ValueError, r"right-hand sides with 3 rows, not f32\[3\]"),
    (lambda: ops.matrix_solve(np.ones((2, 3, 3)), np.ones((4, 3, 3))), ValueError, "broadcast"),
    (lambda: triangular()(M, M), ValueError, "solve_triangular takes square matrices"),
    (lambda: ops.matrix_exp(M), ValueError, "matrix_exp takes square matrices"),
    (lambda: ops.pinv(M[0]), ValueError, "pinv takes matrices or batches"),
    (lambda: ops.qr(S, "r"), ValueError, "'reduced' or 'complete', not 'r'"),
    (lambda: ops.qr(S[0]), ValueError, "qr takes matrices"),
    (lambda: ops.geqrf(S[0]), ValueError, "geqrf takes matrices"),
    (lambda: ops.orgqr(M, np.ones(2)), ValueError, "no more columns than rows"),
    (lambda: ops.orgqr(S, np.ones(4)), ValueError, "a factor for each reflection"),
    (lambda: ops.ormqr(S, np.ones(3), M), ValueError, "as many rows to reflect"),
    (lambda: ops.lstsq(S, np.ones(2)), ValueError, "as many rows, not"),
    (lambda: ops.lu_solve(M.T, S, np.ones(3)), TypeError, "pivots of lu_solve are integers"),
    (lambda: ops.lu_solve(M.T, S, np.ones(2, int)), ValueError, r"pivots of shape \(3,\)"),
    (lambda: ops.lu_unpack(M, np.ones(2, int)), ValueError, "lu_unpack takes square matrices"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_matrices.py")
