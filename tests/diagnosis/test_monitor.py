"""Reports that are read late, and one line for each change of regime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.diagnosis import LossScaleMonitor, RegimeChange, StepReport
from graphls.frontend.tensors.tensor import Tensor
from graphls.inspect.diagnosis.regimes import Regimes
from graphls.inspect.diagnosis.report import History
from graphls.ir.errors import GraphTypeError, GraphValueError
from tests.diagnosis.networks import BACKENDS, F32, Net, X, Y, identity, scaled_step


class Buffer:
    """A number on a device that counts how often the host waited for it."""

    waits = 0

    def __init__(self, value: Any) -> None:
        self.value = value

    def numpy(self) -> Any:
        Buffer.waits += 1
        return np.asarray(self.value)


def outputs(skipped: bool, scale: float, loss: float = 1.5) -> tuple[Tensor, ...]:
    arrays = np.array(loss, F32), np.array(skipped), np.array(scale, F32)
    return tuple(Tensor.on_device(Buffer(a), Tensor(a).type) for a in arrays)


def test_reports_are_read_only_when_asked() -> None:
    Buffer.waits = 0
    history = History()
    reports = [StepReport(outputs(i in (1, 4), 2.0**i), history) for i in range(7)]
    assert Buffer.waits == 0
    assert reports[6].scale == 64.0 and Buffer.waits == 1
    assert reports[5].steps_since_overflow == 1 and Buffer.waits == 7  # the flags of the six steps until then
    assert [r.steps_since_overflow for r in reports] == [1, 0, 1, 2, 0, 1, 2]
    assert [r.skipped for r in reports] == [i in (1, 4) for i in range(7)]
    assert Buffer.waits == 8
    assert (reports[2].loss, reports[2].step) == (1.5, 3)
    assert str(reports[1]) == "step 2: loss 1.5, scale 2^1, skipped"
    assert str(reports[3]) == "step 4: loss 1.5, scale 2^3, 2 without overflow"
    third = StepReport((Tensor(np.float32(1 / 3)), Tensor(False), Tensor(1.0)))
    assert str(third) == "step 1: loss 0.333333, scale 1, 1 without overflow"


def test_a_report_of_losses_and_of_longer_tuples() -> None:
    losses = Tensor(np.array([1, 2], F32))
    report = StepReport((losses, Tensor(False), Tensor(np.array([4], F32)), Tensor(0.1), None))
    assert report.loss.tolist() == [1.0, 2.0] and report.scale == 4 and report.steps_since_overflow == 1


WRONG = [Tensor(1.0), (Tensor(1.0), Tensor(1.0), Tensor(1.0)), (Tensor(1.0), Tensor(True)), 3]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_step_with_loss_scaling(wrong: Any) -> None:
    with pytest.raises(GraphTypeError, match="the loss, a bool for the overflow and the scale"):
        StepReport(wrong)


def regimes(scales: list[float], start: float | None, settled_after: int = 5, patience: int = 4) -> list[RegimeChange]:
    """The changes over steps with these scales after them; a step is skipped where the scale is negative."""
    found, history = Regimes(start, settled_after, patience), History()
    changes = (found.after(StepReport(outputs(scale < 0, abs(scale)), history)) for scale in scales)
    return [change for change in changes if change is not None]


def lines(*arguments: Any, **options: Any) -> list[str]:
    return list(map(str, regimes(*arguments, **options)))


FALL = [-(2.0**i) for i in range(23, 16, -1)]


def test_calibration_is_one_line_at_its_start_and_one_at_its_end() -> None:
    assert lines([*FALL, *[2.0**17] * 60], 2.0**24) == [
        "step 1: the scale is being calibrated: 2^24 does not fit.",
        "step 12: the scale has settled: from 2^24 to 2^17 in 7 skipped steps; begin the next run with 2^17.",
    ]
    assert lines([8.0] * 60, 8.0) == ["step 5: the scale has settled at 2^3; no step was skipped."]
    assert "from 2^23 to 2^17 in 7 skipped steps; begin" in lines([*FALL, *[2.0**17] * 60], None)[1]


def test_single_skips_of_a_settled_scale_are_silent() -> None:
    period = [*[16.0] * 9, 32.0, -16.0]
    assert len(lines(period * 50, 16.0)) == 1


def test_falling_outside_of_calibration() -> None:
    steps = [64.0] * 8 + [-(2.0**i) for i in range(5, 0, -1)] + [2.0] * 30
    assert lines(steps, 64.0) == [
        "step 5: the scale has settled at 2^6; no step was skipped.",
        "step 12: the scale keeps falling: from 2^6 to 2^2 in 4 skipped steps.",
        "step 18: the scale has settled: from 2^6 to 2^1 in 5 skipped steps.",
    ]


def test_a_slow_fall_is_a_fall() -> None:
    steps = [64.0] * 8 + [s for i in range(5, 0, -1) for s in (-(2.0**i), 2.0**i)]
    assert lines(steps, 64.0)[1:] == ["step 15: the scale keeps falling: from 2^6 to 2^2."]


def test_calibration_may_take_long_but_not_below_1() -> None:
    assert len(lines(FALL, 2.0**24)) == 1
    assert lines([-max(2.0**i, 1) for i in range(4, -5, -1)], 32.0)[1:] == [
        "step 5: the scale keeps falling: from 2^5 to 1 in 5 skipped steps."
    ]
    assert lines([-16.0] * 9, 16.0)[1:] == ["step 4: 4 steps in a row were skipped at the scale 2^4."]


def test_growth_is_told_when_it_holds() -> None:
    steps = [16.0] * 9 + [32.0] * 9 + [64.0] * 3 + [-32.0] + [64.0] * 20 + [256.0] * 20
    assert lines(steps, 16.0)[1:] == [
        "step 27: the scale has grown from 2^4 to 2^6; 5 steps in a row did not overflow.",
        "step 47: the scale has grown from 2^6 to 2^8; 25 steps in a row did not overflow.",
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_monitored_run(backend: str) -> None:
    """The scale fits from 2^14 on; then the weights break, and the reason is told once."""
    told: list[RegimeChange] = []
    step = scaled_step(identity, backend, scale=2.0**20)
    monitor = LossScaleMonitor(step, look_every=5, settled_after=10, tell=told.append)
    plain = [t.item() for t in monitor(X, Y)]
    assert plain == [16.0, True, 2.0**19] and monitor.regime == "calibrating"
    reports = [monitor.step(0.01 * X, Y) for _ in range(24)]
    assert [r.skipped for r in reports[:2]] == [False, False]
    assert [(c.regime, c.step) for c in told] == [("calibrating", 1), ("settled", 11)]
    assert str(told[1]).endswith("from 2^20 to 2^19 in 1 skipped step.")
    weight = step.parameters["weight"].asnumpy()
    weight[2, 1] = np.inf
    step.parameters["weight"].set_data(weight)
    for _ in range(30):
        report = monitor.step(X, Y)
    assert report.skipped and report.steps_since_overflow == 0 and monitor.regime == "falling"
    assert [c.regime for c in told] == ["calibrating", "settled", "falling"] and monitor.changes == told
    explanation = told[2].explanation
    assert explanation is not None and explanation.sources[0].name == "weight"
    expected = "step 33: the scale keeps falling: from 2^19 to 2^11 in 8 skipped steps. The parameter 'weight' holds"
    assert str(told[2]).startswith(expected)


def test_lines_are_printed_and_late_steps_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    monitor = LossScaleMonitor(scaled_step(identity, "numpy", scale=4.0), look_every=100, settled_after=3)
    for _ in range(4):
        monitor(0.01 * X, Y)
    assert capsys.readouterr().out == ""
    assert [c.step for c in monitor.look()] == [3]
    assert capsys.readouterr().out == "step 3: the scale has settled at 2^2; no step was skipped.\n"
    assert monitor.look() == []


def test_a_report_read_before_the_look_is_not_lost() -> None:
    monitor = LossScaleMonitor(scaled_step(identity, "numpy", scale=4.0), look_every=3, settled_after=3, tell=len)
    with pytest.raises(TypeError):
        for _ in range(3):
            monitor.step(0.01 * X, Y).steps_since_overflow  # noqa: B018  reading it is the point
    assert [c.regime for c in monitor.changes] == ["settled"]


def test_what_cannot_be_monitored() -> None:
    net = nn.Dense(4, 3)
    step = graphls.compile(net, X, backend="numpy")
    with pytest.raises(GraphTypeError, match="returns \\(loss, overflow, scale"):
        LossScaleMonitor(step)
    with pytest.raises(GraphTypeError, match="takes a compiled step"):
        LossScaleMonitor(net)
    with pytest.raises(GraphValueError, match="'look_every' is an integer of 1 or more, not 0"):
        LossScaleMonitor(scaled_step(identity, "numpy"), look_every=0)


class FiveOutputs(nn.TrainOneStepWithLossScaleCell):
    """Returns more than the three, as steps with a learning rate and a norm do."""

    def construct(self, *inputs: Any) -> Any:
        loss, overflow, scale = super().construct(*inputs)
        return loss, overflow, scale, self.optimizer.learning_rate, None


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_that_return_more(backend: str) -> None:
    network = nn.WithLossCell(Net(identity), nn.MSELoss())
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = FiveOutputs(network, optimizer, nn.DynamicLossScaleUpdateCell(2.0**15, 2, 100))
    monitor = LossScaleMonitor(graphls.compile(cell, X, Y, backend=backend), look_every=1, settled_after=2, tell=str)
    assert len(monitor(X, Y)) == 5
    monitor(X, Y)
    monitor(0.01 * X, Y)
    assert [str(c) for c in monitor.changes] == [
        "step 1: the scale is being calibrated: 2^15 does not fit.",
        "step 3: the scale has settled: from 2^15 to 2^14 in 1 skipped step.",
    ]


@pytest.mark.parametrize("manager", [graphls.Tensor(8.0), graphls.Tensor(np.array([8.0], F32))])
def test_scales_of_every_shape(manager: Any) -> None:
    monitor = LossScaleMonitor(scaled_step(identity, "numpy", manager=manager), look_every=1, settled_after=2, tell=str)
    for _ in range(2):
        monitor(0.01 * X, Y)
    assert [str(c) for c in monitor.changes] == ["step 2: the scale has settled at 2^3; no step was skipped."]
