"""Cells that update the loss scale in the step, against plain Python models of the rules."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphls
from graphls import amp, nn, ops
from graphls.ir.errors import GraphTypeError, GraphValueError

BACKENDS = ["numpy", "onnxruntime"]
FLAGS = st.lists(st.sampled_from([False, False, False, True]), max_size=60)


class Update(nn.Cell):
    """A scale and its update cell, as a training step holds them."""

    def __init__(self, manager: nn.Cell, scale: Any = None) -> None:
        super().__init__()
        self.manager = manager
        scale = np.float32(manager.get_loss_scale()) if scale is None else scale
        self.scale = graphls.Parameter(scale, name="scale", requires_grad=False)

    def construct(self, overflow: Any) -> Any:
        return self.manager(self.scale, overflow), self.scale


class Running:
    """A compiled update that starts anew for each sequence."""

    def __init__(self, cell: Update, backend: str) -> None:
        self.cell = cell
        self.step = graphls.compile(cell, np.zeros((), bool), backend=backend)
        self.first = {p: p.asnumpy().copy() for p in cell.get_parameters()}

    def scales(self, overflows: list[bool]) -> list[float]:
        for parameter, value in self.first.items():
            parameter.set_data(value)
        return [self.one(overflow) for overflow in overflows]

    def one(self, overflow: bool) -> float:
        returned, scale = self.step(np.array(overflow))
        assert bool(returned) is overflow
        return float(scale)


@cache
def dynamic(scale: float, factor: float, window: int, backend: str) -> Running:
    return Running(Update(nn.DynamicLossScaleUpdateCell(scale, factor, window)), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60)
@given(FLAGS, st.sampled_from([(16, 2, 3), (4.0, 2, 1), (2**24, 4, 5), (100.0, 3, 2), (8, 0.5, 4)]))
def test_the_cell_does_what_the_manager_does(backend: str, overflows: list[bool], rule: tuple[Any, Any, int]) -> None:
    manager = amp.DynamicLossScaleManager(*rule)
    expected = []
    for overflow in overflows:
        manager.update_loss_scale(overflow)
        expected.append(float(manager.get_loss_scale()))
    running = dynamic(*rule, backend)
    np.testing.assert_allclose(running.scales(overflows), np.float32(expected), rtol=1e-5)
    assert int(running.cell.manager.current_iterator_step) == manager.cur_iter


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_rise_and_those_after_an_overflow(backend: str) -> None:
    running = dynamic(16, 2, 3, backend)
    assert running.scales([False] * 7) == [16, 16, 32, 32, 32, 64, 64]
    assert running.scales([False, True, *[False] * 6, *[True] * 5]) == [16, 8, 8, 8, 16, 16, 16, 32, 16, 8, 4, 2, 1]
    assert running.scales([True] * 8)[-1] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_limits_the_rise(backend: str) -> None:
    scales = dynamic(2.0**126, 2, 1, backend).scales([False] * 3)
    assert scales == [2.0**127, np.inf, np.inf]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [np.float16(16), np.array([16], np.float16), np.int32(16), np.array([16], np.int32)])
def test_a_scale_keeps_its_dtype_and_shape(backend: str, scale: Any) -> None:
    for manager in (nn.DynamicLossScaleUpdateCell(16, 2, 3), nn.AdaptiveLossScaleUpdateCell(16, 2, 3)):
        step = graphls.compile(Update(manager, scale), np.zeros((), bool), backend=backend)
        found = [step(np.array(overflow))[1] for overflow in (True, False, False, False)]
        assert [f.asnumpy().item() for f in found] == [8, 8, 8, 16]
        assert {(f.dtype.numpy, f.shape) for f in found} == {(scale.dtype, scale.shape)}


def test_a_float32_scale_is_not_cast() -> None:
    graph = dynamic(16, 2, 3, "numpy").step.graph
    assert not [n for n in graph.nodes if n.primitive.name in ("cast", "reshape", "depend", "reciprocal")]


def test_the_scale_is_computed_in_float32_under_to_float() -> None:
    cell = Update(nn.DynamicLossScaleUpdateCell(3 * 2.0**24, 2, 3)).to_float(graphls.float16)
    step = graphls.compile(cell, np.zeros((), bool), backend="numpy")
    step(np.array(True))
    assert float(cell.scale) == 3 * 2.0**23


def test_cells_give_the_number_they_were_made_with() -> None:
    for cell in (
        nn.DynamicLossScaleUpdateCell(212, 2, 3),
        nn.FixedLossScaleUpdateCell(212),
        nn.AdaptiveLossScaleUpdateCell(212, 2, 30),
    ):
        assert cell.get_loss_scale() == 212 and isinstance(cell.get_loss_scale(), int)
        assert amp.__dict__[type(cell).__name__] is type(cell)
    states = nn.DynamicLossScaleUpdateCell(212, 2, 3).parameters_dict()
    assert {(n, p.asnumpy().item(), p.dtype) for n, p in states.items()} == {
        ("current_iterator_step", 1, graphls.int32),
        ("last_overflow_iterator_step", 0, graphls.int32),
    }
    assert list(nn.FixedLossScaleUpdateCell(212).get_parameters()) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fixed_cell_keeps_the_scale(backend: str) -> None:
    assert Running(Update(nn.FixedLossScaleUpdateCell(32)), backend).scales([True, False, True]) == [32, 32, 32]


# -- the adaptive cell ------------------------------------------------------------------------------------------------


def windows_by_halving(largest: int, smallest: int) -> list[int]:
    """Half of the one before, in hundreds above 100, down to the smallest."""
    found = [largest]
    while found[-1] // 2 > smallest:
        half = found[-1] // 2
        found.append(half // 100 * 100 if half > 100 else half)
    return sorted({smallest, *(w for w in found if w > smallest)})


class Adaptive:
    """The rule of the adaptive cell in plain Python: a list of what happened, and a window."""

    def __init__(self, scale: float, factor: float, window: int, largest: int, smallest: int) -> None:
        self.scale, self.factor, self.window = scale, factor, window
        self.listed, self.smallest = windows_by_halving(largest, smallest), smallest
        self.since = 0
        self.events: list[str] = []

    def update(self, overflow: bool) -> tuple[float, int]:
        self.since += 1
        if overflow:
            self.scale, self.since = max(self.scale / self.factor, 1.0), 0
            self.events.append("fall")
        elif self.since >= self.window:
            self.scale, self.since = self.scale * self.factor, 0
            self.events.append("rise")
        if self.events[-3:] == ["rise"] * 3:
            self.window = min((w for w in self.listed if w > self.window), default=self.window)
            self.events.clear()
        elif self.events[-3:] == ["fall"] * 3:
            self.window = self.smallest
            self.events.clear()
        return self.scale, self.window


@cache
def adaptive(rule: tuple[Any, ...], backend: str) -> Running:
    return Running(Update(nn.AdaptiveLossScaleUpdateCell(*rule)), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=20),
    st.sampled_from([(1024.0, 2, 2, 16, 2), (64.0, 2, 3, 7, 1), (2.0**20, 4, 1, 4, 4), (8.0, 2, 30, 12, 5)]),
)
def test_the_adaptive_rule(backend: str, runs: list[tuple[bool, int]], rule: tuple[Any, ...]) -> None:
    model, running = Adaptive(*rule), adaptive(rule, backend)
    running.scales([])
    for overflow in (flag for flag, count in runs for _ in range(count)):
        scale, window = model.update(overflow)
        assert running.one(overflow) == scale
        assert int(running.cell.manager.scale_window) == window


def test_the_windows_are_listed_by_halving() -> None:
    def listed(*limits: int) -> list[int]:
        return nn.AdaptiveLossScaleUpdateCell(16, 2, 50, *limits).scale_window_list

    assert listed() == [1000, 500, 200, 100, 50, 25, 20]
    assert listed(20, 20) == [20]
    for limits in ((1000, 20), (2000, 1), (5, 4), (999, 100), (150, 100), (100, 30)):
        assert sorted(listed(*limits)) == windows_by_halving(*limits)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), GraphValueError, "For 'AdaptiveLossScaleUpdateCell', the 'scale_window' must be int and must > 0"),
        ((2.0,), GraphTypeError, "'scale_window' must be int"),
        ((2, "9"), GraphTypeError, "'max_scale_window' must be int"),
        ((2, 0), GraphValueError, "'max_scale_window' must be int and must > 0"),
        ((2, 9, -1), GraphValueError, "'min_scale_window' must be int and must > 0"),
        ((2, 9, None), GraphTypeError, "'min_scale_window' must be int"),
        ((2, 9, 10), GraphValueError, "'max_scale_window' must not be less than the 'min_scale_window', but got 9"),
    ],
)
def test_wrong_windows(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        nn.AdaptiveLossScaleUpdateCell(16, 2, *arguments)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_adaptive_cell_in_a_training_step(backend: str) -> None:
    net = nn.Dense(4, 3, weight_init="ones").to_float(graphls.float16)
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    manager = nn.AdaptiveLossScaleUpdateCell(2.0**8, 2, 2, 8, 1)
    cell = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, manager)
    x, y = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)
    step = graphls.compile(cell, x, y, backend=backend)
    model = Adaptive(2.0**8, 2, 2, 8, 1)
    for number in range(12):
        bad = number in (3, 4, 5)
        _, overflow, scale = step(np.full_like(x, np.inf) if bad else x, y)
        assert (bool(overflow), float(scale)) == (bad, model.update(bad)[0])
        assert int(manager.scale_window) == model.window


def test_only_parameters_are_updated() -> None:
    class Wrong(nn.Cell):
        def construct(self, overflow: Any) -> Any:
            return nn.DynamicLossScaleUpdateCell(16, 2, 3)(ops.ones((), graphls.float32), overflow)

    with pytest.raises(GraphTypeError, match="takes a Parameter to write to"):
        graphls.compile(Wrong(), np.zeros((), bool), backend="numpy")
