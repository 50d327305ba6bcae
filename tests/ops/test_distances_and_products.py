"""Distances, products of batches, combinations, covariances and boxes against NumPy and SciPy, with gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.spatial import distance

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

RNG = np.random.default_rng(17)


def draw(*shape: int) -> Any:
    return RNG.normal(size=shape)


ORDERS = [0, 0.5, 1, 2, 3, np.inf]


def lengths(x: Any, p: float) -> Any:
    return np.linalg.norm(x.reshape(-1, x.shape[-1]), p, axis=-1).reshape(x.shape[:-1])


@pytest.mark.parametrize("p", ORDERS)
def test_distances_of_each_pair(p: float) -> None:
    for first, second in (((4, 3), (5, 3)), ((2, 4, 3), (2, 1, 3)), ((3, 1, 2, 3), (2, 4, 3)), ((4, 3), (0, 3))):
        x, y = draw(*first), draw(*second)
        expected = lengths(x[..., :, None, :] - y[..., None, :, :], p)
        agree(lambda x, y: ops.cdist(x, y, p), expected, x, y, rtol=1e-9)
    if p:
        assert_slopes(lambda x, y: ops.cdist(x, y, p), x[:3], draw(2, 3))


@pytest.mark.parametrize("p", ORDERS)
def test_distances_among_vectors(p: float) -> None:
    x = draw(2, 5, 3)
    first, second = np.triu_indices(5, 1)
    agree(lambda x: ops.pdist(x, p), lengths(x[:, first] - x[:, second], p), x, rtol=1e-9)
    agree(lambda x: ops.pdist(x, p), np.zeros((2, 0)), x[:, :1].copy())
    if p:
        assert_slopes(lambda x: ops.pdist(x, p), x)


def test_distances_as_scipy_has_them() -> None:
    x, y = draw(6, 4), draw(5, 4)
    agree(ops.pdist, distance.pdist(x), x)
    agree(ops.cdist, distance.cdist(x, y), x, y)
    agree(ops.Cdist(1.0), distance.cdist(x, y, "cityblock"), x, y)
    agree(ops.Pdist(p=1.0), distance.pdist(x, "cityblock"), x)
    half = x.astype(np.float16)
    agree(ops.pdist, distance.pdist(half.astype(float)), half, rtol=1e-3)


def test_the_gradient_of_no_distance_is_zero() -> None:
    x = graphls.Tensor(np.ones((3, 2)))
    found = graphls.grad(lambda x: ops.sum(ops.pdist(x)))(x)
    np.testing.assert_array_equal(found.asnumpy(), np.zeros((3, 2)))


def test_cosines() -> None:
    x, y = draw(4, 3, 2), draw(4, 3, 2)
    for axis in (0, 1, -1):
        norms = np.linalg.norm(x, axis=axis) * np.linalg.norm(y, axis=axis)
        agree(lambda x, y: ops.cosine_similarity(x, y, axis), (x * y).sum(axis) / norms, x, y, rtol=1e-9)  # noqa: B023
        assert_slopes(lambda x, y: ops.cosine_similarity(x, y, axis), x, y)  # noqa: B023
    agree(ops.cosine_similarity, np.zeros(2), np.zeros((2, 3)), np.ones((2, 3)))
    agree(ops.cosine_similarity, np.full((2, 5), 1), np.ones((2, 3, 5)), np.ones((1, 3, 1)))


@pytest.mark.parametrize(
    ("shapes", "axes", "equation"),
    [
        (((2, 4), (2, 4)), None, "bi,bi->b"),
        (((2, 3, 4), (2, 4, 5)), None, "bij,bjk->bik"),
        (((6, 2, 3, 4), (6, 5, 4, 8)), None, "bhij,bljk->bhilk"),
        (((2, 4), (2, 4, 5)), None, "bj,bjk->bk"),
        (((2, 3, 4), (2, 4)), None, "bij,bj->bi"),
        (((2, 3, 4), (2, 5, 4)), (-1, -1), "bij,bkj->bik"),
        (((2, 4, 3), (2, 4, 5)), 1, "bji,bjk->bik"),
        (((2, 4, 3), (2, 5, 4)), [1, 2], "bji,bkj->bik"),
        (((0, 3, 4), (0, 4, 5)), None, "bij,bjk->bik"),
    ],
    ids=str,
)
def test_products_of_batches(shapes: Any, axes: Any, equation: str) -> None:
    x, y = map(np.asarray, (draw(*shape) for shape in shapes))
    expected = np.einsum(equation, x, y)
    expected = expected[:, None] if expected.ndim == 1 else expected
    agree(lambda x, y: ops.batch_dot(x, y, axes), expected, x, y, rtol=1e-9)
    if x.size:
        assert_slopes(lambda x, y: ops.batch_dot(x, y, axes), x, y)


def test_products_of_vectors_along_an_axis() -> None:
    for first, second, axis in (((2, 3), (2, 3), -1), ((4, 1, 3), (2, 1), 1), ((3,), (2, 3), 0), ((0,), (0,), 0)):
        x, y = draw(*first), draw(*second)
        agree(lambda x, y, a=axis: ops.vecdot(x, y, axis=a), (x * y).sum(axis), x, y)
        assert_slopes(lambda x, y, a=axis: ops.vecdot(x, y, axis=a), x, y)


def test_matrices_transposed() -> None:
    for shape in ((2, 3), (3,), ()):
        agree(ops.t, draw(*shape).T * 0, np.zeros(shape))
    x = draw(2, 3)
    agree(ops.t, x.T, x)
    agree(lambda x: x.t(), x.T, x)
    agree(ops.adjoint, draw(2, 4, 3).swapaxes(1, 2) * 0, np.zeros((2, 4, 3)))


def test_combinations() -> None:
    x = np.float32([1, 2, 3, 4])
    for count in (0, 1, 2, 4, 5):
        for name in ("combinations", "combinations_with_replacement"):
            chosen = list(getattr(itertools, name)(x, count))
            rows = np.array(chosen).reshape(len(chosen), count)
            agree(lambda x, r=count, w="with" in name: ops.combinations(x, r, w), rows, x)
    agree(ops.combinations, np.zeros((0, 2)), x[:1])
    assert_slopes(ops.combinations, x)


def test_cartesian_products() -> None:
    vectors = np.int32([1, 2]), np.int32([3, 4, 5]), np.int32([6])
    agree(ops.cartesian_prod, np.array(list(itertools.product(*vectors))), *vectors)
    agree(ops.cartesian_prod, vectors[1][:, None], vectors[1])
    assert_slopes(ops.cartesian_prod, np.ones(2), np.ones(3))


@pytest.mark.parametrize("count", [None, 0, 1, 2, 5])
def test_powers_as_columns(count: Any) -> None:
    x = np.float32([0, 1, -2, 3])
    agree(lambda x: ops.vander(x, count), np.vander(x, count), x)
    agree(lambda x: ops.vander(x, count), np.vander(x.astype(int), count), x.astype(int))
    if count != 0:
        assert_slopes(lambda x: ops.vander(x, count), x)


def test_rows_joined() -> None:
    rows = np.ones(3), np.zeros((2, 3))
    agree(lambda a, b: ops.row_stack((a, b)), np.vstack(rows), *rows)


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_covariances(correction: int) -> None:
    x, often, weights = draw(3, 6), np.array([1, 2, 1, 3, 1, 1]), np.abs(draw(6))
    for f, a in itertools.product((None, often), (None, weights)):
        expected = np.cov(x, ddof=correction, fweights=f, aweights=a)
        agree(lambda x, f=f, a=a: ops.cov(x, correction=correction, fweights=f, aweights=a), expected, x, rtol=1e-9)
    assert_slopes(lambda x: ops.cov(x, correction=correction, aweights=weights), x)
    agree(lambda x: ops.cov(x, correction=correction), np.cov(x[0], ddof=correction), x[0].copy(), rtol=1e-9)


def test_slices_of_limited_norms() -> None:
    x = draw(3, 4, 2) * np.float64([1, 5, 0.1])[:, None, None]
    for p, axis in ((2, 0), (1, 1), (3, -1)):
        others = tuple(i for i in range(3) if i != axis % 3)
        norms = (np.abs(x) ** p).sum(others, keepdims=True) ** (1 / p)
        expected = np.where(norms > 2, x * 2 / norms, x)
        agree(lambda x, p=p, a=axis: ops.renorm(x, p, a, 2.0), expected, x, rtol=1e-6)
        assert_slopes(lambda x, p=p, a=axis: ops.renorm(x, p, a, 2.0), x)
    agree(ops.Renorm(p=2, dim=0, maxnorm=0.0), np.zeros((2, 2)), np.ones((2, 2)))
    agree(lambda x: ops.renorm(x, 2, 0, 1.0), np.float64([1, -0.5, 1]), np.float64([3, -0.5, 2]))


def overlap(anchor: Any, truth: Any, mode: str) -> float:
    """By hand, for whole numbers: pixels that both boxes have."""
    first, second = ({*itertools.product(range(b[0], b[2]), range(b[1], b[3]))} for b in (anchor, truth))
    total = second if mode == "iof" else first | second
    return len(first & second) / len(total) if total else 0


@pytest.mark.parametrize("mode", ["iou", "iof"])
def test_boxes(mode: str) -> None:
    low, high = RNG.integers(0, 6, (5, 2)), RNG.integers(4, 12, (5, 2))
    boxes = np.concatenate([low, np.maximum(low, high)], 1)
    anchors, truths = boxes, np.concatenate([boxes[:2] + 1, [[3, 3, 3, 3]]])
    expected = np.array([[overlap(a, t, mode) for a in anchors] for t in truths])
    agree(lambda a, t: ops.iou(a, t, mode), expected, anchors.astype(np.float32), truths.astype(np.float32))
    agree(ops.IOU(mode), expected, anchors.astype(np.float32), truths.astype(np.float32))
    some = np.float64([[0, 0, 4, 5], [2, 1, 6, 3]])
    assert_slopes(lambda a, t: ops.iou(a, t, mode), some, some[::-1] + 0.25)


def test_slices_by_index() -> None:
    x, v = draw(5, 3), draw(2, 3)
    for name, change in (("add", v), ("sub", -v), ("update", None)):
        expected = x.copy()
        expected[[3, 0]] = v if change is None else expected[[3, 0]] + change
        agree(lambda x, v, n=name: getattr(ops, f"inplace_{n}")(x, v, (3, 0)), expected, x, v)
        agree(lambda x, v, n=name: getattr(ops, f"Inplace{n.title()}")((3, 0))(x, v), expected, x, v)
        assert_slopes(lambda x, v, n=name: getattr(ops, f"inplace_{n}")(x, v, (3, 0)), x, v)
    agree(lambda x, v: ops.inplace_add(x, v, 1), x + np.eye(5)[1][:, None] * v[:1], x, v[:1].copy())
    agree(lambda x, v: ops.inplace_add(x, v, (1, 1)), x + np.eye(5)[1][:, None] * v.sum(0), x, v)
    expected = x.copy()
    expected[:, [2, 0]] += 1
    agree(lambda x: ops.inplace_index_add(x, [2, 0], np.ones((5, 2)), 1), expected, x)
    parameter = graphls.Parameter(np.zeros((3, 2), np.float32), name="p")
    ops.inplace_index_add(parameter, [2], np.ones((1, 2), np.float32), 0)
    np.testing.assert_array_equal(parameter.asnumpy(), [[0, 0], [0, 0], [1, 1]])


def test_means_of_segments() -> None:
    x, places, ids = draw(6, 2), np.int32([5, 0, 0, 3]), np.int32([0, 0, 2, 2])
    expected = np.stack([x[[5, 0]].mean(0), np.zeros(2), x[[0, 3]].mean(0)])
    agree(lambda x, i: ops.sparse_segment_mean(x, i, ids), expected, x, places)
    assert_slopes(lambda x, i: ops.sparse_segment_mean(x, i, ids), x, places)
    agree(lambda x: ops.sparse_segment_mean(x, np.zeros(0, int), np.zeros(0, int)), np.zeros((0, 2)), x)


F, V = np.ones((2, 3), np.float32), np.ones(3, np.float32)
WRONG: list[Any] = [
    (lambda: ops.cdist(F, F, -1), ValueError, "'p' must be at least 0"),
    (lambda: ops.cdist(F, V), ValueError, r"lists of vectors of one size, \(..., m, k\) and"),
    (lambda: ops.cdist(F, F.T), ValueError, "lists of vectors of one size"),
    (lambda: ops.pdist(V), ValueError, r"a list of vectors, \(..., n, k\), not f32\[3\]"),
    (lambda: ops.pdist(F, "2"), TypeError, "the type of 'p' should be 'float'"),
    (lambda: ops.batch_dot(V, V), ValueError, "two axes or more and of one batch size"),
    (lambda: ops.batch_dot(F, F.T), ValueError, "two axes or more and of one batch size"),
    (lambda: ops.batch_dot(F, F, 0), ValueError, "axes of one size after the first, not 0"),
    (lambda: ops.batch_dot(F, F[:, :2]), ValueError, "axes of one size after the first"),
    (lambda: ops.batch_dot(F, F, (1, 1, 1)), ValueError, "an axis or a pair of them"),
    (lambda: ops.vecdot(F, V, axis=2), ValueError, "no axis 2"),
    (lambda: ops.t(np.ones((1, 2, 3))), ValueError, "t takes two axes at most"),
    (lambda: ops.adjoint(V), ValueError, "adjoint takes matrices"),
    (lambda: ops.combinations(F), ValueError, r"combinations takes vectors, not f32\[2,3\]"),
    (lambda: ops.combinations(V, -1), ValueError, "'r' must be at least 0"),
    (lambda: ops.cartesian_prod(F, V), ValueError, "cartesian_prod takes vectors"),
    (lambda: ops.cartesian_prod(), TypeError, "one tensor or more"),
    (lambda: ops.vander(F), ValueError, "vander takes vectors"),
    (lambda: ops.vander(V, -1), ValueError, "'N' must be at least 0"),
    (lambda: ops.cov(np.ones((1, 2, 3))), ValueError, "cov takes a matrix"),
    (lambda: ops.cov(F, aweights=V[:2]), ValueError, "aweights of cov are one for each of 3 observations"),
    (lambda: ops.cov(F, fweights=V), TypeError, "fweights of cov are integers"),
    (lambda: ops.renorm(F, 0, 0, 1.0), ValueError, "'p' must be greater than 0"),
    (lambda: ops.renorm(F, 2, 0, -1.0), ValueError, "'maxnorm' must be at least 0"),
    (lambda: ops.iou(F, F), ValueError, "rows of four numbers"),
    (lambda: ops.iou(np.ones((1, 4)), np.ones((1, 4)), "giou"), ValueError, "'iou' or 'iof', not 'giou'"),
    (lambda: ops.inplace_add(F, F, (0,)), ValueError, "takes updates of shape"),
    (lambda: ops.inplace_update(F, F, (0, 2)), IndexError, "index 2 is out of range"),
    (lambda: ops.sparse_segment_mean(F, [0, 1], [1, 0]), ValueError, "a rising segment id for each"),
    (lambda: ops.sparse_segment_mean(F, [0, 1], [0]), ValueError, "a rising segment id for each"),
    (lambda: ops.sparse_segment_mean(F, [0], [-1]), ValueError, "a rising segment id for each"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_distances_and_products.py")
