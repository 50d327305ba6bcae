"""cond and scan: the same in a graph, on both backends, as in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.frontend.tensors.pytree import leaves
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
def test_every_kind_of_random_numbers_differs_from_time_to_time(backend: str) -> None:
    def draws() -> list[Any]:
        return [ops.rand(30), ops.randn(30), ops.randint(0, 90, (30,)), ops.randperm(30)]

    def f(x: Any) -> Any:
        return ops.scan(lambda c, _: (c, ops.scan(lambda d, _: (d, draws()), 0, length=2)[1]), x, length=3)[1]

    x = np.zeros((), F32)
    step = graphls.compile(f, x, backend=backend)
    for first, second in zip(step(x), step(x), strict=True):
        rows = np.concatenate([first.asnumpy().reshape(6, 30), second.asnumpy().reshape(6, 30)])
        assert len({row.tobytes() for row in rows}) == 12
    np.testing.assert_array_equal(np.sort(rows, 1), np.tile(np.arange(30), (12, 1)))
