"""Steps with loss scaling on XLA, written in every way: flags, scales and states of the interpreter after each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.nn.linear import BATCHES, F32, OVERFLOW, Net, with_loss
from tests.nn.test_step_methods import NeitherBase, OwnGet, OwnProcess, OwnStart, Skipping
from tests.nn.test_user_steps import CvStep
from tests.ops.test_float_status import Hidden, OnGpu, Version1, Version2, Written

pytest.importorskip("jax")

RUN = (*BATCHES[:3], OVERFLOW, OVERFLOW, *BATCHES[3:])
EVERYTHING = {"use_clip_grad": True, "local_norm": True, "gradient_accumulation_steps": 2, "ema_decay": 0.9}
Make = Callable[[Any, Any, Any], nn.Cell]


def formers(loss: Any, optimizer: Any, manager: Any) -> nn.Cell:
    """MindFormers' step with all that it offers."""
    return nn.MFTrainOneStepCell(loss, optimizer, scale_sense=manager, **EVERYTHING)


class Chosen(nn.Cell):
    """A branch on its input inside of what is differentiated; in one branch float16 overflows, in the other nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def construct(self, x: Any, y: Any) -> Any:
        error = self.net(x) - y
        if ops.sum(x) > 0.0:
            half = ops.cast(error, graphls.float16)
            loss = ops.mean(ops.cast(half * half, graphls.float32))
        else:
            loss = ops.mean(ops.abs(error))
        return loss


def branching(loss: Any, optimizer: Any, manager: Any) -> nn.Cell:
    """A step whose network chooses by its input."""
    network = Chosen()
    own = nn.Adam(network.trainable_params(), 0.1)
    return nn.TrainOneStepWithLossScaleCell(network, own, nn.DynamicLossScaleUpdateCell(2.0**14, 2, 2))


STYLES = (OwnStart, OwnGet, OwnProcess, NeitherBase, Skipping, Version1, Version2, OnGpu, Written, CvStep)
MAKERS: dict[str, Make] = {**{style.__name__: style for style in STYLES}, "formers": formers, "branching": branching}


def calls(make: Make, engine: str, mode: str) -> list[dict[str, Any]]:
    """Results and states of each call."""
    graphls.set_seed(1)
    net, loss = with_loss()
    cell = make(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9), nn.DynamicLossScaleUpdateCell(16, 2, 3))
    step = graphls.compile(cell, *RUN[0], engine=engine, overflow_mode=mode)
    assert {segment.engine for segment in step.plan.segments} == {engine}
    rows = []
    for batch in RUN:
        results = {f"result {i}": v.asnumpy() for i, v in enumerate(step(*batch)) if v is not None}
        rows.append(results | {name: p.asnumpy() for name, p in step.parameters.items()})
    return rows


@pytest.mark.filterwarnings("ignore:Gradients in float32")
@pytest.mark.parametrize("name", MAKERS)
def test_results_and_states_are_those_of_the_interpreter(name: str) -> None:
    mode = "window" if list(MAKERS).index(name) % 2 else "outputs"
    expected, given = (calls(MAKERS[name], engine, mode) for engine in ("numpy", "xla"))
    skipped = [bool(row["result 1"]) for row in expected]
    assert any(skipped) and not all(skipped)
    for row, other in zip(expected, given, strict=True):
        assert row.keys() == other.keys()
        for key, value in row.items():
            is_float = value.dtype.kind == "f" and "scale" not in key and key != "result 2"
            np.testing.assert_allclose(other[key], value, rtol=1e-4 if is_float else 0, atol=1e-6 if is_float else 0)


@pytest.mark.parametrize("sens", [1.0, 1024.0])
def test_a_sens_multiplies_gradients(sens: float) -> None:
    states = []
    for engine in ("numpy", "xla"):
        net, loss = with_loss()
        cell = nn.TrainOneStepCell(loss, nn.SGD(net.trainable_params(), 0.1 / sens), sens)
        step = graphls.compile(cell, *BATCHES[0], engine=engine)
        for batch in BATCHES:
            step(*batch)
        states.append(net.weight.asnumpy())
    np.testing.assert_allclose(*states, rtol=1e-5, atol=1e-6)


def test_a_window_sees_what_no_gradient_shows_and_the_cause_is_explained() -> None:
    net, x = Hidden(), np.full(3, 10, F32)
    cell = nn.TrainOneStepWithLossScaleCell(net, nn.SGD(net.trainable_params(), 0.1), nn.FixedLossScaleUpdateCell(4.0))
    step, other = (graphls.compile(cell, x, engine=engine, overflow_mode="window") for engine in ("xla", "numpy"))
    assert bool(step(x)[1])
    np.testing.assert_array_equal(net.weight.asnumpy(), np.ones(3, F32))
    assert "tests/ops/test_float_status.py" in str(step.explain_overflow(x))
    assert str(step.explain_overflow(x)) == str(other.explain_overflow(x))


@pytest.mark.filterwarnings("ignore:Gradients in float32")
def test_a_large_scale_divides_no_inputs() -> None:
    """Inputs divided by the scale would be subnormal, which is 0 to XLA, so that weights would learn too little."""
    x, labels = np.linspace(-1, 1, 800, dtype=F32).reshape(4, 200), np.arange(4, dtype=np.int32)
    losses = []
    for engine in ("numpy", "xla"):
        graphls.set_seed(1)
        network = nn.SequentialCell(nn.Dense(200, 256), nn.ReLU(), nn.Dense(256, 10))
        loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
        cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.FixedLossScaleUpdateCell(2.0**126))
        step = graphls.compile(cell, x, labels, engine=engine)
        losses.append([step(x, labels)[0].asnumpy().item() for _ in range(4)])
    np.testing.assert_allclose(*losses, rtol=1e-5)
