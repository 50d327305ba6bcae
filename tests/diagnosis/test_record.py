"""Statistics of every float value of a run: those that the step computes, on every engine, and no state changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.inspect.diagnosis import watched
from graphls.inspect.diagnosis.recording import PIECE, Recording, Statistics
from graphls.ir import parse
from graphls.ir.types import Type
from graphls.runtime.onednn.engine import Onednn
from tests.low_precision.steps import require_engine

X, Y = np.linspace(-1, 1, 32).reshape(8, 4).astype(np.float32), np.ones((8, 1), np.float32)


class Network(nn.Cell):
    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.first = nn.Dense(4, 8, "ones").to_float(dtype)
        self.second = nn.Dense(8, 1, "ones").to_float(dtype)
        self.drop = nn.Dropout(p=0.5)

    def construct(self, x: Any, y: Any) -> Any:
        hidden = self.drop(ops.relu(self.first(x)))
        return ops.square(ops.cast(self.second(hidden), graphls.float32) - y).mean()


def step_of(dtype: Any = graphls.float16, scale: float = 8.0, **options: Any) -> graphls.Compiled:
    graphls.set_seed(1)
    network = Network(dtype)
    manager = nn.FixedLossScaleUpdateCell(scale)
    optimizer = nn.Adam(network.trainable_params(), 0.1)
    cell = nn.TrainOneStepWithLossScaleCell(network, optimizer, manager).set_train()
    return graphls.compile(cell, X, Y, **options)


def states(step: graphls.Compiled) -> dict[str, Any]:
    return {name: np.array(parameter.asnumpy()) for name, parameter in step.parameters.items()}


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy", "onednn"])
def test_low_values_are_recorded(engine: str) -> None:
    require_engine(engine)
    cell = nn.Dense(4, 1, has_bias=False).to_float(amp.CurrentScaling())
    recording = graphls.compile(cell, X, engine=engine).record(X)
    statistics = recording["%quantize"]
    assert statistics.type.dtype is graphls.float8_e4m3fn
    assert (statistics.minimum, statistics.maximum, statistics.not_finite) == (-448, 448, 0)


KINDS: dict[str, dict[str, Any]] = {
    "one": {}, "numpy": {"engine": "numpy"}, "onednn": {"engine": "onednn"}, "reference": {"backend": "numpy"},
}  # fmt: skip


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.filterwarnings("ignore:Gradients in bfloat16")
@pytest.mark.parametrize("dtype", [graphls.float16, graphls.bfloat16], ids=str)
def test_the_values_are_those_of_the_next_step(dtype: Any, options: dict[str, Any]) -> None:
    if options.get("engine") == "onednn" and not Onednn().version():
        pytest.skip("oneDNN is not installed")
    step = step_of(dtype, **options)
    step(X, Y)
    before = states(step)
    recording = step.record(X, Y)
    assert all(np.array_equal(value, before[name]) for name, value in states(step).items())
    loss = step(X, Y)[0].asnumpy()
    assert recording[step.graph.outputs[0].name].mean == pytest.approx(float(loss), rel=1e-6), "dropout draws the same"
    updated = [w for w in step.graph.writes if w.state.name == "first.weight"]
    assert recording["@first.weight"].mean == pytest.approx(before["first.weight"].mean(), rel=1e-6)
    inner = [v for v in recording if v.type.shape == (8, 4) and v.name == updated[0].value.name]
    after = states(step)["first.weight"]
    for v in inner[:1]:  # what leaves a kernel of oneDNN is rounded
        assert (recording[v].minimum, recording[v].maximum) == pytest.approx((after.min(), after.max()), rel=1e-6)


@pytest.mark.parametrize("engine", ["onnxruntime", "onednn"])
def test_an_overflow_is_seen_where_it_begins_and_the_skipped_update_is_not_there(engine: str) -> None:
    if engine == "onednn" and not Onednn().version():
        pytest.skip("oneDNN is not installed")
    step = step_of(scale=2.0**24, engine=engine)
    recording = step.record(X, Y)
    first = recording.not_finite[0]
    assert first.type.dtype is graphls.float16 and recording[first].not_finite > 0
    assert f"at first %{first.name}." in recording.summary
    assert step_of().record(X, Y).not_finite == ()
    conds = (node for node in step.graph.nodes if node.primitive.is_branch)
    made = {v for node in conds for n in node.regions[1].nodes for v in n.outputs}
    assert made and not made & set(recording)


def test_more_values_than_fit_take_more_runs_of_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({}, {"engine": "numpy"}):
        step = step_of(**options)
        whole = step.record(X, Y)
        with monkeypatch.context() as patch:
            patch.setattr(watched, "MOST_BYTES", 600)
            parts = step.record(X, Y)
        assert dict(parts) == dict(whole)


def test_statistics_of_an_array() -> None:
    array = np.array([0, 0, 1, 2, 3, 4, np.inf, np.nan, -np.inf, 16], np.float16)
    found = Statistics.of(Type(graphls.float16, (10,)), array)
    assert (found.minimum, found.maximum, found.mean) == (0, 16, pytest.approx(26 / 7))
    assert (found.zeros, found.not_finite) == (0.2, 0.3)
    assert found.histogram == (2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
    assert found.bars == "█▄▄▄▄          ▄"
    nothing = Statistics.of(Type(graphls.float32, (2,)), np.full(2, np.nan, np.float32))
    assert (nothing.minimum, nothing.mean, nothing.not_finite) == (None, None, 1.0)
    large = np.random.default_rng(0).normal(size=PIECE + 5).astype(np.float32)
    found = Statistics.of(Type(graphls.float32, large.shape), large)
    assert (found.minimum, found.maximum) == (large.min(), large.max())
    assert found.histogram == tuple(np.histogram(large.astype(float), 16)[0])


def test_a_recording_is_a_table_and_a_card() -> None:
    recording = step_of(scale=2.0**24).record(X, Y)
    text = str(recording)
    assert text.splitlines()[0] == recording.summary
    assert "minimum" in text and "%loss" not in text.splitlines()[3], "what is not finite comes first"
    assert "graphls-card" in recording._repr_html_()
    with pytest.raises(graphls.GraphlsError, match="No value '%nothing' was recorded"):
        recording["%nothing"]


def test_names_of_a_plan_and_of_its_segments() -> None:
    graph = parse("""graph @g(%x: f32[2]) {
  %b = segment() {engine="numpy"} : f32[2] region {
    %a = exp(%x) : f32[2]
    yield %a
  }
  return %b
}""")
    of = Statistics.of(graph.inputs[0].type, np.ones(2, np.float32))
    inner = graph.nodes[0].regions[0].nodes[0].output
    recording = Recording(graph, {graph.inputs[0]: of, inner: of, graph.outputs[0]: of})
    assert recording["%b"] is recording["a"] is of
    assert recording.summary.startswith("@g: 2 float values in one run.")
