"""What inverses, determinants and factors do with singular matrices, in networks, and with wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.frontend.tensors.pytree import leaves
from graphls.nn.cell_calls import call_eagerly
from tests.ops.agree import agree
from tests.ops.matrices import RNG, positive
from tests.ops.slopes import assert_slopes


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


def test_mixed_precision_leaves_the_inside_of_an_inverse_alone_in_eager_mode() -> None:
    class Inverse(nn.Cell):
        def construct(self, x: Any) -> Any:
            return ops.inverse(x)

    x = graphls.Tensor(positive(6, 6).astype(np.float32))
    found = call_eagerly(amp.auto_mixed_precision(Inverse(), "O1"), (x,), {})
    np.testing.assert_array_equal(found.asnumpy(), ops.inverse(x).asnumpy())


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
    (lambda: ops.MatrixTriangularSolve()(M, M), ValueError, "solve_triangular takes square matrices"),
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
    assert caught.value.location is not None and caught.value.location.file.endswith("test_matrices_in_use.py")
