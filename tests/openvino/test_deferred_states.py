"""States that take their new values, or stay as they are, by a flag that the host reads behind a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir.plan import flattened, plan_of
from graphls.passes.schedule.partition import Partition
from tests.interrupting import assert_states_are_of_one_step

pytest.importorskip("openvino")
X, Y = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)


def begun(network: nn.Cell, engine: str = "openvino", optimizer: Any = nn.Adam) -> graphls.Compiled:
    """A step with loss scaling whose scale overflows in the beginning, and now and then later."""
    manager = nn.DynamicLossScaleUpdateCell(2.0**127, 2, 3)
    loss, update = nn.WithLossCell(network, nn.MSELoss()), optimizer(network.trainable_params(), 0.1)
    cell = nn.TrainOneStepWithLossScaleCell(loss, update, manager)
    return graphls.compile(cell, X, Y, engine=engine)


def bits(step: graphls.Compiled) -> dict[str, bytes]:
    return {name: parameter.asnumpy().tobytes() for name, parameter in step.parameters.items()}


def run(step: graphls.Compiled) -> list[tuple[bool, float, dict[str, Any], bool]]:
    """Flags, scales and states of some steps, and whether parameters stayed; one overflows whatever the scale."""
    found = []
    trained = [p for p in step.parameters.values() if p.requires_grad]
    for i in range(12):
        before = [p.asnumpy().tobytes() for p in trained]
        _, overflow, scale = step(X * np.float32(1e30 if i == 7 else 1), Y)
        stayed = before == [p.asnumpy().tobytes() for p in trained]
        found.append((bool(overflow), float(scale), {n: p.asnumpy() for n, p in step.parameters.items()}, stayed))
    return found


def network() -> nn.Cell:
    graphls.set_seed(1)
    return nn.SequentialCell(nn.Dense(3, 4), nn.BatchNorm1d(4), nn.Dense(4, 2)).set_train()


def test_they_are_what_is_selected_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    held = begun(network())
    plan = plan_of(held.plan.graph)
    assert {p.name for p in held.parameters.values() if p.requires_grad} <= plan.deferred
    assert {"scale_sense", "1.moving_mean"}.isdisjoint(plan.deferred)
    selections = [n.output.type.size for n in flattened(plan.graph).nodes if n.primitive.name == "where"]
    assert max(selections) == 1, "no array is selected"
    assert "where it is true" in str(held.plan) and "of states stay as they are" in str(held.plan)
    monkeypatch.setattr(Partition, "deferred", lambda self, graph: frozenset())
    selected = begun(network())
    assert not plan_of(selected.plan.graph).deferred
    for one, other in zip(run(held), run(selected), strict=True):
        assert one[0] == one[3] == other[0] and one[1] == other[1]
        for name, value in one[2].items():
            np.testing.assert_allclose(value, other[2][name], 1e-5, 1e-10, err_msg=name)  # kernels are joined otherwise


def test_an_interrupted_step_leaves_those_of_one_step() -> None:
    step = begun(network())
    while bool(step(X, Y)[1]):
        pass
    assert_states_are_of_one_step(step, lambda: step(X, Y), bits, 4)
    assert_states_are_of_one_step(step, lambda: step(X * np.float32(1e30), Y), bits, 4)


def test_steps_that_share_them_take_turns() -> None:
    shared, alone = network(), network()
    steps = [begun(shared, engine, nn.SGD) for engine in ("openvino", "openvino", "onnxruntime")]
    loss = nn.WithLossCell(alone, nn.MSELoss())
    plain = graphls.compile(nn.TrainOneStepCell(loss, nn.SGD(alone.trainable_params(), 0.1)).set_train(), X, Y)
    overflows = 0
    for i in range(30):
        before = [p.asnumpy().tobytes() for p in shared.trainable_params()]
        overflow = bool(steps[i % 3](X * np.float32(1e30 if i % 5 == 3 else 1), Y)[1])
        assert overflow == (before == [p.asnumpy().tobytes() for p in shared.trainable_params()])
        overflows += overflow
        if not overflow:
            plain(X, Y)
        for one, other in zip(shared.trainable_params(), alone.trainable_params(), strict=True):
            np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), 1e-4, 1e-6)
    assert 8 < overflows < 22


def test_a_plan_parses_as_it_was() -> None:
    graph = begun(network()).plan.graph
    assert plan_of(graphls.ir.parse(graphls.ir.dump(graph))).deferred == plan_of(graph).deferred
