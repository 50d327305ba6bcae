"""Functions that move and repeat elements, against NumPy: values, dtypes, gradients, empty axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops
from graphls.compat.mint import functions as mint
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

CASES: list[Any] = [
    ("unstack", lambda x: ops.unstack(x, -1), lambda x: tuple(np.moveaxis(x, -1, 0)), [(2, 3), (0, 2)]),
    ("unbind", ops.unbind, tuple, [(2, 3), (3,)]),
    ("chunk", lambda x: ops.chunk(x, 3, 1), lambda x: (x[:, :2], x[:, 2:4], x[:, 4:]), [(2, 5), (0, 5)]),
    ("chunk few", lambda x: ops.chunk(x, 4), lambda x: tuple(x[i : i + 1] for i in range(3)), [(3, 2)]),
    ("tensor_split", lambda x: ops.tensor_split(x, 3, -1), lambda x: tuple(np.array_split(x, 3, -1)), [(2, 5), (2, 2)]),
    ("tensor_split at", lambda x: ops.tensor_split(x, (1, -1, 4)), lambda x: tuple(np.split(x, (1, -1, 4))), [(5, 2)]),
    ("tile", lambda x: ops.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), [(2, 3), (4,), (0, 2), (1, 2, 1)]),
    ("tile fewer", lambda x: ops.tile(x, (2,)), lambda x: np.tile(x, 2), [(2, 3), ()]),
    ("tile zero", lambda x: ops.tile(x, (0, 2)), lambda x: np.tile(x, (0, 2)), [(2, 3)]),
    ("repeat_elements", lambda x: ops.repeat_elements(x, 2, 1), lambda x: np.repeat(x, 2, 1), [(2, 3), (2, 0, 2)]),
    ("repeat_interleave", lambda x: ops.repeat_interleave(x, 3), lambda x: np.repeat(x, 3), [(2, 3), (0,), (1,)]),
    ("repeat each", lambda x: ops.repeat_interleave(x, (2, 0, 1), -1), lambda x: np.repeat(x, (2, 0, 1), -1), [(2, 3)]),
    ("expand", lambda x: ops.expand(x, (4, -1, 3)), lambda x: np.broadcast_to(x, (4, 2, 3)), [(2, 1), (1, 2, 3)]),
    ("expand_as", lambda x: ops.expand_as(x, np.ones((2, 3))), lambda x: np.broadcast_to(x, (2, 3)), [(3,), (2, 1)]),
    ("atleast_1d", ops.atleast_1d, np.atleast_1d, [(), (2,)]),
    ("atleast_2d", ops.atleast_2d, np.atleast_2d, [(), (2,), (2, 3)]),
    ("atleast_3d", ops.atleast_3d, np.atleast_3d, [(), (2,), (2, 3), (1, 2, 3)]),
    ("movedim", lambda x: ops.movedim(x, 0, -1), lambda x: np.moveaxis(x, 0, -1), [(2, 3, 4), (3,), (0, 2)]),
    ("moveaxis", lambda x: ops.moveaxis(x, (0, -1), (1, 0)), lambda x: np.moveaxis(x, (0, -1), (1, 0)), [(2, 3, 4)]),
    ("flip", lambda x: ops.flip(x, (0, -1)), lambda x: np.flip(x, (0, -1)), [(2, 3), (2, 0), (2, 3, 4)]),
    ("flip none", lambda x: ops.flip(x, ()), lambda x: x, [(2, 3)]),
    ("reverse", lambda x: ops.reverse(x, [1]), lambda x: x[:, ::-1], [(2, 3)]),
    ("fliplr", ops.fliplr, np.fliplr, [(2, 3)]),
    ("flipud", ops.flipud, np.flipud, [(2, 3), (4,)]),
    ("roll", lambda x: ops.roll(x, 2), lambda x: np.roll(x, 2), [(2, 3), (0,), (5,)]),
    ("roll axes", lambda x: ops.roll(x, (1, -5), (0, -1)), lambda x: np.roll(x, (1, -5), (0, -1)), [(2, 3), (2, 0)]),
    ("roll twice", lambda x: ops.roll(x, (1, 1), (0, 0)), lambda x: np.roll(x, 2, 0), [(5, 2)]),
    *((f"rot90 {k}", lambda x, k=k: ops.rot90(x, k, (-1, 0)), lambda x, k=k: np.rot90(x, k, (-1, 0)), [(2, 3, 4)])
      for k in (-1, 0, 1, 2, 3)),
    ("tril", lambda x: ops.tril(x, 1), lambda x: np.tril(x, 1), [(3, 4), (2, 4, 3), (0, 3)]),
    ("triu", lambda x: ops.triu(x, -1), lambda x: np.triu(x, -1), [(3, 4), (2, 4, 3), (0, 3)]),
    *((f"diagonal {k}", lambda x, k=k: ops.diagonal(x, k), lambda x, k=k: np.diagonal(x, k), [(3, 4), (4, 3), (0, 2)])
      for k in (-5, -2, -1, 0, 1, 3, 4)),
    ("diagonal axes", lambda x: ops.diagonal(x, -1, 2, 0), lambda x: np.diagonal(x, -1, 2, 0), [(2, 3, 4)]),
    ("diag", ops.diag, np.diag, [(3,), (0,)]),
    ("diag of two", ops.diag, lambda x: np.diag(x.reshape(-1)).reshape(2, 3, 2, 3), [(2, 3)]),
    *((f"diag_embed {k}", lambda x, k=k: ops.diag_embed(x, k), lambda x, k=k: np.stack([np.diag(r, k) for r in x]),
       [(2, 3)]) for k in (-2, 0, 1)),
    ("diag_embed axes", lambda x: ops.diag_embed(x, 1, 0, -1),
     lambda x: np.moveaxis(np.stack([np.diag(r, 1) for r in x]), 1, 0), [(2, 3)]),
    ("hstack", lambda x: ops.hstack((x, x * 2)), lambda x: np.hstack((x, x * 2)), [(2, 3), (3,), ()]),
    ("vstack", lambda x: ops.vstack((x, x * 2)), lambda x: np.vstack((x, x * 2)), [(2, 3), (3,), ()]),
    ("dstack", lambda x: ops.dstack((x, x * 2)), lambda x: np.dstack((x, x * 2)), [(2, 3), (3,), (2, 3, 1)]),
    ("column_stack", lambda x: ops.column_stack((x, x)), lambda x: np.column_stack((x, x)), [(2, 3), (3,)]),
    ("meshgrid", lambda x: ops.meshgrid(x, x[:2], x), lambda x: tuple(np.meshgrid(x, x[:2], x)), [(3,)]),
    ("meshgrid ij", lambda x: ops.meshgrid((x, x[:2]), indexing="ij"),
     lambda x: tuple(np.meshgrid(x, x[:2], indexing="ij")), [(3,)]),
    ("linspace", lambda x: ops.linspace(x, 2 * x, 5), lambda x: np.linspace(x, 2 * x, 5, axis=-1), [(), (2, 3)]),
    ("index_select", lambda x: ops.index_select(x, 1, np.array([2, 0, -1])), lambda x: x[:, [2, 0, -1]], [(2, 3)]),
    ("take_along_axis", lambda x: ops.take_along_axis(x, np.array([[0, 2, -1]]), 1),
     lambda x: np.take_along_axis(x, np.broadcast_to([[0, 2, -1]], (len(x), 3)), 1), [(2, 3), (0, 4)]),
    ("gather_elements", lambda x: ops.gather_elements(x, -1, np.array([[2, 0, -1, 0]])),
     lambda x: x[:1, [2, 0, -1, 0]], [(2, 3), (1, 4)]),
    ("masked_fill", lambda x: ops.masked_fill(x, np.array([True, False, True]), 7), lambda x: np.where([1, 0, 1], 7, x),
     [(2, 3), (3,)]),
    ("masked_select", lambda x: ops.masked_select(x, np.array([True, False, True])),
     lambda x: x[..., [0, 2]].reshape(-1), [(2, 3)]),
    ("narrow", lambda x: ops.narrow(x, 1, -3, 2), lambda x: x[:, -3:-1], [(2, 3), (0, 4)]),
    ("slice", lambda x: ops.slice(x, (1, 0), (1, -1)), lambda x: x[1:2], [(2, 3), (2, 0)]),
    ("strided_slice", lambda x: ops.strided_slice(x, (1, 0, 2), (2, 0, 0), (1, 1, -1), 0, 2, 0, 0, 0),
     lambda x: x[1:2, :, 2:0:-1], [(2, 3, 4)]),
    ("strided_slice masks", lambda x: ops.strided_slice(x, (1, 9, 9, 1), (9, 9, 9, 0), None, 0, 0, 2, 4, 9),
     lambda x: x[1, ..., None, 1], [(2, 3, 4)]),
    ("space_to_depth", lambda x: ops.space_to_depth(x, 2),
     lambda x: np.concatenate([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], 1), [(2, 3, 4, 2), (0, 1, 2, 2)]),
    ("depth_to_space", lambda x: ops.space_to_depth(ops.depth_to_space(x, 2), 2), lambda x: x, [(1, 8, 2, 3)]),
    ("sequence", lambda x: ops.reverse_sequence(x, np.array([2, 0, 4]), 1),
     lambda x: np.stack((x[0][[1, 0, 2, 3]], x[1], x[2][::-1])), [(3, 4), (3, 4, 2)]),
    ("sequence batch", lambda x: ops.reverse_sequence(x, np.array([2, 3]), 0, 1),
     lambda x: np.stack((x[[1, 0, 2], 0], x[::-1, 1]), 1), [(3, 2)]),
    ("gather_nd", lambda x: ops.gather_nd(x, np.array([[0, 1], [-1, 2]])), lambda x: x[[0, -1], [1, 2]],
     [(2, 3), (2, 3, 4)]),
    ("index_fill", lambda x: ops.index_fill(x, 1, np.array([0, -1]), 5),
     lambda x: np.concatenate((x[:, :1] * 0 + 5, x[:, 1:-1], x[:, :1] * 0 + 5), 1), [(2, 3), (0, 4)]),
]  # fmt: skip
EACH = [pytest.param(*case[1:3], shape, id=f"{case[0]} {shape}") for case in CASES for shape in case[3]]


def numbers(shape: Any, dtype: Any = np.float32) -> Any:
    count = int(np.prod(shape, dtype=int))
    return np.random.default_rng(5).permutation(np.arange(1, count + 1)).astype(dtype).reshape(shape)


@pytest.mark.parametrize(("function", "expected", "shape"), EACH)
def test_values_are_those_of_numpy(function: Any, expected: Any, shape: Any) -> None:
    x = numbers(shape)
    agree(function, expected(x), x)


@pytest.mark.parametrize(("function", "expected", "shape"), EACH)
@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_dtypes_stay(function: Any, expected: Any, shape: Any, dtype: str, request: Any) -> None:
    if "linspace" in request.node.name and dtype == "int32":
        pytest.skip("linspace makes floats")
    x = numbers(shape, dtype)
    agree(function, expected(x), x, rtol=1e-3)
    made = function(graphls.Tensor(x))
    assert all(str(t.dtype.long_name) == dtype for t in (made if isinstance(made, tuple) else (made,)))


@pytest.mark.parametrize(("function", "expected", "shape"), EACH)
def test_gradients_are_slopes(function: Any, expected: Any, shape: Any) -> None:
    assert_slopes(function, numbers(shape))


def test_what_is_made_of_nothing_but_sizes() -> None:
    row, column = np.tril_indices(4, -1, 3)
    cases: list[Any] = [
        (lambda x: ops.eye(3) + x, np.eye(3) + 1),
        (lambda x: ops.eye(2, 4, graphls.int32) + x, np.eye(2, 4) + 1),
        (lambda x: ops.eye(0) * x, np.eye(0)),
        (lambda x: ops.tril_indices(4, 3, -1) + x, np.stack((row, column)) + 1),
        (lambda x: ops.triu_indices(2, 3) + x, np.stack(np.triu_indices(2, 0, 3)) + 1),
        (lambda x: ops.linspace(1, 2, 4) * x, np.linspace(1, 2, 4)),
        (lambda x: ops.linspace(5, 2, 1) * x, np.array([5.0])),
        (lambda x: ops.logspace(0, 3, 4, 2) * x, np.array([1.0, 2, 4, 8])),
        (lambda x: ops.range(1, 7, 2) * x, np.array([1, 3, 5])),
        (lambda x: ops.empty_like(x) * 0, np.array(0.0)),
        (lambda x: ops.empty((2, 0)) * x, np.zeros((2, 0))),
        (lambda x: ops.block_diag(x, np.array([[1.0, 2]]), x * 3), [[1, 0, 0, 0], [0, 1, 2, 0], [0, 0, 0, 3]]),
        (lambda x: ops.broadcast_tensors(x, np.ones((2, 1)), np.ones(3)), (np.ones((2, 3)),) * 3),
        (lambda x: ops.sequence_mask(np.array([[0, 2], [3, 1]])) & (x > 0), np.tri(4, 3, -1)[[[0, 2], [3, 1]]] > 0),
        (lambda x: ops.sequence_mask(ops.cast(x, graphls.int32), 3), [True, False, False]),
    ]
    for function, expected in cases:
        expected = tuple(map(np.asarray, expected)) if isinstance(expected, tuple) else np.asarray(expected)
        agree(function, expected, np.array(1, np.float32))


def test_selections_of_what_is_known() -> None:
    x = np.array([[3, 0, 1], [0, 3, 3]], np.float32)
    found = ops.nonzero(x)
    np.testing.assert_array_equal(found.asnumpy(), np.argwhere(x))
    assert found.dtype is graphls.int64 and ops.argwhere is ops.nonzero
    different, places = ops.unique(x)
    assert different.tolist() == [0, 1, 3] and places.tolist() == [[2, 0, 1], [0, 2, 2]]
    assert ops.nonzero(np.zeros((2, 0))).shape == (0, 2)


def test_counts_and_searches() -> None:
    x, weights = np.array([3, 1, 3, 0], np.int32), np.array([0.5, 1, 2, 4], np.float32)
    agree(lambda w: ops.bincount(x, w, 6), np.bincount(x, weights, 6).astype(np.float32), weights)
    agree(lambda x: ops.bincount(x, minlength=4), np.bincount(x), x)
    assert ops.bincount(x).tolist() == [1, 1, 0, 2] and ops.bincount(np.array([], np.int32)).shape == (0,)
    edges, values = np.array([1, 2, 2, 5], np.float32), np.array([[0, 1, 2], [3, 5, 6]], np.float32)
    for right in (False, True):
        expected = np.searchsorted(edges, values, "right" if right else "left")
        agree(lambda e, v, r=right: ops.searchsorted(e, v, right=r), expected, edges, values)
        agree(lambda v, r=right: ops.bucketize(v, [1.0, 2, 2, 5], right=r), expected, values)
    rows = np.array([[1, 3], [2, 4]], np.float32)
    agree(ops.searchsorted, np.array([[0, 0, 1], [1, 2, 2]]), rows, values)
    assert ops.searchsorted(edges, values, out_int32=True).dtype is graphls.int32


def test_a_sorter_is_of_vectors_and_of_rows_alike() -> None:
    rows, values = np.array([[3, 1, 2], [5, 9, 7]], np.float32), np.array([[2, 4], [7, 5]], np.float32)
    order = np.argsort(rows, -1)
    for side, wanted in (("left", [[1, 3], [1, 0]]), ("right", [[2, 3], [2, 1]])):  # PyTorch's numbers
        agree(lambda r, v, s=side: ops.searchsorted(r, v, side=s, sorter=order), np.array(wanted), rows, values)
        assert Tensor(rows).searchsorted(Tensor(values), side, Tensor(order)).tolist() == wanted
        assert mint.searchsorted(Tensor(rows), Tensor(values), side=side, sorter=Tensor(order)).tolist() == wanted
        expected = np.searchsorted(rows[0], values, side, order[0])
        assert Tensor(rows[0]).searchsorted(values, side, order[0]).tolist() == expected.tolist()


WRONG: list[Any] = [
    (lambda x: ops.chunk(x, 0), ValueError, "'chunks' must be at least 1"),
    (lambda x: ops.tensor_split(x, 0), ValueError, "1 piece or more"),
    (lambda x: ops.tile(x, (-1,)), ValueError, "0 times or more"),
    (lambda x: ops.repeat_interleave(x, (1, 2), 1), ValueError, "cannot repeat 3 slices"),
    (lambda x: ops.movedim(x, (0, 1), 0), ValueError, "as many"),
    (lambda x: ops.movedim(x, 0, 2), ValueError, "no axis 2"),
    (lambda x: ops.flip(x, (0, 0)), ValueError, "twice"),
    (lambda x: ops.roll(x, (1, 2), (0,)), ValueError, "a shift for each axis"),
    (lambda x: ops.rot90(x, 1, (0, 0)), ValueError, "two different axes"),
    (lambda x: ops.tril(x[0]), ValueError, "two axes or more"),
    (lambda x: ops.diagonal(x, 0, 1, -1), ValueError, "two different axes"),
    (lambda x: ops.diag(ops.sum(x)), ValueError, "not a number"),
    (lambda x: ops.block_diag(x[None]), ValueError, "two axes at most"),
    (lambda x: ops.meshgrid(x), ValueError, "vectors"),
    (lambda x: ops.meshgrid(x[0], indexing="yx"), ValueError, "'xy' or 'ij'"),
    (lambda x: ops.linspace(x, x, 0), ValueError, "'steps' must be at least 1"),
    (lambda x: ops.linspace(x, x, 2.0), TypeError, "'steps' must be int"),
    (lambda x: ops.hstack(x), TypeError, "tuple or list"),
    (lambda x: ops.index_select(x, 0, [[0]]), ValueError, "a vector of integers"),
    (lambda x: ops.index_select(x, 1, [3]), IndexError, "3 is out of range for an axis of size 3"),
    (lambda x: ops.take_along_axis(x, np.zeros((3, 1), int), 1), ValueError, "cannot take indices"),
    (lambda x: ops.masked_fill(x, x > 0, [1.0, 2]), ValueError, "one number"),
    (lambda x: ops.narrow(x, 1, 1, 3), IndexError, "cannot take 3 elements from 1 on"),
    (lambda x: ops.slice(x, (0,), (1,)), ValueError, "a start and a size for each axis"),
    (lambda x: ops.strided_slice(x, (0,), (1, 2)), ValueError, "as many ends"),
    (lambda x: ops.bincount(x), ValueError, "vector of integers"),
    (lambda x: ops.searchsorted(ops.ones((3, 2)), x), ValueError, "one for each vector"),
    (lambda x: ops.searchsorted(x, x, side="up"), ValueError, "'left' or 'right', not 'up'"),
    (lambda x: ops.searchsorted(x, x, right=True, side="left"), ValueError, "give one of the two"),
    (lambda x: ops.searchsorted(x, x, sorter=Tensor([0])), ValueError, "an index for each element"),
    (lambda x: ops.space_to_depth(x, 2), ValueError, r"\(N, C, H, W\)"),
    (lambda x: ops.space_to_depth(ops.ones((1, 1, 3, 2)), 2), ValueError, "cannot make blocks of 2 times 2"),
    (lambda x: ops.depth_to_space(ops.ones((1, 2, 3, 2)), 2), ValueError, "cannot make blocks"),
    (lambda x: ops.depth_to_space(ops.ones((1, 2, 3, 2)), 2.0), TypeError, "'block_size' must be int"),
    (lambda x: ops.reverse_sequence(x, [1], 1), ValueError, "2 lengths"),
    (lambda x: ops.gather_nd(x, np.array([[0, 3]])), IndexError, "3 is out of range for an axis of size 3"),
    (lambda x: ops.gather_nd(x, np.zeros((2, 3), int)), ValueError, "one to 2 coordinates"),
]
COMPUTED: list[Any] = [
    (lambda x: ops.masked_select(x, x > 0), TypeError, "not static"),
    (lambda x: ops.nonzero(x), TypeError, "not static"),
    (lambda x: ops.unique(x), TypeError, "not static"),
    (lambda x: ops.repeat_interleave(x, ops.cast(x[0], graphls.int32), 1), TypeError, "not static"),
    (lambda x: ops.bincount(ops.cast(x[0], graphls.int32)), ValueError, "'minlength'"),
    (lambda x: ops.sequence_mask(ops.cast(x[0], graphls.int32)), TypeError, "while the cell is traced"),
]


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("number", range(len(WRONG) + len(COMPUTED)))
def test_wrong_uses(number: int, is_traced: bool) -> None:
    function, error, message = (WRONG + COMPUTED)[number]
    if not is_traced and number >= len(WRONG):
        function(graphls.Tensor(np.ones((2, 3), np.float32)))
        return
    x = graphls.Tensor(np.ones((2, 3), np.float32))
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, x, backend="numpy") if is_traced else function(x)
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_arrays.py")
