"""`while` and `for` whose number of times the graph computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.trace.rewriting.agree import BACKENDS, assert_agrees, count

F32 = np.float32
CASES = [(1.0, 0), (1.0, 1), (2.5, 4), (-3.0, 9), (20.0, 12)]


def counted(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        x = x + i
        i += 1
    return x, i


def ranged(x: Any, n: Any) -> Any:
    for i in range(n):
        x = x * 0.5 + i
    for i in range(1, n + 2, 2):
        x += i
    for i in range(n, 0, -1):
        x = x - i * 0.25
    return x


def ranged_by_a_step(x: Any, n: Any) -> Any:
    step = n - 20
    for i in range(10, -30, step):
        x = x + i
    return x


def broken(x: Any, n: Any) -> Any:
    i = 0
    while True:
        if i >= n:
            break
        x = x + 1
        if x > 5:
            x = x * 2
            break
        i = i + 1
    else:
        x = x * 0
    return x, i


def continued(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        i = i + 1
        if i == 2:
            continue
        x = x - i
        if x < 0:
            continue
        x = x * 0.5
    return x


def with_else(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        if x + i > 8:
            break
        i += 1
    else:
        x = x - 100
    for j in range(n):
        if x + j > 4:
            break
    else:
        x = x + 0.125
    return x, i


def returning(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        if x + i > 7:
            return x * 1000
        for j in range(i):
            if x - j < -6:
                return x - j
        i += 1
    return x


def nested(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        j = 0
        while j < i:
            if j == 3:
                break
            x = x + j * 0.5
            j += 1
        if x > 30:
            break
        i += 1
    return x, i


def static_with_a_break(x: Any, n: Any) -> Any:
    last = -1
    for i in range(6):
        if i == 1:
            continue
        if x > i * n:
            break
        x = x + 1
        last = i
    else:
        x = x - 50
    return x, last, i


def static_with_a_return(x: Any, n: Any) -> Any:
    for i in range(4):
        if x > i + n:
            return x * i
    return x - n


def numbers_become_tensors(x: Any, n: Any) -> Any:
    total, done, scale = 0, False, 1
    while not done:
        total = total + x
        scale = scale * 0.5
        n = n - 1
        done = n < 0
    return total, scale


def tuples_and_lists(x: Any, n: Any) -> Any:
    pair, items = (x, 1.0), [x, x + 1, "text"]
    while pair[1] < n:
        pair = (pair[0] + items[1], pair[1] + 1)
        items[0] = items[0] * 0.5
    return pair[0], items[0]


def temporaries(x: Any, n: Any) -> Any:
    t = "text"
    while n > 0:
        t = x * 2
        if t > 10:
            u = t - 1
        else:
            u = t + 1
        x = u * 0.5
        n = n - 1
    return x


def in_a_branch(x: Any, n: Any) -> Any:
    if x > 0:
        while n > 0:
            x = x + 1
            n = n - 2
    else:
        for i in range(n):
            if x < -5 and i > 1:
                break
            x = x - i
    return x, n


def stays_constant(x: Any, n: Any) -> Any:
    k, axis = 3, 0
    while n > 0:
        k = 3
        axis = 0
        x = x + k + axis
        n -= 1
    return x


def by_function(x: Any, n: Any) -> Any:
    def once(a: Any, b: Any) -> Any:
        while b > 0:
            a, b = a + b, b - 1
        return a

    return once(x, n) + once(once(x, 2), n)


FORMS = [
    counted, ranged, ranged_by_a_step, broken, continued, with_else, returning, nested, static_with_a_break,
    static_with_a_return, numbers_become_tensors, tuples_and_lists, temporaries, in_a_branch, stays_constant,
    by_function,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_form(form: Any, backend: str) -> None:
    assert_agrees(form, CASES, backend)


def test_a_loop_is_one_node() -> None:
    step = assert_agrees(counted, CASES)
    assert count(step, "while_loop") == 1 and len(step.graph.nodes) < 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_are_carried(backend: str) -> None:
    class Steps(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.total = graphls.Parameter(np.zeros((), F32), name="total")
            self.rows = graphls.Parameter(np.zeros(3, F32), name="rows")

        def construct(self, x: Any, n: Any) -> Any:
            i = 0
            while i < n:
                self.total += x
                if self.total > 4:
                    self.rows[1] = self.total
                i += 1
            return self.total * 1

    cell = Steps()
    step = graphls.compile(cell, F32(1), np.int64(0), backend=backend)
    assert float(step(F32(2), np.int64(1))) == 2
    assert float(step(F32(2), np.int64(3))) == 8
    assert cell.rows.asnumpy().tolist() == [0, 8, 0]


def test_elements_are_assigned() -> None:
    def filled(x: Any, n: Any) -> Any:
        y = ops.zeros(5, graphls.float32) + x
        for i in range(n):
            y[i] = y[i] * i
        return y

    step = graphls.compile(filled, F32(1), np.int64(0), backend="numpy")
    assert step(F32(2), np.int64(3)).asnumpy().tolist() == [0, 2, 4, 2, 2]
    assert step(F32(2), np.int64(0)).asnumpy().tolist() == [2] * 5


def test_rows_of_a_tensor_are_plain_python() -> None:
    def rows(x: Any) -> Any:
        total = ops.zeros((), graphls.float32)
        for row in x:
            if ops.sum(row) > 0:
                continue
            total = total + ops.amax(row)
        return total

    x = np.array([[1, 2], [-3, 1], [-1, -5], [4, 4]], F32)
    step = graphls.compile(rows, x, backend="numpy")
    assert float(step(x)) == 0 and count(step, "while_loop") == 0


def test_under_jit_and_in_a_cell() -> None:
    @graphls.jit
    def halved(x: Any) -> Any:
        while x > 1:
            x = x / 2
        return x

    class Uses(nn.Cell):
        def construct(self, x: Any) -> Any:
            return halved(x) + 1

    assert float(halved(graphls.Tensor(F32(12)))) == 0.75
    assert float(Uses()(graphls.Tensor(F32(12)))) == 1.75
