"""cond, scan, while_loop and fori_loop: the same in a graph, on both backends, as in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.graph import walk

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
X = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(F32)


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy() if hasattr(wanted, "asnumpy") else wanted, rtol=1e-5)


def primitives(step: Any) -> list[str]:
    return [node.primitive.name for node in walk(step.graph)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond_takes_the_branch_that_is_asked_for(backend: str) -> None:
    def f(flag: Any, x: Any) -> Any:
        return ops.cond(flag, lambda a: (ops.exp(a), a), lambda a: (a * 2, a + 1), x)

    step = graphls.compile(f, np.array(True), X, backend=backend)
    assert primitives(step).count("cond") == 1
    for flag in (True, False):
        for found, wanted in zip(step(np.array(flag), X), f(flag, graphls.Tensor(X)), strict=True):
            close(found, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond_joins_where_it_stands(backend: str) -> None:
    """Ten conditions in a row are ten nodes, and not a thousand paths; each may write a parameter."""
    count = graphls.Parameter(np.zeros((), F32), name="count")

    def f(x: Any) -> Any:
        for i in range(10):
            x = ops.cond(ops.sum(x) > i, lambda a: ops.assign_add(count, 1.0) + a, lambda a: a * 1.5, x)
        return x

    step = graphls.compile(f, X[0], backend=backend)
    wanted, expected_count = X[0] * 2, 0
    for i in range(10):
        if wanted.sum() > i:
            expected_count += 1
            wanted = wanted + expected_count
        else:
            wanted = wanted * F32(1.5)
    close(step(X[0] * 2), wanted)
    assert count.asnumpy() == expected_count and primitives(step).count("cond") <= 10


def cumulate(carry: Any, x: Any) -> Any:
    total, number = carry
    total = total * 0.5 + x
    return (total, number + 1), {"total": total, "twice": (x * 2, number)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_a_python_loop(backend: str, reverse: bool) -> None:
    def f(x: Any, unroll: bool = False) -> Any:
        return ops.scan(cumulate, (ops.zeros((2, 3)), 0), x, reverse=reverse, unroll=unroll)

    step, unrolled = (graphls.compile(lambda x, u=u: f(x, u), X, backend=backend) for u in (False, True))
    assert "scan" in primitives(step) and "scan" not in primitives(unrolled)
    (total, number), results = step(X)
    expected, stack = np.zeros((2, 3), F32), [None] * 5
    for i in reversed(range(5)) if reverse else range(5):
        expected = expected * F32(0.5) + X[i]
        stack[i] = expected
    close(total, expected)
    close(results["total"], np.stack(stack))
    close(results["twice"][0], X * 2)
    assert number.asnumpy() == 5 and number.dtype is graphls.int64
    assert results["twice"][1].tolist() == ([4, 3, 2, 1, 0] if reverse else [0, 1, 2, 3, 4])
    for other in (unrolled(X), f(graphls.Tensor(X))):
        for a, b in zip(leaves(other), leaves(step(X)), strict=True):
            close(a, b)


def leaves(tree: Any) -> list[Any]:
    from graphls.tree import leaves

    return leaves(tree)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scan_without_arrays_and_without_results(backend: str) -> None:
    step = graphls.compile(
        lambda x: ops.scan(lambda c, _: (c * 2, None), x, length=6), X[0], backend=backend
    )
    carry, nothing = step(X[0])
    close(carry, X[0] * 64)
    assert nothing is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_scan_without_a_carry(backend: str) -> None:
    _, ys = graphls.compile(lambda x: ops.scan(lambda c, a: (c, ops.exp(a)), (), x), X, backend=backend)(X)
    close(ys, np.exp(X))


@pytest.mark.parametrize("backend", BACKENDS)
def test_scan_in_a_scan_with_conditions_inside(backend: str) -> None:
    def f(x: Any) -> Any:
        def row(total: Any, matrix: Any) -> Any:
            def inner(t: Any, r: Any) -> Any:
                if ops.sum(r) > 0:
                    t = t + r
                else:
                    t = t - r * 0.5
                return t, t

            return ops.scan(inner, total, matrix)

        return ops.scan(row, ops.zeros((3,)), x)

    carry, results = graphls.compile(f, X, backend=backend)(X)
    total, expected = np.zeros(3, F32), np.zeros_like(X)
    for i in range(5):
        for j in range(2):
            total = total + X[i, j] if X[i, j].sum() > 0 else total - X[i, j] * F32(0.5)
            expected[i, j] = total
    close(carry, total)
    np.testing.assert_allclose(results.asnumpy(), expected, rtol=1e-5, atol=1e-6)


class Counting(nn.Cell):
    """Writes a parameter in a loop, and reads one that another cell writes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = graphls.Parameter(np.zeros((), F32), name="count", requires_grad=False)
        self.norm = nn.BatchNorm1d(3)

    def construct(self, x: Any) -> Any:
        def body(total: Any, row: Any) -> Any:
            self.count = self.count + 1
            return total + self.norm(row) * self.count, None

        total, _ = ops.scan(body, ops.zeros((2, 3)), x)
        return total, self.count + 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_written_in_a_scan_are_carried(backend: str) -> None:
    cell, plain = Counting().set_train(), Counting().set_train()
    step = graphls.compile(cell, X, backend=backend)
    for _ in range(2):
        total, count = step(X)
    expected = 0
    for round in range(2):
        expected = 0
        for i in range(5):
            expected = expected + plain.norm(X[i]).asnumpy() * (5 * round + i + 1)
    np.testing.assert_allclose(total.asnumpy(), expected, rtol=2e-4, atol=2e-5)
    assert count.asnumpy() == 10 and cell.count.asnumpy() == 10
    close(cell.norm.moving_mean, plain.norm.moving_mean)
    close(cell.norm.moving_variance, plain.norm.moving_variance)


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_differ_from_time_to_time_and_from_step_to_step(backend: str) -> None:
    def f(x: Any) -> Any:
        return ops.scan(lambda c, a: (c, ops.cond(ops.sum(a) > 0, lambda b: ops.dropout(b, 0.5), ops.abs, a)), 0, x)[1]

    ones = np.ones((4, 50), F32)
    step = graphls.compile(f, ones, backend=backend)
    rows = np.concatenate([step(ones).asnumpy(), step(ones).asnumpy()])
    assert set(np.unique(rows)) == {0.0, 2.0}
    assert len({row.tobytes() for row in rows}) == 8


def test_random_numbers_of_a_scan_are_the_same_on_both_backends() -> None:
    def f(x: Any) -> Any:
        def outer(c: Any, m: Any) -> Any:
            return c, ops.scan(lambda d, a: (d, ops.dropout(a, 0.5)), 0, m)[1]

        return ops.scan(outer, 0, x)[1]

    ones, found = np.ones((3, 4, 20), F32), []
    for backend in BACKENDS:
        graphls.set_seed(3)
        found.append(graphls.compile(f, ones, backend=backend)(ones).asnumpy())
    np.testing.assert_array_equal(*found)
    assert len({row.tobytes() for row in found[0].reshape(12, 20)}) == 12


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_the_same_each_time_is_computed_once(backend: str) -> None:
    weight = graphls.Parameter(np.eye(3, dtype=F32), name="weight")

    def f(x: Any) -> Any:
        return ops.scan(lambda c, a: (ops.matmul(c, ops.exp(weight)) + a, None), ops.zeros((2, 3)), x)[0]

    step = graphls.compile(f, X, backend=backend)
    (scan,) = (n for n in step.graph.nodes if n.primitive.name == "scan")
    assert [n.primitive.name for n in scan.regions[0].nodes] == ["matmul", "add"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_while_loop_runs_as_long_as_the_condition_holds(backend: str) -> None:
    def f(x: Any, bound: Any) -> Any:
        def body(state: Any) -> Any:
            value, count = state
            return value * 2, count + 1

        return ops.while_loop(lambda s: ops.sum(s[0]) < bound, body, (x, 0))

    step = graphls.compile(f, X[0], np.array(0, F32), backend=backend)
    x = np.abs(X[0])
    for bound, expected in ((0.0, 0), (100.0, None), (1e6, None)):
        value, count = step(x, np.array(bound, F32))
        wanted = 0
        while (x * 2**wanted).sum() < bound:
            wanted += 1
        assert count.asnumpy() == wanted and (expected is None or wanted == expected)
        close(value, x * 2**wanted)
        plain = f(graphls.Tensor(x), bound)
        assert int(plain[1]) == wanted


@pytest.mark.parametrize("backend", BACKENDS)
def test_while_loop_carries_what_it_writes(backend: str) -> None:
    count = graphls.Parameter(np.zeros((), F32), name="count")

    def f(x: Any) -> Any:
        def body(value: Any) -> Any:
            ops.assign_add(count, 2.0)
            return value + 1

        return ops.while_loop(lambda v: count < x, body, x * 0)

    step = graphls.compile(f, np.array(7, F32), backend=backend)
    assert step(np.array(7, F32)).asnumpy() == 4 and count.asnumpy() == 8
    assert step(np.array(11, F32)).asnumpy() == 2 and count.asnumpy() == 12


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bounded_while_loop_ends_and_has_a_gradient(backend: str) -> None:
    def f(x: Any) -> Any:
        return ops.while_loop(lambda v: ops.sum(v) < 100.0, lambda v: v * v, x, max_iterations=6)

    def loss(x: Any) -> Any:
        return ops.sum(f(x))

    x = np.array([1.5, 2.0], F32)
    step = graphls.compile(ops.value_and_grad(loss), x, backend=backend)
    value, gradient = step(x)
    times = 3
    np.testing.assert_allclose(float(value), (x**8).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient.asnumpy(), 2**times * x**7, rtol=1e-5)
    ends = graphls.compile(lambda x: ops.while_loop(lambda v: v < 9.0, lambda v: v + 1, x, 4), x[0], backend=backend)
    assert float(ends(x[0])) == 5.5
    assert float(f(graphls.Tensor(x))[0]) == 1.5**8


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("unroll", [False, True])
def test_fori_loop_counts(backend: str, unroll: bool) -> None:
    def f(x: Any) -> Any:
        return ops.fori_loop(2, 6, lambda i, v: v + x * i, x, unroll=unroll), ops.fori_loop(3, 3, lambda i, v: v * 0, x)

    for found in (graphls.compile(f, X[0], backend=backend)(X[0]), f(graphls.Tensor(X[0]))):
        close(found[0], X[0] * 15)
        close(found[1], X[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_fori_loop_with_bounds_that_are_tensors(backend: str) -> None:
    def f(upper: Any, x: Any) -> Any:
        return ops.fori_loop(1, upper, lambda i, v: v * i, x)

    step = graphls.compile(f, np.array(4, np.int32), np.array(1, np.int64), backend=backend)
    assert [int(step(np.array(n, np.int32), np.array(1, np.int64))) for n in (1, 4, 6)] == [1, 6, 120]


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_in_branches_of_a_construct(backend: str) -> None:
    """The paths of a construct share a loop that stands before the condition, and each has its own behind it."""

    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            total, rows = ops.scan(lambda c, a: (c + a, c * a), ops.zeros((2, 3)), x)
            if ops.sum(total) > 0:
                return ops.scan(lambda c, a: (c + a, None), total, rows)[0]
            return ops.while_loop(lambda c: ops.sum(c) < 0, lambda c: c + 1, total)

    for sign in (1, -1):
        x = np.abs(X) * F32(sign)
        step = graphls.compile(Net(), x, backend=backend)
        assert primitives(step).count("scan") == 2
        total, rows = np.zeros((2, 3), F32), []
        for row in x:
            rows.append(total * row)
            total = total + row
        if total.sum() > 0:
            total = total + np.sum(rows, 0)
        while total.sum() < 0:
            total = total + 1
        np.testing.assert_allclose(step(x).asnumpy(), total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [graphls.float16, graphls.bfloat16], ids=str)
def test_16_bit_loops_round_and_overflow_as_their_primitives_do(dtype: Any) -> None:
    def f(x: Any) -> Any:
        low = ops.cast(x, dtype)
        weight = ops.cast(x[0], dtype)
        carry, rows = ops.scan(lambda c, a: (c * a + weight, c), low[0], low)
        last = ops.while_loop(lambda c: ops.all(ops.isfinite(c)), lambda c: c * c + 2, low[0])
        return ops.cast(carry, graphls.float32), ops.cast(rows, graphls.float32), ops.cast(last, graphls.float32)

    results = [graphls.compile(f, X, backend=backend)(X) for backend in BACKENDS]
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_array_equal(found.asnumpy(), wanted.asnumpy())
    assert np.isinf(results[0][2].asnumpy()).any()
