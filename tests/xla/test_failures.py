"""Failures of XLA are one sentence with a line of the user's, and steps that it cannot trace run elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, nn, ops
from graphls.base.errors import GraphlsError, GraphMemoryError, GraphRuntimeError, GraphValueError
from graphls.runtime.xla.part import XlaPart
from tests.xla.test_plugins import X, compiled, known, primitive  # noqa: F401  (a fixture)

pytest.importorskip("jax")


class Large(nn.Cell):
    """Sorts 32 TiB, which no machine has, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.count = Parameter(np.zeros((), np.float32), name="count", requires_grad=False)

    def construct(self, x: Any) -> Any:
        self.count = self.count + 1
        large = ops.broadcast_to(x, (1 << 14, 1 << 14, x.shape[0]))
        return ops.sort(large * ops.transpose(large, (1, 0, 2)), 0)[0].sum()


@pytest.mark.parametrize("is_returned", [False, True])
def test_a_result_that_no_memory_holds_is_an_error_of_memory(is_returned: bool) -> None:
    def large(x: Any) -> Any:
        y = ops.exp(ops.broadcast_to(x[:1, :1], (2**20, 2**20)))
        return y if is_returned else ops.cumsum(ops.sort(y, 0)[0], 0)[-1].sum()

    step = graphls.compile(large, X, engine="xla")
    with pytest.raises(GraphMemoryError, match="The memory does not hold this step"):
        step(X)


def test_names_that_are_no_unicode_are_names_of_cells() -> None:
    class Named(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.insert_child_to_cell("a\udc80", nn.Dense(2, 2))

        def construct(self, x: Any) -> Any:
            return self._cells["a\udc80"](x)

    step = graphls.compile(Named(), X, engine="xla")
    assert step(X).shape == (2, 2)
    assert "matmul" in str(step.profile(X, steps=2))


def test_a_step_that_no_memory_holds_is_one_sentence_with_the_line_of_its_largest_value() -> None:
    cell, x = Large(), np.ones((1 << 14,), np.float32)
    step = graphls.compile(cell, x, engine="xla")
    with pytest.raises(GraphMemoryError) as caught:
        step(x)
    text = str(caught.value)
    assert "The memory does not hold this step" in text and "take a smaller batch. (tests/xla/test_fail" in text
    assert "\n" not in text
    assert step.version.ticks == 0
    with pytest.raises(GraphRuntimeError, match="'count' may be that of half a step"):
        cell.count.asnumpy()
    cell.count.set_data(graphls.Tensor(np.float32(5)))
    assert cell.count.asnumpy() == 5


class Counting(nn.Cell):
    """Counts its calls, without a test of indices."""

    def __init__(self) -> None:
        super().__init__()
        self.count = Parameter(np.zeros((), np.float32), name="count", requires_grad=False)

    def construct(self, x: Any) -> Any:
        self.count = self.count + 1
        return x * 2


def test_results_are_presented_while_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    step, order = graphls.compile(Counting(), X, engine="xla"), []
    wait, tensor = XlaPart.wait, graphls.Tensor.on_device
    monkeypatch.setattr(XlaPart, "wait", lambda part: (order.append("wait"), wait(part))[1])
    monkeypatch.setattr(graphls.Tensor, "on_device", lambda *own: (order.append("tensor"), tensor(*own))[1])
    assert (step(X).asnumpy() == X * 2).all()
    assert order == ["tensor", "wait"]


def test_a_step_that_fails_while_its_results_are_presented_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Counting()
    step = graphls.compile(cell, X, engine="xla")
    step(X)

    def fails(part: XlaPart) -> None:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes")

    with monkeypatch.context() as patched, pytest.raises(GraphMemoryError):
        patched.setattr(XlaPart, "wait", fails)
        step(X)
    assert step.version.ticks == 1
    with pytest.raises(GraphRuntimeError, match="'count' may be that of half a step"):
        step(X)
    cell.count.set_data(graphls.Tensor(np.float32(5)))
    step(X)
    assert cell.count.asnumpy() == 6


def test_a_primitive_without_rules_is_left_to_the_engine_that_names_its_pass() -> None:
    with pytest.raises(GraphlsError, match="apply the gradient pass, as passes="):
        graphls.compile(graphls.grad(lambda x: ops.sum(ops.exp(x))), X, engine="xla", passes=[])


def test_an_error_in_a_rule_says_nothing_about_jax() -> None:
    def broken(self: Any, jax: Any, x: Any) -> Any:
        raise ValueError("no such function")

    primitive(numpy=np.exp, xla=broken)
    with pytest.raises(GraphValueError, match="XLA rule of the primitive of_a_user raised ValueError") as caught:
        compiled()
    assert "JAX has removed" not in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
