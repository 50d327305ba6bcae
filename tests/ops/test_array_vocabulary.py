"""Functions of arrays against NumPy: blocks, regions, segments, runs, splits, conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import BACKENDS, agree
from tests.ops.slopes import assert_slopes

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
HALF = X.astype(np.float16)


def to_batch(x: Any, blocks: Any, sides: Any) -> Any:
    """Each place in a block picks every so many elements; places are the slowest part of the batch."""
    first = x.ndim - len(blocks)
    x = np.pad(x, [(0, 0)] * first + list(sides))
    steps = [slice(None)] * first
    return np.concatenate(
        [x[(*steps, *(slice(i, None, b) for i, b in zip(place, blocks, strict=True)))] for place in np.ndindex(*blocks)]
    )


BLOCKS: list[Any] = [
    ((2, 3, 4, 6), (2, 3), ((0, 0), (0, 0))),
    ((2, 3, 4), (2,), ((1, 1),)),
    ((3, 3, 5), (2, 3), ((1, 0), (1, 0))),
    ((1, 4, 4, 4), (2, 1, 2), ((0, 0), (1, 2), (2, 0))),
    ((0, 2, 4), (2,), ((0, 0),)),
]


@pytest.mark.parametrize("case", BLOCKS, ids=str)
def test_blocks_of_the_batch(case: Any) -> None:
    shape, blocks, sides = case
    x = RNG.normal(size=shape).astype(np.float32)
    batched = to_batch(x, blocks, sides)
    agree(lambda x: ops.space_to_batch_nd(x, blocks, sides), batched, x)
    agree(lambda x: ops.batch_to_space_nd(x, list(blocks), sides), x, batched)
    assert_slopes(lambda x: ops.space_to_batch_nd(x, blocks, sides), x)
    if len(set(blocks)) == 1:
        agree(lambda x: ops.space_to_batch_nd(x, blocks[0], sides), batched, x)


def test_columns_as_images() -> None:
    x = RNG.normal(size=(2, 3, 5, 6)).astype(np.float32)
    columns = ops.unfold(x, (2, 3), 1, 1, 2).asnumpy().reshape(2, 3, 6, -1)
    often = ops.unfold(np.ones_like(x), (2, 3), 1, 1, 2)
    expected = x * ops.fold(often, (5, 6), (2, 3), 1, 1, 2).asnumpy()
    agree(lambda c: ops.col2im(c, (5, 6), (2, 3), 1, 1, 2), expected, columns)
    agree(lambda c: ops.col2im(c, graphls.Tensor([5, 6]), (2, 3), (1, 1), (1, 1), (2, 2)), expected, columns)
    assert_slopes(lambda c: ops.col2im(c, (5, 6), (2, 3), 1, 1, 2), columns)


def with_part(x: Any, index: Any, value: Any) -> Any:
    x = x.copy()
    x[index] = value
    return x


def test_regions_are_replaced() -> None:
    every = slice(None)
    for x in (X, HALF):
        for axis in (0, 1, -1):
            at = (every,) * (axis % 3)
            row = -x[(*at, -2)]
            agree(lambda x, r: ops.select_scatter(x, r, axis, -2), with_part(x, (*at, -2), row), x, row)  # noqa: B023
            part = (*at, slice(1, None, 2))
            agree(lambda x, s: x.slice_scatter(s, axis, 1, step=2), with_part(x, part, -x[part]), x, -x[part])  # noqa: B023
        agree(lambda x, s: ops.slice_scatter(x, s, -1, -3, -1), with_part(x, (..., slice(1, 3)), 0), x, x[..., :2] * 0)
        for offset, dim1, dim2 in ((0, 0, 1), (1, 2, 0), (-1, 1, -1), (2, -2, -1)):
            diagonal = -np.diagonal(x, offset, dim1, dim2)
            expected = x.copy()
            np.einsum("...ii->...i", _square(expected, offset, dim1, dim2))[...] = diagonal
            agree(lambda x, d: ops.diagonal_scatter(x, d, offset, dim1, dim2), expected, x, diagonal)  # noqa: B023
    assert_slopes(lambda x, r: ops.select_scatter(x, r, 1, 0), X, X[:, 0] * 2)
    assert_slopes(lambda x, r: ops.slice_scatter(x, r, 2, 1, 3), X, X[:, :, :2] * 2)
    assert_slopes(lambda x, r: ops.diagonal_scatter(x, r, 0, 0, 2), X, np.diagonal(X, 0, 0, 2) * 2)


def _square(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The square part of x whose diagonal is the one with an offset, as a view."""
    x = np.moveaxis(x, (dim1, dim2), (-2, -1))[..., max(-offset, 0) :, max(offset, 0) :]
    size = min(x.shape[-2:])
    return x[..., :size, :size]


SEGMENTS: dict[str, tuple[Any, float]] = {
    "unsorted_segment_sum": (np.add, 0),
    "unsorted_segment_prod": (np.multiply, 1),
    "unsorted_segment_max": (np.maximum, -np.finfo(np.float32).max),
    "unsorted_segment_min": (np.minimum, np.finfo(np.float32).max),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments(name: str) -> None:
    join, nothing = SEGMENTS[name]
    function = getattr(ops, name)
    for numbers in (np.array([3, 0]), np.array([[0, 3, 0], [2, 0, -1]]), np.array([[1, 7, 1]] * 2, np.int32)):
        expected = np.full((5, *X.shape[numbers.ndim :]), nothing, np.float32)
        for place in np.ndindex(*numbers.shape):
            if 0 <= numbers[place] < 5:
                expected[numbers[place]] = join(expected[numbers[place]], X[place])
        agree(lambda x, n: function(x, n, 5), expected, X, numbers)
        assert_slopes(lambda x: ops.clamp(function(x, numbers, graphls.Tensor(5)), -9.0, 9.0), X)  # noqa: B023
    half = function(HALF, graphls.Tensor([1, 1]), 3)
    assert half.dtype is graphls.float16 and half.shape == (3, 3, 4)
    np.testing.assert_allclose(half.asnumpy()[1], join(HALF[0], HALF[1]), rtol=1e-3)
    numbers = np.array([0, 0, 2])
    agree(lambda x: function(x, numbers, 2)[:1], join(4, 9)[None], np.array([4, 9, 1]))
    agree(lambda x: function(x, numbers[:0], 2), np.full(2, nothing, np.float32), np.zeros(0, np.float32), rtol=1e-6)


def test_runs() -> None:
    x = np.int32([[1, 1, 2], [2, 2, 1]])
    for given in (x, x.astype(np.float32), x.astype(bool)):
        found, places, counts = ops.unique_consecutive(given, True, True)
        numbers = [1, 2, 1] if given.dtype != bool else [True]
        assert found.tolist() == numbers and found.dtype.numpy == given.dtype
        assert np.repeat(found.asnumpy(), counts.asnumpy()).tolist() == given.reshape(-1).tolist()
        assert found.asnumpy()[places.asnumpy()].tolist() == given.tolist()
    rows = np.int32([[1, 2, 1], [1, 2, 1], [0, 2, 1]])
    found, counts = ops.unique_consecutive(rows, return_counts=True, dim=0)
    assert found.tolist() == [[1, 2, 1], [0, 2, 1]] and counts.tolist() == [2, 1]
    found, places = ops.unique_consecutive(np.int32([[1, 1, 2], [3, 3, 2]]), True, dim=-1)
    assert found.tolist() == [[1, 2], [3, 2]] and places.tolist() == [0, 0, 1]
    assert ops.unique_consecutive(np.zeros(0, np.float32)).shape == (0,)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_unique_numbers_with_padding(dtype: Any) -> None:
    for x in (np.array([5, 3, 5, 9, 3, 3], dtype), np.array([7], dtype), np.zeros(0, dtype)):
        found, places = np.unique(x, return_inverse=True)
        padded = np.concatenate((found, np.full(x.size - found.size, -4, dtype)))
        agree(lambda x: ops.unique_with_pad(x, -4), (padded, places), x)


def test_splits_along_fixed_axes() -> None:
    for name, array in (("hsplit", X), ("hsplit", X[0, 0]), ("vsplit", X), ("dsplit", X)):
        agree(lambda x, n=name: getattr(ops, n)(x, [1, 2]), tuple(getattr(np, name)(array, [1, 2])), array)
        agree(lambda x, n=name: getattr(x, n)(2), tuple(_split(array, name)), array)


def _split(array: Any, name: str) -> Any:
    return np.array_split(array, 2, 0 if array.ndim == 1 else ["vsplit", "hsplit", "dsplit"].index(name))


def test_other_names() -> None:
    agree(ops.ravel, X.reshape(-1), X)
    agree(lambda x: x.view_as(graphls.Tensor(X.reshape(4, 6))), X.reshape(4, 6), X)
    agree(lambda x: ops.swapdims(x, 0, -1), np.swapaxes(X, 0, -1), X)
    places = np.array([[0, -1], [5, 2]])
    agree(ops.take, X.reshape(-1)[places], X, places)
    agree(lambda x, p: x.take(p, -1), np.take(X, [[3, 0]], -1), X, np.array([[3, 0]]))
    agree(lambda x: ops.tensor_slice(x, (0, 1, 1), (2, 2, 3)), X[:, 1:3, 1:], X)
    agree(lambda x: ops.top_k(x, 2), (np.sort(X)[..., :1:-1], np.argsort(-X)[..., :2]), X)
    agree(lambda x: ops.padding(x, 3), np.pad(X[..., :1], ((0, 0), (0, 0), (0, 2))), X[..., :1])
    agree(lambda x: ops.fills(x, 2), np.full_like(X, 2), X)
    agree(ops.dyn_shape, np.array([2, 3, 4]), X)
    agree(lambda x: ops.type_as(x, graphls.Tensor(1)), X.astype(np.int64), X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_deep_copy_is_a_tensor_of_its_own(backend: str) -> None:
    def function(x: Any) -> Any:
        other = ops.deepcopy(x)
        other[0] = 0.0
        return x, other

    for found, copied in (function(graphls.Tensor(X)), graphls.compile(function, X, backend=backend)(X)):
        np.testing.assert_array_equal(found.asnumpy(), X)
        np.testing.assert_array_equal(copied.asnumpy(), with_part(X, 0, 0))


def test_conversions_of_numbers() -> None:
    assert ops.is_tensor(graphls.Tensor(1)) and not ops.is_tensor(X) and not ops.is_tensor(1)
    assert ops.is_tensor(graphls.Parameter(X, name="x"))
    for dtype, expected in ((graphls.int64, 2), (graphls.float32, 2.75), (graphls.bool_, True), (graphls.int32, 2)):
        found = ops.scalar_cast(2.75, dtype)
        assert found == expected and type(found) is type(expected)
    array = ops.scalar_to_array(3)
    assert (array.shape, array.dtype, array.item()) == ((), graphls.int64, 3)
    assert ops.scalar_to_array(0.5).dtype is graphls.float32 and ops.scalar_to_array(True).dtype is graphls.bool_
    assert ops.tuple_to_array((1, 2, 3)).dtype is graphls.int64
    assert ops.tuple_to_array((1.0, 2)).tolist() == [1.0, 2.0]


WRONG: list[Any] = [
    (lambda x: ops.space_to_batch_nd(x, 3, ((0, 0),)), ValueError, "cannot cut the sizes"),
    (lambda x: ops.space_to_batch_nd(x, 2, 1), TypeError, "a pair of integers for each axis"),
    (lambda x: ops.space_to_batch_nd(x, (2, 2, 2), ((0, 0),) * 3), ValueError, "cannot use blocks"),
    (lambda x: ops.space_to_batch_nd(x, 2, ((-1, 1),)), ValueError, "cannot use blocks"),
    (lambda x: ops.batch_to_space_nd(x, 3, ((0, 0),)), ValueError, "cannot make blocks"),
    (lambda x: ops.batch_to_space_nd(x, 2, ((4, 4),)), ValueError, "cannot make blocks"),
    (lambda x: ops.col2im(x, (5, 5), 2, 1, 0, 1), ValueError, "col2im takes columns"),
    (lambda x: ops.col2im(ops.ones((1, 2, 8, 16)), (5, 5), 2, 1, 0, 1), ValueError, "has not the 8 elements"),
    (lambda x: ops.select_scatter(x, x, 0, 1), ValueError, r"takes a source of shape \(3, 4\)"),
    (lambda x: ops.select_scatter(x, x[0], 0, 2), IndexError, "out of range"),
    (lambda x: ops.slice_scatter(x, x, 0, 1), ValueError, r"takes a source of shape \(1, 3, 4\)"),
    (lambda x: ops.diagonal_scatter(x, x, 0, 1, 1), ValueError, "two different axes"),
    (lambda x: ops.unsorted_segment_sum(x, x, 3), TypeError, "integers that name segments"),
    (lambda x: ops.unsorted_segment_sum(x, ops.zeros(3, graphls.int64), 3), ValueError, "cannot make 3 segments"),
    (lambda x: ops.unsorted_segment_max(x, ops.zeros(2, graphls.int64), 0), ValueError, "cannot make 0 segments"),
    (lambda x: ops.unique_with_pad(x, 0), TypeError, "int32 or int64"),
    (lambda x: ops.unique_with_pad(ops.zeros((2, 2), graphls.int32), 0), ValueError, "takes a vector"),
    (lambda x: ops.hsplit(x[0, 0, 0], 2), ValueError, "rank 1 or more"),
    (lambda x: ops.vsplit(x[0, 0], 2), ValueError, "rank 2 or more"),
    (lambda x: ops.dsplit(x[0], 2), ValueError, "rank 3 or more"),
    (lambda x: ops.take(x, 24), IndexError, "out of range"),
    (lambda x: ops.padding(x, 8), ValueError, "cannot make a last axis of 8"),
    (lambda x: ops.padding(x, 8.0), TypeError, "'pad_dim_size' must be int"),
    (lambda x: ops.scalar_cast(1, graphls.float16), ValueError, "makes no float16"),
    (lambda x: ops.scalar_cast(x, graphls.int32), TypeError, "'input_x' must be a Python number"),
    (lambda x: ops.tuple_to_array(3), TypeError, "a tuple of numbers"),
    (lambda x: ops.tuple_to_array(()), ValueError, "one number or more"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function(graphls.Tensor(X))
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_array_vocabulary.py")


def test_what_the_graph_computes_has_no_runs() -> None:
    with pytest.raises(graphls.GraphlsError, match="shape of unique_consecutive is not static"):
        graphls.compile(ops.unique_consecutive, X)
