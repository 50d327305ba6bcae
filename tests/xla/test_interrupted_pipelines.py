"""A Ctrl-C in a step of a pipeline leaves the states of all stages as they are after the same number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Mesh, Parameter, nn
from tests.interrupting import assert_steps_are_whole

pytest.importorskip("jax")

X = np.ones(400, np.float32)


class Sum(nn.Cell):
    """A state that a step writes in the memory of its old value."""

    def __init__(self, stage: int) -> None:
        super().__init__()
        self.total = Parameter(np.zeros(400, np.float32), name="total")
        self.pipeline_stage = stage

    def construct(self, x: Any) -> Any:
        self.total = self.total + x
        return x * 1


class Sums(nn.Cell):
    """The same state in two stages."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Sum(0), Sum(1)

    def construct(self, x: Any) -> Any:
        return self.second(self.first(x)).sum()


def test_an_interrupted_step_leaves_all_stages_after_the_same_number_of_steps() -> None:
    def opened() -> tuple[Sums, Callable[[], Any], Any]:
        cell = Sums()
        step = graphls.compile(cell, X, engine="xla", mesh=Mesh(stage=2))
        step(X)
        return cell, lambda: step(X), step.version

    def count(cell: Sums) -> float:
        first, second = (each.total.asnumpy() for each in (cell.first, cell.second))
        np.testing.assert_array_equal(first, second)
        return float(first[0])

    assert_steps_are_whole(opened, count, 5)
