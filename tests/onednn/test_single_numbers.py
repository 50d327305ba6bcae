"""A loss scale and counts of steps are updated by one call of NumPy, with the bits of ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir import interpret, parse
from graphls.passes.schedule.partition import Partition
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.plan import PlanSession

X = np.random.default_rng(0).normal(size=(4, 20)).astype(np.float32)
Y = np.arange(4, dtype=np.int32)


def scaled(engine: str, width: int) -> graphls.Compiled:
    """A step with loss scaling of a small network, or of one that is updated behind the flag."""
    graphls.set_seed(1)
    network = nn.SequentialCell(nn.Dense(20, width), nn.ReLU(), nn.Dense(width, 10))
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(loss.trainable_params(), 1e-3, 0.9)
    update = nn.DynamicLossScaleUpdateCell(2.0**126, 2, 3)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, update).set_train()
    return graphls.compile(cell, X, Y, engine=engine)


def parts(step: graphls.Compiled) -> list[OnednnPart]:
    session = step._session
    every = [*session.first, *(part for branch in session.branches for part in branch), *session.last]
    assert all(isinstance(part, OnednnPart) for part in every)
    return every


@pytest.mark.parametrize("width", [16, 40_000])
def test_numbers_of_one_update_are_one_call(width: int) -> None:
    step = scaled("onednn", width)
    for part in parts(step):
        calls = [call for call in part.program.calls if call.runs_python and call.node and call.node.phase == "update"]
        assert len([call for call in calls if call.kind == "numbers"]) <= 2
        assert {call.kind for call in calls} <= {"numbers", "copy"}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("width", [16, 40_000])
def test_scales_and_counts_are_those_of_onnx_runtime(width: int) -> None:
    names = "scale_sense", "current_iterator_step", "last_overflow_iterator_step", "global_step"
    results: list[Any] = []
    for engine in ("onednn", "onnxruntime"):
        step = scaled(engine, width)
        rows = []
        for _ in range(12):
            outputs = [v.asnumpy().tobytes() for v in step(X, Y)[1:]]
            rows.append([*outputs, *(step.parameters[name].asnumpy().tobytes() for name in names)])
        results.append(rows)
    assert results[0] == results[1]
    assert len({row[0] for row in results[0]}) == 2, "Some steps overflow, others do not."


TWO_FLAGS = """
graph @main(%x: f32[8], %s: f32[]) {
  %first = overflow_get(%x) : bool[]  // check
  %a = add(%s, %s) : f32[]  // update
  %b = where(%first, %a, %s) : f32[]  // update
  %c = mul(%b, %a) : f32[]  // update
  %y = mul(%x, %c) : f32[8]  // forward
  %second = overflow_get(%y) : bool[]  // check
  %d = where(%second, %b, %a) : f32[]  // update
  %e = maximum(%d, %c) : f32[]  // update
  return %first, %second, %c, %d, %e
}
"""


@pytest.mark.parametrize("number", [1.0, 1e38, np.inf, np.nan])
def test_numbers_behind_each_of_two_flags(number: float) -> None:
    """The second flag depends on numbers behind the first, so that those behind it are another call."""
    graph = parse(TWO_FLAGS)
    session = PlanSession(Partition("onednn").run(graph), {})
    assert [call.kind for part in session.first for call in part.program.calls].count("numbers") == 2
    arrays = [np.full(8, number, np.float32), np.array(3.0, np.float32)]
    for result, expected in zip(session.run(arrays), interpret(graph, arrays)[0], strict=True):
        assert np.asarray(result).tobytes() == np.asarray(expected).tobytes()
