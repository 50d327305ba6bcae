"""Products of vectors, matrices and tensors against NumPy, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

RNG = np.random.default_rng(5)


def draw(*shapes: tuple[int, ...]) -> list[Any]:
    return [RNG.normal(size=shape).astype(np.float32) for shape in shapes]


PRODUCTS: dict[str, Any] = {
    "mm": (np.matmul, [((2, 3), (3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 4))]),
    "bmm": (np.matmul, [((5, 2, 3), (5, 3, 4)), ((0, 2, 3), (0, 3, 4)), ((2, 3, 0), (2, 0, 4))]),
    "mv": (np.matmul, [((2, 3), (3,))]),
    "vdot": (np.vdot, [((3,), (3,)), ((0,), (0,))]),
    "outer": (np.outer, [((3,), (2,)), ((0,), (2,))]),
    "ger": (np.outer, [((3,), (2,))]),
    "dot": (np.dot, [((3,), (3,)), ((2, 3), (3, 4)), ((4, 2, 3), (5, 3, 2)), ((3,), (2, 3, 4)), ((), (2,))]),
    "inner": (np.inner, [((3,), (3,)), ((2, 3), (4, 3)), ((2, 5, 3), (3,)), ((2, 3), ())]),
    "kron": (np.kron, [((2, 3), (4, 5)), ((3,), (2, 2)), ((2, 1, 2), (3, 2)), ((), (2, 2)), ((0, 2), (3, 1))]),
    "cross": (np.cross, [((3,), (3,)), ((4, 3), (4, 3)), ((4, 3), (3,)), ((0, 3), (0, 3))]),
}
NAMED = [(name, shapes) for name, (_, uses) in PRODUCTS.items() for shapes in uses]


@pytest.mark.parametrize(("name", "shapes"), NAMED, ids=str)
def test_products(name: str, shapes: Any) -> None:
    x, y = draw(*shapes)
    agree(getattr(ops, name), PRODUCTS[name][0](x, y), x, y, rtol=1e-5, atol=1e-5)
    assert_slopes(getattr(ops, name), x, y)


def test_cross_products_along_an_axis() -> None:
    x, y = draw((3, 4, 2), (3, 4, 2))
    agree(ops.cross, np.cross(x, y, axis=0), x, y, atol=1e-5)
    x, y = draw((2, 4, 3), (2, 4, 3))
    agree(lambda x, y: ops.cross(x, y, -1), np.cross(x, y), x, y, atol=1e-5)


@pytest.mark.parametrize("factors", [{}, {"beta": 0.5}, {"alpha": 3}, {"beta": 2, "alpha": -1.5}], ids=str)
def test_products_that_are_added(factors: dict[str, Any]) -> None:
    beta, alpha = factors.get("beta", 1), factors.get("alpha", 1)
    m, a, b, v, w = draw((2, 4), (2, 3), (3, 4), (3,), (2,))
    p, q, r = draw((5, 2, 4), (5, 2, 3), (5, 3, 4))
    for name, operands, product in [
        ("addmm", (m, a, b), a @ b),
        ("addmm", (m[0], a, b), a @ b),
        ("addmv", (w, a, v), a @ v),
        ("addr", (a, w, v), np.outer(w, v)),
        ("baddbmm", (p, q, r), q @ r),
        ("addbmm", (m, q, r), (q @ r).sum(0)),
    ]:
        def function(*args: Any, name: str = name) -> Any:
            return getattr(ops, name)(*args, **factors)

        agree(function, beta * operands[0] + alpha * product, *operands, rtol=1e-5, atol=1e-5)
        assert_slopes(function, *operands)


@pytest.mark.parametrize(
    ("first", "second", "axes"),
    [((2, 3), (3, 4), 1), ((2, 3, 4), (3, 4, 5), 2), ((2, 3), (4, 5), 0), ((2, 3, 4), (4, 3, 5), ((1, 2), (1, 0))),
     ((2, 3, 4), (4, 2), (-1, 0)), ((2, 0), (0, 3), 1), ((2, 3), (2, 3), ([0, 1], [0, 1]))],
)  # fmt: skip
def test_tensor_products(first: Any, second: Any, axes: Any) -> None:
    x, y = draw(first, second)
    agree(lambda x, y: ops.tensor_dot(x, y, axes), np.tensordot(x, y, axes), x, y, rtol=1e-5, atol=1e-5)
    assert_slopes(lambda x, y: ops.tensordot(x, y, axes), x, y)


EQUATIONS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 4))),
    ("ab,bc,cd->da", ((2, 3), (3, 4), (4, 5))),
    ("bij, bjk -> bik", ((5, 2, 3), (5, 3, 4))),
    ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ("bqhd,bkhd->bhqk", ((2, 4, 3, 5), (2, 6, 3, 5))),
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
    ("...ij,jk", ((2, 5, 3, 4), (4, 2))),
    ("i...->...", ((3, 2, 4),)),
    ("i...->i...", ((3, 2, 4),)),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("iji->j", ((3, 2, 3),)),
    ("iiji->ij", ((3, 3, 2, 3),)),
    ("ii,i->i", ((3, 3), (3,))),
    ("ij->ji", ((2, 3),)),
    ("ba", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("i,j->ij", ((2,), (3,))),
    ("i,i->i", ((3,), (3,))),
    ("i,i", ((3,), (3,))),
    ("ij,ij,i->j", ((2, 3), (2, 3), (2,))),
    ("ij,k->i", ((2, 3), (4,))),
    ("ij,ij->ij", ((2, 1), (2, 3))),
    ("ij,jk->ik", ((2, 1), (3, 4))),
    (",ij->ij", ((), (2, 3))),
    ("ij,jk->ik", ((0, 3), (3, 2))),
    ("ij,jk->ik", ((2, 0), (0, 4))),
    ("bij,bjk->bik", ((2, 3, 0), (2, 0, 4))),
    ("Aa,aB->BA", ((2, 3), (3, 4))),
    ("ijk,jil->kl", ((2, 3, 4), (3, 2, 5))),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS, ids=str)
def test_einsum(equation: str, shapes: Any) -> None:
    arrays = draw(*shapes)
    expected = np.einsum(equation, *(a.astype(np.float64) for a in arrays))
    agree(lambda *args: ops.einsum(equation, *args), expected, *arrays, rtol=1e-5, atol=1e-5)
    assert_slopes(lambda *args: ops.einsum(equation, *args), *arrays)


def test_einsum_in_other_forms_and_dtypes() -> None:
    x, y = draw((2, 3), (3, 4))
    agree(lambda x, y: ops.einsum(x, [0, 1], y, [1, 2], [2, 0]), (x @ y).T, x, y, rtol=1e-5)
    agree(lambda x, y: ops.einsum(x, [..., 1], y, [1, 2]), x @ y, x, y, rtol=1e-5)
    agree(lambda x: ops.einsum("...i->i", x), x.sum(0), x, rtol=1e-5)
    whole = np.arange(6).reshape(2, 3)
    agree(lambda x: ops.einsum("ij,j->ij", x, graphls.Tensor([1, 2, 3])), whole * [1, 2, 3], whole)
    half = graphls.Tensor(x.astype(np.float16))
    assert ops.einsum("ij,kj->ik", half, half).dtype is graphls.float16


def test_einsum_is_one_matrix_product_for_a_pair() -> None:
    """Attention's products run as one batched product each, without loops over axes."""
    q, k = draw((2, 4, 3, 5), (2, 6, 3, 5))
    step = graphls.compile(lambda q, k: ops.einsum("bqhd,bkhd->bhqk", q, k), q, k, backend="numpy")
    names = [node.primitive.name for node in step.graph.nodes]
    assert names.count("matmul") == 1 and {*names} <= {"matmul", "transpose", "reshape"}


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 7])
def test_matrix_powers(n: int) -> None:
    (x,) = draw((2, 3, 3))
    agree(lambda x: ops.matrix_power(x, n), np.linalg.matrix_power(x, n), x, rtol=1e-4, atol=1e-4)
    assert_slopes(lambda x: ops.matrix_power(x, n) + 0 * x, x)


def test_traces() -> None:
    for shape in ((3, 3), (2, 4), (4, 2), (0, 3)):
        (x,) = draw(shape)
        agree(ops.trace, np.trace(x), x, atol=1e-5)
        assert_slopes(ops.trace, x)


M, V, B = np.ones((2, 3), np.float32), np.ones(3, np.float32), np.ones((2, 3, 4), np.float32)
WRONG: list[Any] = [
    (lambda: ops.mm(M, V), ValueError, r"mm takes operands with 2 and 2 axes, not f32\[2,3\] and f32\[3\]\."),
    (lambda: ops.mm(M, M), ValueError, "inner sizes 3 and 2 differ"),
    (lambda: ops.bmm(B, B[:1]), ValueError, "batches of one size, not 2 and 1"),
    (lambda: ops.vdot(V, V[:2]), ValueError, "inner sizes"),
    (lambda: ops.outer(M, V), ValueError, "outer takes operands with 1 and 1 axes"),
    (lambda: ops.dot(M, M), ValueError, "axes of the same sizes"),
    (lambda: ops.tensor_dot(M, M, 3), ValueError, "has no 3 axes"),
    (lambda: ops.tensor_dot(M, M, "a"), TypeError, "an integer or a pair"),
    (lambda: ops.tensor_dot(M, M, ((0, 1), 0)), ValueError, "as many axes of one"),
    (lambda: ops.tensor_dot(M, M, ((0, 0), (0, 0))), ValueError, "each axis once"),
    (lambda: ops.tensor_dot(M, M, (2, 0)), ValueError, "no axis 2"),
    (lambda: ops.cross(M, M, 0), ValueError, "an axis of size 3, which"),
    (lambda: ops.cross(B[:, :2], B[:, :2]), ValueError, "an axis of size 3, which"),
    (lambda: ops.matrix_power(M, 2), ValueError, "square matrices"),
    (lambda: ops.matrix_power(np.eye(2), -1), ValueError, "'n' must be at least 0"),
    (lambda: ops.trace(V), ValueError, "trace takes operands with 2 axes"),
    (lambda: ops.einsum("ij,jk", M), ValueError, "has 2 terms for 1 operands"),
    (lambda: ops.einsum("ij->ik", M), ValueError, "letters are not different ones of the operands"),
    (lambda: ops.einsum("ij->ii", M), ValueError, "letters are not different ones of the operands"),
    (lambda: ops.einsum("i->i", M), ValueError, "the term 'i' for an operand with 2 axes"),
    (lambda: ops.einsum("i1->i", M), ValueError, "the term 'i1', which is not made of letters"),
    (lambda: ops.einsum("...i...", M), ValueError, r"one '\.\.\.'"),
    (lambda: ops.einsum("ij,ij", M, M.T), ValueError, "gives one axis, 'i', the sizes 2 and 3"),
    (lambda: ops.einsum("ij,jk", np.eye(2, dtype=int), np.eye(2, dtype=int)), TypeError, "floating point"),
    (lambda: ops.einsum(3, M), TypeError, "an equation like"),
    (lambda: ops.einsum(M, "ij"), TypeError, "lists of numbers below 52"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_linear_algebra.py")
