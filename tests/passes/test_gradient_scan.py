"""Gradients through scans against finite differences in float64 and against the unrolled loop, also twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.ir.graph import walk

LENGTH = 4
GENERATOR = np.random.default_rng(5)
X = GENERATOR.uniform(0.3, 1.2, (LENGTH, 2, 3))
W = GENERATOR.uniform(-0.7, 0.7, (3, 3))
B = GENERATOR.uniform(-0.5, 0.5, (3,))
H = GENERATOR.uniform(-0.5, 0.5, (2, 3))
PASSES = ["gradient", None]
Body = Callable[..., Any]


def recurrent(x: Any, w: Any, b: Any, h: Any, unroll: bool) -> Any:
    """The usual case: products and sums whose gradients are taken at once behind the scan."""
    last, rows = ops.scan(lambda c, a: (c := ops.tanh(ops.matmul(c, w) + a + b), c * a), h, x, unroll=unroll)
    return ops.sum(last * last) + ops.sum(rows)


def reverse(x: Any, w: Any, b: Any, h: Any, unroll: bool) -> Any:
    last, rows = ops.scan(
        lambda c, a: (ops.matmul(c, ops.transpose(w, (1, 0))) * a, (c, ops.sum(a))), h, x, reverse=True, unroll=unroll
    )
    return ops.sum(last) + ops.sum(ops.exp(rows[0]) * b) + ops.sum(rows[1] * rows[1])


def accumulated(x: Any, w: Any, b: Any, h: Any, unroll: bool) -> Any:
    """Captured values whose gradients are no plain sums, one of them yielded and carried as it is."""
    def body(c: Any, a: Any) -> Any:
        p, q, n = c
        return (q * ops.exp(b), p + ops.amax(a * w[0] * w[0], axis=0), n + 1), (b, ops.matmul(w, w) * p[0, 0], a)

    (p, q, _), (k, m, e) = ops.scan(body, (h, h * h, 0), x, unroll=unroll)
    return ops.sum(p * q) + ops.sum(k * k) + ops.sum(m) + ops.sum(e * e * e)


def late(x: Any, w: Any, b: Any, h: Any, unroll: bool) -> Any:
    """What is carried first depends on nothing, and gets its gradient by the others only a time later."""
    zero = ops.zeros_like(h)

    def body(c: Any, a: Any) -> Any:
        _, q, r = c
        return (q * 1.5, r + a, ops.sin(r) + ops.matmul(a, w)), None

    (p, q, _), _ = ops.scan(body, (zero, zero, zero), x, unroll=unroll)
    return ops.sum(p * p) + ops.sum(b * q) + ops.sum(h)


def nested(x: Any, w: Any, b: Any, h: Any, unroll: bool) -> Any:
    def outer(c: Any, a: Any) -> Any:
        def inner(d: Any, r: Any) -> Any:
            d = ops.tanh(d + r * ops.matmul(a, w)[0]) * c
            return d, d * r

        d, rows = ops.scan(inner, c, a, unroll=unroll)
        return d + b, ops.sum(rows * rows)

    last, rows = ops.scan(outer, h, x, unroll=unroll)
    return ops.sum(last * last) + ops.sum(rows)


def branching(x: Any, w: Any, b: Any, h: Any, unroll: bool) -> Any:
    def body(c: Any, a: Any) -> Any:
        def last(v: Any) -> Any:
            return ops.scan(lambda d, r: (d * r + b, None), v, a, unroll=unroll)[0]

        c = ops.cond(ops.sum(c) > 0.2, lambda v: ops.matmul(v, w) - a, last, c)
        return c, ops.sum(c)

    last, rows = ops.scan(body, h, x, unroll=unroll)
    return ops.sum(last * last) + ops.sum(rows * rows)


def branched(x: Any, w: Any, b: Any, h: Any, unroll: bool) -> Any:
    return ops.cond(ops.sum(x) > 0, lambda: recurrent(x, w, b, h, unroll), lambda: ops.sum(h))


def bounded(x: Any, w: Any, b: Any, h: Any, unroll: bool) -> Any:
    if unroll:
        for _ in range(3):
            h = ops.where(ops.sum(h * h) < 1.0, h * 1.6 + ops.matmul(h, w), h)
    else:
        h = ops.while_loop(lambda c: ops.sum(c * c) < 1.0, lambda c: c * 1.6 + ops.matmul(c, w), h, max_iterations=3)
    return ops.sum(h * x[0]) + ops.sum(b)


BODIES: list[Body] = [recurrent, reverse, accumulated, late, nested, branching, branched, bounded]


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_the_gradient_is_the_slope_and_that_of_the_unrolled_loop(body: Body, passes: Any) -> None:
    inputs = (X, W, B, H)

    def take(unroll: bool) -> Any:
        gradient = ops.value_and_grad(lambda *a: body(*a, unroll), (0, 1, 2, 3))
        return graphls.compile(lambda *a: gradient(*a), *inputs, backend="numpy", passes=passes)

    step, unrolled = take(False), take(True)
    assert any(n.primitive.name == "scan" for n in walk(step.graph))
    value, gradients = step(*inputs)
    other, wanted = unrolled(*inputs)
    np.testing.assert_allclose(value.asnumpy(), other.asnumpy(), rtol=1e-12)
    for found, expected in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-9, atol=1e-12)
    for i, gradient in enumerate(gradients):
        direction = np.random.default_rng(i).normal(size=inputs[i].shape)
        ends = []
        for sign in (1, -1):
            moved = [a + sign * 1e-6 * direction if n == i else a for n, a in enumerate(inputs)]
            ends.append(float(step(*moved)[0]))
        slope = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(np.sum(gradient.asnumpy() * direction), slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_the_second_gradient_is_the_slope_of_the_first(body: Body, passes: Any) -> None:
    inputs = (X, W, B, H)

    def norm(*arrays: Any) -> Any:
        gradients = ops.grad(lambda *a: body(*a, False), (0, 1, 2, 3))(*arrays)
        return sum(ops.sum(g * g * (i + 1)) for i, g in enumerate(gradients))

    take = ops.value_and_grad(norm, (0, 1, 2, 3))
    step = graphls.compile(lambda *a: take(*a), *inputs, backend="numpy", passes=passes)
    _, gradients = step(*inputs)
    for i, gradient in enumerate(gradients):
        direction = np.random.default_rng(i).normal(size=inputs[i].shape)
        ends = []
        for sign in (1, -1):
            moved = [a + sign * 1e-6 * direction if n == i else a for n, a in enumerate(inputs)]
            ends.append(float(step(*moved)[0]))
        slope = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(np.sum(gradient.asnumpy() * direction), slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_both_backends_agree(body: Body) -> None:
    inputs = tuple(a.astype(np.float32) for a in (X, W, B, H))
    gradient = ops.value_and_grad(lambda *a: body(*a, False), (0, 1, 2, 3))
    results = []
    for backend in ("numpy", "onnxruntime"):
        value, found = graphls.compile(lambda *a: gradient(*a), *inputs, backend=backend)(*inputs)
        results.append([value, *found])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=2e-4, atol=2e-5)


def test_gradients_of_captured_products_are_taken_at_once() -> None:
    """The backward region multiplies by the weight and does not add up the gradient of it."""
    gradient = ops.grad(lambda *a: recurrent(*a, False), (1, 2))
    step = graphls.compile(lambda *a: gradient(*a), X, W, B, H, backend="numpy")
    scans = [n for n in step.graph.nodes if n.primitive.name == "scan"]
    assert [n.attrs["carries"] for n in scans] == [1, 1]
    assert [n.primitive.name for n in scans[1].regions[0].nodes].count("matmul") == 1


def test_two_gradients_of_one_scan_keep_its_values_once() -> None:
    def f(x: Any, w: Any, b: Any, h: Any) -> Any:
        rows = ops.scan(lambda c, a: (c := ops.tanh(ops.matmul(c, w) + a), c), h, x)[1]
        return ops.sum(rows), ops.sum(ops.exp(rows))

    def both(*inputs: Any) -> Any:
        return ops.grad(lambda *a: f(*a)[0], 1)(*inputs), ops.grad(lambda *a: f(*a)[1], 1)(*inputs)

    found = graphls.compile(both, X, W, B, H, backend="numpy", passes="gradient")(X, W, B, H)
    for i, gradient in enumerate(found):
        single = ops.grad(lambda *a, i=i: f(*a)[i], 1)
        wanted = graphls.compile(lambda *a, s=single: s(*a), X, W, B, H, backend="numpy")(X, W, B, H)
        np.testing.assert_allclose(gradient.asnumpy(), wanted.asnumpy(), rtol=1e-9)


def test_a_while_loop_that_nothing_differentiates_is_no_obstacle() -> None:
    def f(x: Any) -> Any:
        count = ops.while_loop(lambda c: c < 4, lambda c: c + 1, ops.cast(ops.sum(x) * 0, graphls.int32))
        return ops.sum(x * ops.cast(count, graphls.float64))

    gradient = ops.grad(f)
    found = graphls.compile(lambda x: gradient(x), X, backend="numpy")(X)
    np.testing.assert_array_equal(found.asnumpy(), np.full_like(X, 4))
