"""Elements joined by index, against plain NumPy loops: repeated indices, every dtype, gradients, parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.ops.agree import BACKENDS, agree
from tests.ops.slopes import assert_slopes

F32 = np.float32
RANDOM = np.random.default_rng(2)
X = RANDOM.uniform(0.5, 2, (3, 4)).astype(F32)


def put(array: Any, place: Any, value: Any) -> None:
    array[place] = value


def update_with(ufunc: Any) -> Any:
    def update(array: Any, place: Any, value: Any) -> None:
        array[place] = ufunc(array[place], value)

    return update


JOINS: dict[str, Any] = {
    "update": put, "add": update_with(np.add), "sub": update_with(np.subtract), "mul": update_with(np.multiply),
    "div": update_with(lambda a, b: np.trunc(a / b).astype(a.dtype) if a.dtype.kind == "i" else a / b),
    "max": update_with(np.maximum), "min": update_with(np.minimum),
}  # fmt: skip


def by_coordinates(join: Any, x: Any, indices: Any, updates: Any) -> Any:
    x = x.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        join(x, tuple(indices[place]), updates[place])
    return x


def by_elements(join: Any, x: Any, indices: Any, updates: Any, axis: int) -> Any:
    x = x.copy()
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = indices[place]
        join(x, tuple(target), updates[place])
    return x


COORDINATES: list[Any] = [
    np.array([[0], [2], [0], [0]]), np.array([[0, 1], [-1, 3], [0, 1]], np.int32), np.array([[[1], [1]], [[0], [-2]]]),
    np.zeros((0, 2), np.int64), np.zeros((0, 1), np.int64), np.array([2]),
]  # fmt: skip


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("number", range(len(COORDINATES)))
def test_tensors_by_coordinates(name: str, number: int) -> None:
    indices = COORDINATES[number]
    updates = RANDOM.uniform(0.5, 2, (*indices.shape[:-1], *X.shape[indices.shape[-1] :])).astype(F32)
    function = getattr(ops, f"tensor_scatter_{name}")
    agree(lambda x, u: function(x, indices, u), by_coordinates(JOINS[name], X, indices, updates), X, updates, rtol=1e-5)
    agree(function, by_coordinates(JOINS[name], X, indices, updates), X, indices, updates, rtol=1e-5)
    assert_slopes(lambda x, u: function(x, indices, u), X, updates)
    whole, steps = (X * 9).astype(np.int32), np.maximum(updates * 3, 1).astype(np.int32)
    agree(lambda x, u: function(x, indices, u), by_coordinates(JOINS[name], whole, indices, steps), whole, steps)
    halves = [a.astype(np.float16) for a in (X, updates)]
    expected = by_coordinates(JOINS[name], halves[0], indices, halves[1])
    agree(lambda x, u: function(x, indices, u), expected, *halves, rtol=1e-2, atol=1e-2)
    assert function(halves[0], indices, halves[1]).dtype is graphls.float16


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3), (0, 4)])
def test_tensors_by_elements(name: str, axis: int, shape: Any) -> None:
    reduction = "none" if name == "update" else name
    if shape[1 - axis % 2] > X.shape[1 - axis % 2]:
        shape = shape[::-1]
    indices = RANDOM.integers(-X.shape[axis], X.shape[axis], shape)
    updates = RANDOM.uniform(0.5, 2, shape).astype(F32)
    expected = by_elements(JOINS[name], X, indices, updates, axis)
    function = ops.TensorScatterElements(axis, reduction)
    agree(lambda *operands: function(*operands), expected, X, indices, updates, rtol=1e-5)
    assert_slopes(lambda x, u: function(x, indices, u), X, updates)


def test_scatter() -> None:
    indices = np.array([[0, 3, 3], [1, 0, 2]])
    source = np.arange(6, dtype=F32).reshape(2, 3)
    agree(lambda x, s: ops.scatter(x, 1, indices, s), by_elements(put, X, indices, source, 1), X, source)
    agree(lambda x: ops.scatter(x, 1, indices, 9.0), by_elements(put, X, indices, source * 0 + 9, 1), X)


def test_what_is_scattered_into_zeros() -> None:
    indices, updates = np.array([[1], [3], [1]]), RANDOM.normal(size=(3, 2)).astype(F32)
    expected = by_coordinates(JOINS["add"], np.zeros((4, 2), F32), indices, updates)
    agree(lambda i, u: ops.scatter_nd(i, u, (4, 2)), expected, indices, updates)
    assert_slopes(lambda u: ops.scatter_nd(indices, u, (4, 2)), updates)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_index_add(axis: int) -> None:
    indices = np.array([2, 0, 2])
    y = RANDOM.normal(size=tuple(3 if i == axis % 2 else n for i, n in enumerate(X.shape))).astype(F32)
    expected = X.copy()
    np.add.at(expected, (slice(None),) * (axis % 2) + (indices,), y)
    agree(lambda x, i, y: ops.index_add(x, i, y, axis), expected, X, indices, y)
    assert_slopes(lambda x, y: ops.index_add(x, indices, y, axis), X, y)


NAMES = [f"{family}_{name}" for family in ("scatter", "scatter_nd") for name in JOINS]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_written(name: str, backend: str) -> None:
    class Writer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = graphls.Parameter(X, name="table")

        def construct(self, indices: Any, updates: Any) -> Any:
            return getattr(ops, name)(self.table, indices, updates)

    by_nd = name.startswith("scatter_nd")
    indices = np.array([[0, 1], [2, 3], [0, 1]] if by_nd else [2, 0, 2])
    updates = RANDOM.uniform(0.5, 2, (3,) if by_nd else (3, 4)).astype(F32)
    expected = by_coordinates(JOINS[name.rsplit("_", 1)[1]], X, indices if by_nd else indices[:, None], updates)
    cell = Writer()
    found = graphls.compile(cell, indices, updates, backend=backend)(indices, updates)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5)
    np.testing.assert_array_equal(cell.table.asnumpy(), found.asnumpy())
    parameter = graphls.Parameter(X)
    getattr(ops, name)(parameter, indices, updates)
    np.testing.assert_allclose(parameter.asnumpy(), expected, rtol=1e-5)


def test_index_add_writes_a_parameter() -> None:
    parameter = graphls.Parameter(np.zeros((3, 2), F32))
    ops.index_add(parameter, np.array([1, 1]), np.ones((2, 2), F32), 0)
    assert parameter.tolist() == [[0, 0], [2, 2], [0, 0]]


def test_nans_are_not_lost_in_extremes() -> None:
    x, indices = np.array([1, np.nan, 3, 4], F32), np.array([[0], [2], [2]])
    updates = np.array([np.nan, 5, np.nan], F32)
    agree(ops.tensor_scatter_max, np.array([np.nan, np.nan, np.nan, 4], F32), x, indices, updates)
    agree(ops.tensor_scatter_min, np.array([np.nan, np.nan, np.nan, 4], F32), x, indices, updates)


def test_equal_elements_share_the_gradient_of_an_extreme() -> None:
    def function(x: Any, u: Any) -> Any:
        return ops.sum(ops.tensor_scatter_max(x, np.array([[0], [0], [1]]), u))

    gradients = graphls.compile(ops.grad(function, (0, 1)), np.array([2.0, 1]), np.array([2.0, 2, 0]), backend="numpy")
    found = gradients(np.array([2.0, 1]), np.array([2.0, 2, 0]))
    np.testing.assert_allclose(found[0].asnumpy(), [1 / 3, 1])
    np.testing.assert_allclose(found[1].asnumpy(), [1 / 3, 1 / 3, 0])


def test_a_product_has_a_gradient_where_updates_are_zero() -> None:
    def function(x: Any, u: Any) -> Any:
        return ops.sum(ops.tensor_scatter_mul(x, np.array([[0], [0], [1], [1]]), u))

    x, u = np.array([2.0, 3]), np.array([0.0, 4, 0, 0])
    found = graphls.compile(ops.grad(function, (0, 1)), x, u, backend="numpy")(x, u)
    assert [g.tolist() for g in found] == [[0, 0], [8, 0, 0, 0]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_of_an_embedding_with_one_index_is_the_same_every_time(backend: str) -> None:
    count, runs = 20_000, 10
    indices, slopes = np.full(count, 3), RANDOM.normal(size=(count, 2)).astype(F32)

    def function(table: Any, i: Any, slopes: Any) -> Any:
        return ops.grad(lambda t: ops.sum(t[i] * slopes))(table)

    table = np.zeros((5, 2), F32)
    step = graphls.compile(function, table, indices, slopes, backend=backend)
    first = step(table, indices, slopes).asnumpy()
    np.testing.assert_allclose(first[3], slopes.sum(0, dtype=np.float64), rtol=1e-3, atol=1e-2)
    assert all(step(table, indices, slopes).asnumpy().tobytes() == first.tobytes() for _ in range(runs))


I32 = np.array([[0], [1]])
WRONG: list[Any] = [
    (lambda x: ops.tensor_scatter_add(x, I32, ops.ones((2, 3))), ValueError, r"shape \(2, 4\), not f32\[2,3\]"),
    (lambda x: ops.tensor_scatter_update(x, [[3]], ops.ones((1, 4))), IndexError, "3 is out of range for an axis of"),
    (lambda x: ops.tensor_scatter_max(x, np.zeros((2, 3), int), x), ValueError, "one to 2 coordinates"),
    (lambda x: ops.tensor_scatter_add(x, [[0.5]], ops.ones((1, 4))), TypeError, "indices that are integers"),
    (lambda x: ops.gather_nd(x, x > 1), TypeError, "indices that are integers"),
    (lambda x: ops.tensor_scatter_add(x > 0, [[0]], ops.ones((1, 4)) > 0), TypeError, "Only numbers"),
    (lambda x: ops.tensor_scatter_max(x > 0, [[0]], ops.ones((1, 4)) > 0), TypeError, "takes numbers"),
    (lambda x: ops.scatter_nd(I32, ops.ones((2, 3)), (2, 4)), ValueError, "updates of shape"),
    (lambda x: ops.tensor_scatter_elements(x, I32, ops.ones((2, 2))), ValueError, "do not fit"),
    (lambda x: ops.tensor_scatter_elements(x, [[9]], [[1.0]]), IndexError, "9 is out of range"),
    (lambda x: ops.tensor_scatter_elements(x, [[9, 0, 0, 0, 0]], ops.ones((1, 5))), ValueError, "do not fit"),
    (lambda x: ops.tensor_scatter_elements(x, I32, ops.ones((2, 1)), 0, "mean"), ValueError, "not 'mean'"),
    (lambda x: ops.index_add(x, [0], ops.ones((2, 4)), 0), ValueError, r"takes \(1, 4\)"),
    (lambda x: ops.index_add(x, [0], ops.ones((1, 4), graphls.float16), 0), TypeError, "one dtype"),
    (lambda x: ops.index_add(x, [4], ops.ones((3, 1)), 1), IndexError, "4 is out of range"),
    (lambda x: ops.index_fill(x, 0, [5], 1.0), IndexError, "5 is out of range"),
    (lambda x: ops.scatter_add(3, [0], ops.ones((1, 4))), TypeError, "Parameter to write to"),
]  # fmt: skip


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int, is_traced: bool) -> None:
    function, error, message = WRONG[number]
    x = graphls.Tensor(X)
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, x, backend="numpy") if is_traced else function(x)
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_scattering.py")
