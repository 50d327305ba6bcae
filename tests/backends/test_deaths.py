"""What ended the process in some ONNX Runtime is lowered in another way, and runs on every one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops

X, W = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4), np.ones((3, 2, 2, 2), np.float32)
P = np.float32(1.0)
ROOT = Path(__file__).parents[2]


def branches(y: Any, p: Any) -> Any:
    return ops.cond(p > 0, lambda y: ops.sin(y), lambda y: ops.cos(y), y)


def by_python(x: Any, w: Any, p: Any) -> Any:
    y = ops.conv2d(x, w)
    if p > 0:
        return ops.sin(y)
    return ops.cos(y)


PROGRAMS = {
    "the gradient of a product along the first axis": (
        lambda x: ops.grad(lambda x: ops.sum(ops.prod(x, 0)))(x),
        (np.ones((3, 4), np.float32),),
    ),
    "the gradient of a product of an even number of elements": (
        lambda x: ops.grad(lambda x: ops.sum(ops.prod(x, 1)))(ops.transpose(x, (0, 2, 1))),
        (np.ones((2, 3, 4), np.float32),),
    ),
    "an empty part beside a transpose": (
        lambda x: ops.transpose(ops.concat((ops.transpose(x, (1, 0)), x[:0]), 0), (1, 0)),
        (np.ones((4, 4), np.float32),),
    ),
    "a convolution that only branches read": (lambda x, w, p: branches(ops.conv2d(x, w), p), (X, W, P)),
    "a convolution that one branch of Python reads": (by_python, (X, W, P)),
    "a convolution with a bias that only branches read": (
        lambda x, w, p: branches(ops.conv2d(x, w, ops.zeros((3,), x.dtype) + 0.5), p),
        (X, W, P),
    ),
    "a scaled convolution that only branches read": (
        lambda x, w, p: branches(ops.depend(ops.conv2d(x, w) * 1.0, p), p),
        (X, W, P),
    ),
    "a convolution of one axis that only branches read": (
        lambda x, w, p: branches(ops.conv1d(x, w), p),
        (X[:, :, 0], W[:, :, 0], P),
    ),
}


def differences() -> list[str]:
    """The programs whose results differ from NumPy's; runs in a process of its own, which may end."""
    found = []
    for name, (function, inputs) in PROGRAMS.items():
        print(name, file=sys.stderr, flush=True)
        expected, made = (graphls.compile(function, *inputs, backend=b)(*inputs) for b in ("numpy", "onnxruntime"))
        if not np.allclose(made.asnumpy(), expected.asnumpy(), rtol=1e-5):
            found.append(name)
    return found


@pytest.mark.slow
def test_programs_that_ended_the_process_give_what_numpy_gives() -> None:
    code = f"from {__name__} import differences; print(differences())"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (run.returncode, run.stdout.strip()) == (0, "[]"), f"{run.returncode}: {run.stdout}{run.stderr[-500:]}"


def operators(step: graphls.Compiled) -> list[str]:
    return [node.op_type for node in step.onnx.graph.node]


def test_no_operator_joins_an_empty_part() -> None:
    x = np.ones((2, 3), np.float32)
    step = graphls.compile(lambda x: ops.concat((x, x[:0], x), 0), x)
    (concat,) = (node for node in step.onnx.graph.node if node.op_type == "Concat")
    assert len(concat.input) == 2
    assert operators(graphls.compile(lambda x: ops.concat((x[:0], x), 0), x)) == ["Identity"]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: ops.sum(x, 1), np.zeros(2)),
        (lambda x: ops.prod(x, 1), np.ones(2)),
        (lambda x: ops.matmul(x, ops.transpose(x, (1, 0))), np.zeros((2, 2))),
        (lambda x: ops.pad(x, (1, 1)), np.zeros((2, 2))),
    ],
)
def test_what_is_computed_of_nothing_is_a_constant(function: Any, expected: Any) -> None:
    x = np.ones((2, 0), np.float32)
    step = graphls.compile(function, x)
    assert set(operators(step)) <= {"Identity"}
    np.testing.assert_array_equal(step(x).asnumpy(), expected)


def test_a_convolution_that_the_step_itself_reads_is_followed_by_its_activation() -> None:
    """So that the runtime computes both in one operator, as it does without conditions."""
    step = graphls.compile(lambda x, w, p: branches(ops.relu(ops.conv2d(x, w)) * 2, p), X, W, P)
    kinds = operators(step)
    assert kinds[kinds.index("Conv") + 1] in ("Relu", "Max", "Where")
    assert kinds.count("Reshape") == 1


def test_gradients_of_a_convolution_that_only_an_update_reads_have_no_fence() -> None:
    def gradient(x: Any, w: Any) -> Any:
        return ops.grad(lambda w: ops.sum(ops.conv2d(x, w)))(w)

    def update(x: Any, w: Any, p: Any) -> Any:
        g = gradient(x, w)
        return ops.cond(p > 0, lambda: w - g, lambda: w)

    alone, updated = graphls.compile(gradient, X, W), graphls.compile(update, X, W, Tensor(P))
    assert operators(alone).count("Reshape") == operators(updated).count("Reshape")


def test_a_loop_whose_results_nothing_needs_is_left_out() -> None:
    def step(x: Any) -> Any:
        ops.scan(lambda carry, row: (carry, None), ops.zeros((), x.dtype), x)
        return ops.vmap(lambda row: row * 2)(x) + 1

    x = np.ones((2, 3), np.float32)
    for passes in ("gradient", "gradient, fold, order", "gradient, merge, cse, order, fold, order, factor"):
        np.testing.assert_array_equal(graphls.compile(step, x, passes=passes)(x).asnumpy(), x * 2 + 1)
