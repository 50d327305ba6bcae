"""Random programs with loops in a graph against the same programs unrolled: value, gradient and second derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops
from graphls.ir.compare import same
from graphls.ir.parse import parse
from tests.passes.random_loops import Runner, program

X = np.array([0.7, -0.4, 1.1])
W = np.array([[0.8, -0.3, 0.5], [0.2, 0.9, -0.6], [-0.4, 0.3, 0.7]])


def derivatives(seed: int, runner: Runner, order: int) -> Any:
    """A function of a vector and a matrix that gives a program's value and, up to an order, its derivatives."""
    run = program(seed)
    decisions = list(runner.decisions)

    def value(x: Any, w: Any) -> Any:
        runner.decisions[:] = decisions
        return run(runner, x, w)

    def norm(x: Any, w: Any) -> Any:
        by_x, by_w = ops.grad(value, (0, 1))(x, w)
        return ops.sum(by_x * by_x) + ops.sum(ops.sin(by_w))

    def all_of_them(x: Any, w: Any) -> Any:
        first = ops.value_and_grad(value, (0, 1))(x, w)
        return first if order == 1 else (*first, ops.grad(norm, (0, 1))(x, w))

    return all_of_them


def check(seed: int, order: int, backend: str, passes: Any = None) -> None:
    recorded = Runner("recorded")
    value = program(seed)(recorded, Tensor(X), Tensor(W))
    results = []
    for runner in (Runner("graph"), Runner("unrolled", recorded.decisions)):
        step = graphls.compile(derivatives(seed, runner, order), X, W, backend=backend, passes=passes)
        assert same(parse(str(step.graph)), step.graph)
        first, gradients, *second = step(X, W)
        results.append([first, *gradients, *(second[0] if second else ())])
    np.testing.assert_allclose(results[0][0].asnumpy(), float(value), rtol=1e-9)
    for found, wanted in zip(*results, strict=True):
        size = 1 + np.abs(wanted.asnumpy()).max()
        np.testing.assert_allclose(found.asnumpy() / size, wanted.asnumpy() / size, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_program_and_its_derivatives_are_those_of_the_unrolled_one(seed: int) -> None:
    check(seed, order=2, backend="numpy")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(9, 11))
def test_no_pass_is_needed_for_it(seed: int) -> None:
    check(seed, order=2, backend="numpy", passes="gradient")


@pytest.mark.parametrize("seed", range(12, 14))
def test_the_same_holds_on_onnx_runtime(seed: int) -> None:
    check(seed, order=1, backend="onnxruntime")
