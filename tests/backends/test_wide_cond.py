"""A `cond` with many outputs gives the same on both backends, in place or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

F32 = np.float32


class Many(nn.Cell):
    """Many states, updated by a shared counter that is itself updated, and some of them from each other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        generator = np.random.default_rng(0)
        self.step = graphls.Parameter(np.ones(1, F32), name="step")
        self.states = graphls.ParameterTuple(
            graphls.Parameter(generator.random((5, 5), F32), name=f"state{i}") for i in range(count)
        )

    def construct(self, x: Any, flag: Any) -> Any:
        norm = ops.sum(x * x)
        if flag:
            rate = 1 / (self.step + norm)
            self.step = self.step + 1
            for index, state in enumerate(self.states):
                fresh = state * rate + x
                if index % 5 == 1:
                    ops.assign(self.states[index - 1], fresh + rate)
                ops.assign(state, fresh)
        else:
            self.step = self.step * 2
            ops.assign(self.states[0], self.states[1] * norm)
        return norm


@pytest.mark.parametrize("count", [20, 200])
def test_a_wide_cond_gives_the_same_on_both_backends(count: int) -> None:
    x = np.random.default_rng(1).random((5, 5), F32)
    found = []
    for backend in ("numpy", "onnxruntime"):
        cell = Many(count)
        step = graphls.compile(cell, x, np.array(True), backend=backend)
        for flag in (True, True, False, True):
            step(x, np.array(flag))
        found.append({p.name: p.asnumpy() for p in cell.get_parameters()})
    for name, value in found[0].items():
        np.testing.assert_allclose(value, found[1][name], rtol=1e-5, err_msg=name)
