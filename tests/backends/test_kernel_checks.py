"""Which kernels are right is found out by running them, and the lowering goes by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls.primitives  # noqa: F401
from graphls.inspect.testing.samples import run
from graphls.ir import DType, interpret, parse
from graphls.ir.types import float32, float64
from graphls.runtime.lowering import lower
from graphls.runtime.onnxruntime import kernel_checks
from graphls.runtime.onnxruntime.kernel_checks import is_right

_ROOT = "graph @root(%x: f32[8]) { %y = sqrt(%x) : f32[8]\n return %y }"


INFINITE = np.array([[np.inf, 1, -np.inf, np.inf], [-np.inf] * 4, [np.nan, 2, np.inf, -3]], np.float32)
LARGE = np.array([[(1 << 60) - 2, (1 << 60) - 1, (1 << 60) - 3, -(1 << 60)]] * 3, np.int64)


def operators(**options: Any) -> list[str]:
    return [node.op_type for node in lower(parse(_ROOT), **options).model.graph.node]


def test_a_kernel_that_is_right_is_used_as_it_is() -> None:
    assert operators() == operators(kernel_is_right=lambda operator, dtype: True) == ["Sqrt"]


def test_a_kernel_that_is_wrong_is_gone_around() -> None:
    assert operators(kernel_is_right=lambda operator, dtype: False) == ["Cast", "Sqrt", "Cast"]


@pytest.mark.parametrize("dtype", [float32, float64])
def test_a_wrong_result_is_seen(monkeypatch: pytest.MonkeyPatch, dtype: DType) -> None:
    ours = is_right.__wrapped__
    monkeypatch.setattr(kernel_checks, "_run", lambda provider, operator, x: np.sqrt(np.abs(x)))
    assert not ours("Sqrt", dtype)
    monkeypatch.setattr(kernel_checks, "_run", lambda provider, operator, x: np.ceil(x) + 0.0)
    assert not ours("Ceil", dtype), "the sign of zero counts"
    monkeypatch.setattr(kernel_checks, "_run", lambda provider, operator, x: np.floor(x))
    assert ours("Floor", dtype)
    monkeypatch.setattr(kernel_checks, "_run", lambda provider, operator, x, y: np.fmin(x, y))
    assert not ours("Min", dtype), "a nan is the smaller one"
    monkeypatch.setattr(kernel_checks, "_run", lambda provider, operator, a, b: a[..., ::-1] @ b[..., ::-1, :])
    assert not ours("MatMul", dtype), "sums have the order of their terms"


def test_the_runtime_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    is_right("Exp", float32)
    monkeypatch.setattr(kernel_checks, "_run", lambda *call: pytest.fail("asked again"))
    is_right("Exp", float32)


@pytest.mark.parametrize("array", [INFINITE, LARGE], ids=["f32", "i64"])
@pytest.mark.parametrize(
    "call",
    [
        "%y = max(%x) {axis=[1]} : KIND[3]", "%y = min(%x) {axis=[0, 1]} : KIND[]", "%y = sign(%x) : KIND[3,4]",
        "%y = max(%x) {axis=[0], keepdims=true} : KIND[1,4]", "%y = argmax(%x) {axis=1} : i64[3]",
        "%v, %y = top_k(%x) {k=4, axis=1, largest=false} : KIND[3,4], i64[3,4]",
        "%v, %y = top_k(%x) {k=3, axis=0, largest=true} : KIND[3,4], i64[3,4]",
    ],
)  # fmt: skip
def test_what_goes_around_a_wrong_kernel_is_exact(call: str, array: Any) -> None:
    """The kernels of ONNX Runtime 1.31.1 for CUDA are wrong at these numbers; see docs/cuda.md."""
    kind = "f32" if array.dtype == np.float32 else "i64"
    graph = parse(f"graph @g(%x: {kind}[3,4]) {{ {call.replace('KIND', kind)}\n return %y }}")
    (expected,) = interpret(graph, [array])[0]
    (found,) = run(lower(graph, kernel_is_right=lambda operator, dtype: False), graph, [array])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("operator", ["MatMul", "Min", "ReduceMax", "ReduceMin", "Sign", "TopK"])
def test_the_kernels_of_the_cpu_are_as_they_should_be(operator: str) -> None:
    assert is_right(operator, float32)
