"""`x[index] = value` inside of cells and outside, and what shares a tensor with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.ops.agree import BACKENDS, agree
from tests.ops.slopes import assert_slopes

F32 = np.float32
X = np.arange(12, dtype=F32).reshape(3, 4)


def assigned(x: Any, index: Any, value: Any) -> Any:
    x = x * 1
    x[index] = value
    return x


CASES: list[Any] = [
    (0, 5.0), ((1, -1), -1.0), (slice(None, None, -2), np.arange(4, dtype=F32)), (..., 2.0), ((), 3.0),
    ((slice(1, 3), slice(0, 4, 3)), np.array([[1], [2]], F32)), ([2, 2, 0], np.arange(12, dtype=F32).reshape(3, 4)),
    (X > 5, 0.0), (X[:, 0] > 2, np.array([[1], [2]], F32)), ((slice(None), [1, 1]), np.array([7, 8], F32)),
    ((None, 1), np.ones((1, 4), F32)), ((1, None, slice(2)), np.ones((1, 1, 1, 2), F32)), (slice(2, 2), 4.0),
    (([0, 1], [1, 2]), np.array([1, 2], np.int64)), (1, np.arange(4)), ([], 1.0), (slice(None), X[::-1]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_assignments_are_those_of_numpy(number: int, dtype: Any) -> None:
    index, value = CASES[number]
    x = X.astype(dtype)
    agree(lambda x: assigned(x, index, value), assigned(x, index, value), x)
    if isinstance(value, np.ndarray):
        agree(lambda x, v: assigned(x, index, v), assigned(x, index, value), x, value)
        if value.dtype == F32 and dtype == np.float32:
            assert_slopes(lambda x, v: assigned(x, index, v), x, value)


def test_values_are_cast_to_the_dtype_of_the_tensor() -> None:
    integers = graphls.Tensor([1, 2, 3])
    integers[1] = 7.9
    assert integers.tolist() == [1, 7, 3] and integers.dtype is graphls.int64
    bools = graphls.Tensor([True, True])
    bools[0] = 0
    assert bools.tolist() == [False, True]


def test_what_a_tensor_was_made_of_does_not_change() -> None:
    array = X.copy()
    tensor = graphls.Tensor(array)
    row = tensor[0]
    tensor[0] = 9
    assert array[0, 0] == 0 and row.tolist() == [0, 1, 2, 3] and tensor[0].tolist() == [9] * 4


def test_results_of_functions_that_change_nothing_are_tensors_of_their_own() -> None:
    functions: list[Any] = [lambda x: ops.reshape(x, x.shape), ops.squeeze, ops.atleast_1d, lambda x: ops.pad(x, ())]
    for function in functions:

        def changed(x: Any, function: Any = function) -> Any:
            y = function(x)
            y[0] = 9
            return x, y

        agree(lambda x, f=changed: f(x * 1), (X, np.concatenate((X[:1] * 0 + 9, X[1:]))), X)
        parameter = graphls.Parameter(X)
        assert changed(parameter)[0].tolist() == X.tolist()


def test_a_computed_mask_takes_one_value() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y[y > 6] = 0
        y[ops.sum(x, 1) > 8] = ops.ones(4)
        return y

    y = X * 2
    y[y > 6] = 0
    y[X.sum(1) > 8] = 1
    agree(function, y, X)


def test_augmented_assignment() -> None:
    def function(x: Any, i: Any) -> Any:
        y = x * 1
        y[i] += 1
        y[:, 0] *= y[:, 1]
        return y

    y = X.copy()
    y[[2, 2]] += 1
    y[:, 0] *= y[:, 1]
    agree(function, y, X, np.array([2, 2]))


class Zeroing(nn.Cell):
    """Changes its input, and more of it where a condition holds."""

    def construct(self, x: Any, flag: Any) -> Any:
        x[0] = 0
        if flag:
            x[1] = x[0] + 1
        x[2] += 1
        return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("flag", [True, False])
def test_both_answers_of_a_condition_begin_with_the_same_elements(backend: str, flag: bool) -> None:
    inner = Zeroing()

    def outer(x: Any, flag: Any) -> Any:
        y = x + 1
        z = inner(y, flag)
        if ops.sum(x) > 0:
            z[3] = 5
        return x, y, z

    x = np.arange(1, 5, dtype=F32)
    found = graphls.compile(outer, x, np.array(flag), backend=backend)(x, np.array(flag))
    assert [t.tolist() for t in found] == [[1, 2, 3, 4], [2, 3, 4, 5], [0, 1 if flag else 3, 5, 5]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cell_that_is_called_again_after_a_condition_gives_what_it_gave(backend: str) -> None:
    class Doubling(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2

    inner = Doubling()

    def outer(x: Any) -> Any:
        y = inner(x)
        y[0] += 100
        if ops.sum(y) > 0:
            y[1] = -1
        return y

    x = np.ones(3, F32)
    assert graphls.compile(outer, x, backend=backend)(x).tolist() == [102, -1, 2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("flag", [True, False])
def test_the_input_of_a_step_is_the_same_for_both_answers(backend: str, flag: bool) -> None:
    def function(x: Any, flag: Any) -> Any:
        if flag:
            x[1] = 9
        x[0] += 1
        return x

    x = np.ones(2, F32)
    found = graphls.compile(function, x, np.array(flag), backend=backend)(x, np.array(flag))
    assert found.tolist() == [2, 9 if flag else 1] and x.tolist() == [1, 1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("flag", [True, False])
def test_a_cell_with_a_gradient_of_its_own_may_assign(backend: str, flag: bool) -> None:
    class Custom(nn.Cell):
        def construct(self, x: Any, flag: Any) -> Any:
            x[0] = 0
            return x * 2

        def bprop(self, x: Any, flag: Any, out: Any, dout: Any) -> Any:
            x[1] += 1
            if ops.sum(ops.cast(flag, graphls.int32)) > 0:
                dout[0] = 7
            return x + dout, flag

    cell, x = Custom(), np.array([1, 2], F32)
    function = lambda x, flag: (ops.grad(cell)(x, flag), x)  # noqa: E731
    found = graphls.compile(function, x, np.array(flag), backend=backend)(x, np.array(flag))
    assert [t.tolist() for t in found] == [[8 if flag else 2, 4], [1, 2]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_of_a_function_that_assigns_to_its_input(backend: str) -> None:
    def square(x: Any) -> Any:
        x[0] = 0
        return x * x

    def function(x: Any) -> Any:
        value, gradient = ops.value_and_grad(square)(x)
        return value, gradient, x

    x = np.array([1, 2], F32)
    found = [t.tolist() for t in graphls.compile(function, x, backend=backend)(x)]
    assert found == [[0, 4], [0, 4], [1, 2]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_is_that_of_the_call_as_it_was(backend: str) -> None:
    class Square(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = graphls.Parameter(np.array([3.0, 4.0], F32), name="weight")

        def construct(self, x: Any) -> Any:
            return x * x * self.weight

    cell = Square()

    def step(x: Any) -> Any:
        y = cell(x)
        y[0] = 0
        first = ops.grad(cell)(x)
        x[1] = 10
        second = ops.grad(cell)(x)
        value, third = ops.value_and_grad(cell)(x)
        value[0] = -1
        return y, first, second, value, third, ops.value_and_grad(cell)(x)[0]

    x = np.array([1, 2], F32)
    found = [t.tolist() for t in graphls.compile(step, x, backend=backend)(x)]
    assert found == [[0, 16], [6, 16], [6, 80], [-1, 400], [6, 80], [3, 400]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_of_a_parameter_are_written(backend: str) -> None:
    class Table(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = graphls.Parameter(np.zeros((3, 2), F32), name="table")

        def construct(self, i: Any, rows: Any) -> Any:
            self.table[i] = rows
            ops.depend(self.table, rows)[0, 0] = 7
            return self.table + 0

    cell, i, rows = Table(), np.array([2, 0]), np.array([[1, 2], [3, 4]], F32)
    found = graphls.compile(cell, i, rows, backend=backend)(i, rows)
    assert found.tolist() == cell.table.tolist() == [[7, 4], [0, 0], [1, 2]]
    cell.table[1] = 5
    assert cell.table.tolist() == [[7, 4], [5, 5], [1, 2]]


WRONG: list[Any] = [
    (lambda x: assigned(x, 3, 1), IndexError, "The index 3 is out of range for an axis of size 3"),
    (lambda x: assigned(x, [0, 3], 1), IndexError, "3 is out of range"),
    (lambda x: assigned(x, 0, [1, 2, 3]), ValueError, r"shape \(3,\) does not fit elements of shape \(4,\)"),
    (lambda x: assigned(x, [0, 1], np.ones((3, 4))), ValueError, r"does not fit elements of shape \(2, 4\)"),
    (lambda x: assigned(x, (0, 0, 0), 1), IndexError, "takes no 3 indices"),
    (lambda x: assigned(x, "a", 1), TypeError, "A tensor is indexed by"),
    (lambda x: assigned(x, 0, "a"), TypeError, "made of numbers"),
]


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_assignments(number: int, is_traced: bool) -> None:
    function, error, message = WRONG[number]
    x = graphls.Tensor(X)
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, x, backend="numpy") if is_traced else function(x)
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_assignment.py")


def test_what_a_trace_cannot_do() -> None:
    known = graphls.Tensor(X)

    def function(x: Any) -> Any:
        known[0] = x[0]
        return known

    def masked(x: Any) -> Any:
        return assigned(x, x > 5, np.ones(6, F32))

    with pytest.raises(graphls.GraphlsError, match=r"use ops.setitem\(tensor, index, value\)"):
        graphls.compile(function, X, backend="numpy")
    with pytest.raises(TypeError, match="Where the graph computes a mask"):
        graphls.compile(masked, X, backend="numpy")
    agree(lambda x: ops.setitem(known, 0, x[1]), np.stack((X[1], X[1], X[2])), X)
    assert known.tolist() == X.tolist()


def test_an_index_outside_is_an_error_when_the_step_runs() -> None:
    for backend in BACKENDS:
        for function in (lambda x, i: x[i, i], lambda x, i: assigned(x, i, 1.0), lambda x, i: assigned(x, (i, i), 1.0)):
            step = graphls.compile(function, X, np.array([0]), backend=backend)
            step(X, np.array([-3]))
            for outside in (3, -4):
                with pytest.raises(Exception, match=r"out of|[Ii]ndex"):
                    step(X, np.array([outside]))
