"""States that are overwritten in their own memory, behind all that reads their old values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.order import in_order

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


class Exchange(nn.Cell):
    """Two states of each dtype that take each other's values."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.a = graphls.Parameter(np.zeros(3, np.float32), name="a")
        self.b = graphls.Parameter(np.ones(3, np.float32), name="b")
        self.i = graphls.Parameter(np.array([1], np.int32), name="i")
        self.j = graphls.Parameter(np.array([2], np.int32), name="j")

    def construct(self, x: Any) -> Any:
        a, b, i, j = self.a * self.factor, self.b * self.factor, self.i + 0, self.j + 0
        for state, value in ((self.a, b), (self.b, a), (self.i, j), (self.j, i)):
            ops.assign(state, value)
        return x + a


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_states_take_each_others_values(factor: float) -> None:
    cell = Exchange(factor)
    x = np.zeros(3, np.float32)
    step = graphls.compile(cell, x, engine="onednn")
    a, b, i, j = 0.0, 1.0, 1, 2
    for _ in range(3):
        np.testing.assert_array_equal(step(x).asnumpy(), np.full(3, a * factor))
        a, b, i, j = b * factor, a * factor, j, i
        states = [cell.a.asnumpy()[0], cell.b.asnumpy()[0], cell.i.asnumpy()[0], cell.j.asnumpy()[0]]
        assert states == [a, b, i, j]


@pytest.mark.parametrize("optimizer", [nn.Momentum, nn.Adam])
def test_every_state_of_a_training_is_overwritten_in_place(optimizer: Any) -> None:
    network = nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), nn.Dense(8, 3))
    loss = nn.WithLossCell(network, nn.MSELoss())
    arguments = (0.1, 0.9) if optimizer is nn.Momentum else (0.1,)
    cell = nn.TrainOneStepCell(loss, optimizer(network.trainable_params(), *arguments)).set_train()
    step = graphls.compile(cell, X, np.zeros((4, 3), np.float32), engine="onednn")
    writes = step._session.plan.graph.writes
    assert writes and all(write.in_place for write in writes)


class Taken:
    """A call by what orders it."""

    def __init__(
        self, name: str, reads: tuple[Buffer, ...], writes: tuple[Buffer, ...], runs_python: bool = False,
        is_early: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.reads, self.writes = name, reads, writes
        self.runs_python, self.is_early = runs_python, is_early


def test_what_overwrites_a_state_waits_for_its_readers_and_for_python() -> None:
    state, new, gradient, other = Buffer(8, is_outside=True), Buffer(8), Buffer(8), Buffer(8)
    new.within = state
    calls = [
        Taken("gradient", (), (gradient,)),
        Taken("update", (state, gradient), (new,), is_early=True),
        Taken("reader", (state,), (other,)),
        Taken("python", (other,), (Buffer(8),), runs_python=True),
        Taken("last", (other,), (Buffer(8),)),
    ]
    assert [call.name for call in in_order(calls, {state})] == ["gradient", "reader", "python", "update", "last"]


def test_calls_of_a_cycle_are_missing() -> None:
    states = [Buffer(8, is_outside=True) for _ in range(2)]
    new = [Buffer(8), Buffer(8)]
    for buffer, state in zip(new, states, strict=True):
        buffer.within = state
    calls = [Taken("a", (states[1],), (new[0],)), Taken("b", (states[0],), (new[1],)), Taken("c", (), (Buffer(8),))]
    assert [call.name for call in in_order(calls, {*states})] == ["c"]
