"""Gradients through loops of any number of rounds: finite differences in float64, unrolled programs, also twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import ops
from graphls.ir.compare import same
from graphls.ir.parse import parse
from graphls.runtime.lowering import lower
from tests.passes.loop_programs import PROGRAMS, Program, W, X

PASSES = ["gradient", None]
TOLERANCES = {np.float16: 0.02, np.float32: 1e-4, np.float64: 1e-12}


def slopes(step: Any) -> list[np.ndarray[Any, Any]]:
    """The derivatives of the first result by each element of the inputs, as differences."""
    found = []
    for i, array in enumerate((X, W)):
        slope = np.empty_like(array)
        for at in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                inputs = [X.copy(), W.copy()]
                inputs[i][at] += sign * 1e-6
                ends.append(float(step(*inputs)[0]))
            slope[at] = (ends[0] - ends[1]) / 2e-6
        found.append(slope)
    return found


def close(found: Any, wanted: Any, tolerance: float) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b, rtol=tolerance, atol=tolerance * (1 + np.abs(b).max()))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_the_gradient_is_the_slope(program: Program) -> None:
    gradient = ops.value_and_grad(program, (0, 1))
    step = graphls.compile(lambda *a: gradient(*a), X, W, backend="numpy")
    value, found = step(X, W)
    np.testing.assert_allclose(float(value), float(program(graphls.Tensor(X), graphls.Tensor(W))), rtol=1e-12)
    close(found, slopes(step), 1e-6)
    assert same(parse(str(step.graph)), step.graph)


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_the_second_gradient_is_the_slope_of_the_first(program: Program, passes: Any) -> None:
    def norm(*arrays: Any) -> Any:
        by_x, by_w = ops.grad(program, (0, 1))(*arrays)
        return ops.sum(by_x * by_x) + ops.sum(ops.sin(by_w))

    gradient = ops.value_and_grad(norm, (0, 1))
    step = graphls.compile(lambda *a: gradient(*a), X, W, backend="numpy", passes=passes)
    close(step(X, W)[1], slopes(step), 1e-4)
    assert same(parse(str(step.graph)), step.graph)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_both_backends_agree(program: Program) -> None:
    def norm(*arrays: Any) -> Any:
        by_x, by_w = ops.grad(program, (0, 1))(*arrays)
        return ops.sum(by_x * by_x) + ops.sum(ops.sin(by_w)), by_x, by_w

    def all_of_it(*arrays: Any) -> Any:
        return norm(*arrays), ops.grad(lambda *a: norm(*a)[0], (0, 1))(*arrays)

    results = []
    for backend in ("numpy", "onnxruntime"):
        first, second = graphls.compile(all_of_it, X, W, backend=backend)(X, W)
        results.append([*first, *second])
    close(results[1], [v.asnumpy() for v in results[0]], 1e-9)


def test_two_gradients_of_one_loop_keep_its_values_once() -> None:
    """Each needs other values of the one forward, and their own gradients are sums over both."""

    def f(x: Any, w: Any) -> Any:
        v = ops.while_loop(lambda v: ops.sum(v) < 9.0, lambda v: v * v * w[0] + v, x)
        return ops.sum(v * v), ops.sum(ops.exp(v * 0.1))

    def both(x: Any, w: Any) -> Any:
        first, second = f(x, w)
        return (ops.grad(lambda *a: f(*a)[0], 1)(x, w), ops.grad(lambda *a: f(*a)[1], 1)(x, w)), first + second

    def norm(x: Any, w: Any) -> Any:
        first, second = both(x, w)[0]
        return ops.sum(first * second)

    for passes in PASSES:
        found = graphls.compile(both, X, W, backend="numpy", passes=passes)(X, W)[0]
        for i, gradient in enumerate(found):
            single = ops.grad(lambda *a, i=i: f(*a)[i], 1)
            wanted = graphls.compile(lambda *a, s=single: s(*a), X, W, backend="numpy")(X, W)
            np.testing.assert_allclose(gradient.asnumpy(), wanted.asnumpy(), rtol=1e-12)
        take = ops.value_and_grad(norm, (0, 1))
        step = graphls.compile(lambda *a: take(*a), X, W, backend="numpy", passes=passes)  # noqa: B023
        close(step(X, W)[1], slopes(step), 1e-5)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_gradients_of_captured_products_are_taken_at_once(dtype: Any, backend: str) -> None:
    """Also where there is no round, for which not every kernel writes a sum."""

    def f(x: Any, w: Any, n: Any) -> Any:
        h = ops.fori_loop(0, n, lambda i, h: ops.tanh(ops.matmul(h, w) + x) + h, ops.broadcast_to(x, (3, 2)))
        return ops.sum(h)

    x, w = X.astype(dtype), W.astype(dtype)
    step = graphls.compile(lambda *a: ops.grad(f, (0, 1))(*a), x, w, np.array(0), backend=backend)
    loops = [n for n in step.graph.nodes if n.primitive.name == "scan"]
    assert [n.attrs["carries"] for n in loops] == [1]
    assert {n.primitive.name for n in step.graph.nodes} >= {"sum_of_rounds", "product_of_rounds"}
    for device in ("cpu", "cuda"):
        onnx.checker.check_model(lower(step.graph, device=device).model, full_check=True)
    for rounds in (0, 1, 4):
        found = step(x, w, np.array(rounds))
        unrolled = ops.grad(lambda x, w, n=rounds: f(x, w, n), (0, 1))
        wanted = graphls.compile(lambda *a, g=unrolled: g(*a), x, w, backend="numpy")(x, w)
        for a, b in zip(found, wanted, strict=True):
            tolerance = TOLERANCES[dtype] * np.abs(b.asnumpy()).max()
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [graphls.float16, graphls.bfloat16], ids=str)
def test_16_bit_gradients_have_the_bits_of_the_unrolled_loop(dtype: Any) -> None:
    def f(x: Any, w: Any, n: Any) -> Any:
        x, w = ops.cast(x, dtype), ops.cast(w, dtype)

        def body(i: Any, h: Any) -> Any:
            return ops.tanh(ops.matmul(h, w) + x) * 0.7 + h * 0.5

        return ops.sum(ops.cast(ops.fori_loop(0, n, body, ops.broadcast_to(x, (3, 2))), graphls.float32))

    x, w = X.astype(np.float32), W.astype(np.float32)
    unrolled = ops.grad(lambda x, w: f(x, w, 3), (0, 1))
    wanted = graphls.compile(lambda *a: unrolled(*a), x, w, backend="numpy")(x, w)
    for backend in ("numpy", "onnxruntime"):
        step = graphls.compile(lambda *a: ops.grad(f, (0, 1))(*a), x, w, np.array(0), backend=backend)
        for a, b in zip(step(x, w, np.array(3)), wanted, strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_memory_is_that_of_the_rounds_that_run() -> None:
    """One compiled step serves any number of rounds, with one element in each stack for every one of them."""

    def f(x: Any, n: Any) -> Any:
        return ops.sum(ops.fori_loop(0, n, lambda i, v: ops.sin(v) * 1.01, x))

    step = graphls.compile(lambda x, n: ops.grad(f)(x, n), X, np.array(0), backend="onnxruntime")
    for rounds in (0, 1, 700):
        wanted, v = np.ones_like(X), X.copy()
        for _ in range(rounds):
            wanted, v = wanted * np.cos(v) * 1.01, np.sin(v) * 1.01
        np.testing.assert_allclose(step(X, np.array(rounds)).asnumpy(), wanted, rtol=1e-9)
