"""while_loop, fori_loop and what all loops share: the same in a graph, on both backends, as in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.ops.test_control_flow import BACKENDS, F32, X, close, primitives


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


@pytest.mark.parametrize("unroll", [False, True])
def test_numbers_and_nothing_are_results_like_tensors(unroll: bool) -> None:
    def f(x: Any) -> Any:
        return ops.scan(lambda c, a: (c + a, (c, 3, None)), 0, x, unroll=unroll)

    x = np.array([1, 2])
    for found in (graphls.compile(f, x, backend="numpy")(x), f(x)):
        total, (sums, numbers, nothing) = found
        assert (int(total), sums.tolist(), numbers.tolist(), nothing) == (3, [0, 1], [3, 3], None)


@pytest.mark.parametrize("unroll", [False, True])
def test_operator_classes(unroll: bool) -> None:
    """The examples of MindSpore's documentation: the results of Scan come as a list."""

    def add(total: Any, x: Any) -> Any:
        return total + x, total + x

    def f(start: Any, x: Any) -> Any:
        product = ops.WhileLoop()(lambda v: v < 10, lambda v: v * 3, start + 1)
        number = ops.ForiLoop()(1, 4, ops.add, start, unroll)
        results = ops.Scan()(add, start, x, None, unroll), ops.Scan()(add, start, [1, 2, start + 3], None, unroll)
        return *results, (product, number)

    start, x = graphls.Tensor(0), graphls.Tensor([1, 2, 3, 4])
    for found in (graphls.compile(f, start, x, backend="numpy")(start, x), f(start, x)):
        (total, sums), (_, others), (product, number) = found
        assert (int(total), [int(s) for s in sums], [int(s) for s in others]) == (10, [1, 3, 6, 10], [1, 3, 6])
        assert (int(product), int(number)) == (27, 6)


def test_every_derivative_goes_through_a_while_loop() -> None:
    def f(x: Any) -> Any:
        return ops.while_loop(lambda v: ops.sum(v * v) < 30.0, lambda v: v * v * 0.5 + v, x)

    def unrolled(x: Any) -> Any:
        for _ in range(2):
            x = x * x * 0.5 + x
        return x

    x, v = graphls.Tensor(np.array([1.0, 1.5])), graphls.Tensor(np.array([0.3, -2.0]))
    for take in (
        lambda f: ops.jvp(f, x, v),
        lambda f: ops.vjp(f, x)[1](v),
        lambda f: [ops.jacrev(f)(x), ops.jacfwd(f)(x)],
        lambda f: [ops.jacfwd(ops.jacrev(lambda x: ops.sum(f(x) ** 2)))(x)],
        lambda f: ops.derivative(f, x, 3),
        lambda f: [ops.vmap(ops.grad(lambda x: ops.sum(f(x))))(ops.stack([x, x]))],
    ):
        for found, wanted in zip(take(f), take(unrolled), strict=True):
            np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=1e-10)


def test_a_loop_that_is_computed_again_has_the_same_gradient() -> None:
    class Loop(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, 3)

        def construct(self, x: Any) -> Any:
            return ops.while_loop(lambda h: ops.sum(h * h) < 40.0, lambda h: ops.tanh(self.dense(h)) * 1.3 + h, x)

    results = []
    for recomputed in (False, True):
        graphls.set_seed(3)
        loop = Loop()
        if recomputed:
            loop.recompute()
        gradient = graphls.grad(lambda x, loop=loop: ops.sum(loop(x) ** 2), 0, loop.trainable_params())
        by_input, by_weights = graphls.compile(lambda x, g=gradient: g(x), X[0], backend="numpy")(X[0])
        results.append([by_input, *by_weights])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
        assert a.asnumpy().any()
