"""`if` statements and expressions on tensors: joined right behind themselves, whatever their branches do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.trace.rewriting.agree import BACKENDS, assert_agrees, compiled, count, tensor

F32 = np.float32
SIGNS = [(3.0,), (0.5,), (-0.5,), (-7.0,)]


def one_of_four(x: Any) -> Any:
    if x > 1:
        y = x * 2
    elif x > 0:
        y = x * 20
    elif x > -1:
        y = x * 200
    else:
        y = x * 2000
    return y + 1


def early_returns(x: Any) -> Any:
    if x > 1:
        return x
    if x > 0:
        return x * 10
    y = x + 1
    if y > 0:
        return y * 100
    return y * 1000


def early_return_from_within(x: Any) -> Any:
    y = x * 3
    if x > 0:
        if x > 1:
            return y
        y = y + 1
    else:
        y = y - 1
    return y * 2


def one_sided(x: Any) -> Any:
    y = x
    if x > 0:
        y = y + 5
        y *= 2
    return y


def nothing_but_pass(x: Any) -> Any:
    if x > 0:
        pass
    else:
        x = -x
    return x


def several_names(x: Any) -> Any:
    a, b = x, 2.0
    if x > 0:
        a, b = b, a
    elif not x > -1:
        (a, c), b = (b, a), 7.0
        a = a + c
    return a, b


def expressions(x: Any) -> Any:
    return (x if x > 1 else x * 2) if 0 < x < 2 else (1.0 if not x > -1 else x - 1)


def logic(x: Any) -> Any:
    y, yes, no = 0.0, True, False
    if x > 1 and x < 4:
        y = y + 1
    if x > 1 or x < -1:
        y = y + 10
    if not (x > 0) and (x < -1 or x > -0.75) and yes:
        y = y + 100
    if (x > 0 and no) or (x > 2 or no):
        y = y + 1000
    return y


def correlated(x: Any) -> Any:
    positive = x > 0
    if positive:
        y = x * 2
    else:
        z = x - 1
    x = x + 1
    if positive:
        return y + x
    return z - x


def closures(x: Any) -> Any:
    total = x

    def add(value: Any) -> None:
        nonlocal total
        if value > 0:
            total = total + value

    def later() -> Any:
        return total * 2

    if x > 0:
        add(x)
        add(-x)
    else:
        add(-x)
    return later()


def lists(x: Any) -> Any:
    items, table = [x], {"a": x}
    if x > 0:
        items.append(x * 2)
        table["a"] = x * 3
    else:
        items.append(x - 1)
    if x > 1:
        items[0], table["b"] = items[1], x
    else:
        table["b"] = -x
    return items[0] + items[1], table["a"], table["b"]


def names_deleted(x: Any) -> Any:
    y = x
    if x > 0:
        z = y * 2
        del y
    else:
        z = y
        del y
    y = z
    return y


def inner_functions(x: Any) -> Any:
    def choose(a: Any) -> Any:
        if a > 0:
            return a * 2
        return a - 1

    return choose(x) + (lambda b: b if b > 0 else -b)(x - 1)


def comprehensions(x: Any) -> Any:
    return sum([x * i if x > i else x - i for i in range(3)], 0.0)


def with_and_try(x: Any) -> Any:
    import contextlib

    with contextlib.nullcontext():
        if x > 1:
            return x
        try:
            if x > 0:
                return x * 10
            y = x
        except ValueError:
            return x * 100
        else:
            y = y - 1
        finally:
            x = x + 1
    return y + x


def matched(x: Any) -> Any:
    match (1, 2):
        case (1, y) if y > 1:
            if x > 0:
                return x
        case _:
            return x * 50
    return x * y


def other_objects(x: Any) -> Any:
    kind = "up" if x > 0 else "down"
    return {"up": x * x, "down": x * 5}[kind]


def objects_of_branches(x: Any) -> Any:
    if x > 1:
        kind = "up"
    else:
        kind = "down" if x > 0 else "level"
    return x if kind == "up" else {"down": -x, "level": x * 3}[kind]


FORMS = [
    one_of_four, early_returns, early_return_from_within, one_sided, nothing_but_pass, several_names, expressions,
    logic, correlated, closures, lists, names_deleted, inner_functions, comprehensions, with_and_try, matched,
    other_objects, objects_of_branches,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_form(form: Any, backend: str) -> None:
    assert_agrees(form, SIGNS, backend)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_the_gradient_of_a_form(form: Any) -> None:
    def total(x: Any) -> Any:
        results = form(x)
        return sum(r * 1.0 for r in (results if isinstance(results, tuple) else (results,)))

    step = compiled(graphls.grad(lambda x: total(x) + x * 0), SIGNS[0])
    for (x,) in SIGNS:
        slope = (total(x + 1e-6) - total(x - 1e-6)) / 2e-6
        np.testing.assert_allclose(float(step(tensor(x))), slope, rtol=1e-3, atol=1e-3)


def test_conditions_in_a_row_do_not_multiply() -> None:
    def many(x: Any) -> Any:
        for i in range(40):
            if x > i:
                x = x - 1.5
        return x

    step = assert_agrees(many, [(30.0,), (-1.0,), (7.5,)])
    assert count(step, "cond") == 40 and len(step.graph.nodes) < 200


def test_returns_in_a_row_do_not_multiply() -> None:
    def many(x: Any) -> Any:
        if x > 7:
            return x * 7
        if x > 6:
            return x * 6
        if x > 5:
            return x * 5
        if x > 4:
            return x * 4
        if x > 3:
            return x * 3
        if x > 2:
            return x * 2
        if x > 1:
            return x + 1
        return x

    step = assert_agrees(many, [(float(i) + 0.5,) for i in range(9)])
    assert count(step, "cond") == 7 and count(step, "mul") == 6


class Stateful(nn.Cell):
    """Writes parameters in branches, through attributes and a helper method that calls itself no other way."""

    def __init__(self) -> None:
        super().__init__()
        self.up = graphls.Parameter(np.zeros((), F32), name="up")
        self.rows = graphls.Parameter(np.zeros(2, F32), name="rows")
        self.__private = 10.0

    def helper(self, x: Any) -> Any:
        if x > 0:
            self.up += x
            self.rows[0] = x
            return x * self.__private
        self.up = self.up - 1
        return x

    def construct(self, x: Any) -> Any:
        y = self.helper(x)
        if y > 20:
            y = y + self.up
        return y, self.up


class Derived(Stateful):
    def construct(self, x: Any) -> Any:
        if x > 100:
            return x, x
        return super().construct(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Stateful, Derived])
def test_parameters_and_helper_methods(kind: Any, backend: str) -> None:
    cell = kind()
    step = graphls.compile(cell, F32(0), backend=backend)
    assert [float(v) for v in step(F32(1))] == [10, 1]
    assert [float(v) for v in step(F32(-3))] == [-3, 0]
    assert [float(v) for v in step(F32(5))] == [55, 5]
    assert cell.rows.asnumpy().tolist() == [5, 0]


def test_assigned_elements() -> None:
    def assigned(x: Any) -> Any:
        y = ops.zeros(3, graphls.float32) + x
        same = y
        if x > 0:
            y[0] = x * 2
            y[1] += 1
        else:
            y[2] = 5.0
        return same

    step = graphls.compile(assigned, F32(1), backend="numpy")
    assert step(F32(2)).asnumpy().tolist() == [4, 3, 2]
    assert step(F32(-2)).asnumpy().tolist() == [-2, -2, 5]


@pytest.mark.parametrize("backend", BACKENDS)
def test_cells_and_tuples_by_the_number_that_the_graph_computes(backend: str) -> None:
    class Choice(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.cells_ = nn.CellList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])
            self.rates = (0.5, 1.0, 2.0)

        def construct(self, x: Any, i: Any) -> Any:
            pairs = [(x, x + 1), (x * 2, x + 2), (x * 3, x + 3)]
            a, b = pairs[i]
            return self.cells_[i](x), self.rates[i], a, b

    step = graphls.compile(Choice(), F32(0), np.int64(0), backend=backend)
    for i in (0, 1, 2, -1, -3):
        x = 0.7
        cell = [max(x, 0), np.tanh(x), 1 / (1 + np.exp(-x))][i]
        wanted = cell, (0.5, 1, 2)[i], x * range(1, 4)[i], x + range(1, 4)[i]
        np.testing.assert_allclose([float(v) for v in step(F32(x), np.int64(i))], wanted, rtol=1e-6)


def test_a_jump_in_a_plain_condition() -> None:
    def plain(x: Any, n: Any) -> Any:
        for item in (1, None, "text", 4):
            if item is None:
                continue
            if isinstance(item, str):
                if x > n:
                    continue
                x = x * 10
                continue
            x = x + item
        return x

    assert_agrees(plain, [(1.0, 0), (1.0, 5)])


def test_python_conditions_leave_no_trace() -> None:
    def plain(x: Any, flag: Any, items: Any) -> Any:
        if flag and x.ndim == 0:
            y = x
        for item in items:
            if item == 2:
                continue
            if item > 3:
                break
            y = y + item
        else:
            y = y * 100
        while len(items) > 9:
            y = y - 1
        return y

    step = graphls.compile(plain, F32(1), True, (1, 2, 3, 4, 5), backend="numpy")
    assert float(step(F32(1), True, (1, 2, 3, 4, 5))) == 5
    assert {n.primitive.name for n in step.graph.nodes} <= {"add", "constant"}


def test_an_update_under_a_flag_is_one_condition_and_nothing_else() -> None:
    class Guarded(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = graphls.Parameter(np.ones(2, F32), name="weight")
            self.scale = graphls.Parameter(np.ones((), F32), name="scale")

        def construct(self, x: Any, overflow: Any) -> Any:
            loss = ops.sum(x * self.weight)
            scale = ops.depend(self.scale, loss)
            if not overflow:
                loss = ops.depend(loss, ops.assign(self.weight, self.weight - x))
            return loss, overflow, scale

    step = graphls.compile(Guarded(), np.ones(2, F32), np.array(False), backend="numpy")
    names = [node.primitive.name for node in step.graph.nodes]
    assert sorted(names) == ["cond", "mul", "sum"]
    assert [float(v) for v in step(np.ones(2, F32), np.array(True))] == [2, 1, 1]
    assert [float(step(np.ones(2, F32), np.array(False))[0]) for _ in range(2)] == [2, 0]
