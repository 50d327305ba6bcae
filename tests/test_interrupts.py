"""A Ctrl-C anywhere in a step finds it complete or not begun, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.interrupting import assert_steps_are_whole, interrupted_at

F32 = np.float32
X = np.ones(3, F32)


class ThreeKinds(nn.Cell):
    """A state that has two buffers, one that is updated in place, and a random one."""

    def __init__(self) -> None:
        super().__init__()
        self.a = graphls.Parameter(np.ones(3, F32), name="a")
        self.b = graphls.Parameter(np.ones(3, F32), name="b")

    def construct(self, x: Any) -> Any:
        old = self.a + 0
        self.a = self.a * 0.5 + ops.rand(3)
        self.b = self.b + 1
        return old + ops.sum(self.a) * x


def made(backend: str, many: bool) -> tuple[Any, Callable[[], Any], Any]:
    """A cell, its step or two of them as one call, which has run once, and the version that counts them."""
    graphls.set_seed(4)
    cell = ThreeKinds()
    step = graphls.compile(cell, X, backend=backend)
    runner: Any = step.repeated(2) if many else step
    inputs = np.stack([X, X]) if many else X
    runner(inputs)
    return cell, lambda: runner(inputs), runner._session.version


def values(cell: Any) -> list[Any]:
    return [cell.a.asnumpy().tolist(), cell.b.asnumpy().tolist(), graphls.random.random_state().asnumpy().tolist()]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
def test_a_step_that_is_interrupted_anywhere_is_whole_or_has_not_been(backend: str, many: bool) -> None:
    assert_steps_are_whole(lambda: made(backend, many), values, 50)


@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
def test_setting_a_value_that_is_interrupted_is_seen_by_the_step(backend: str) -> None:
    cell = ThreeKinds()
    step = graphls.compile(cell, X, backend=backend)
    place, data = 0, 0.0
    while interrupted_at(place, partial(cell.b.set_data, np.full(3, data, F32))):
        before = cell.b.asnumpy()
        step(X)
        np.testing.assert_array_equal(cell.b.asnumpy(), before + 1)
        place, data = place + 1, data + 7
