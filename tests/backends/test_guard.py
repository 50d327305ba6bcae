"""Unusual models are tried in another process first, and refused ones get fewer optimizations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import graphls
from graphls import GraphlsError, nn, ops
from graphls.runtime.onnxruntime import guard
from graphls.runtime.onnxruntime.runtime import load_runtime

X = np.ones((2, 3), np.float32)


IS_UNUSUAL = guard.is_unusual
"""Before the tests of all others are kept from it."""


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own for the results of trials."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard, "_survived", {})
    monkeypatch.setattr(guard, "is_unusual", IS_UNUSUAL)
    return tmp_path / "graphls" / "trials"


def model_of(function: Any, *inputs: Any) -> ModelProto:
    model: ModelProto = graphls.compile(function, *inputs).onnx
    return model


def test_neighbours_say_who_reads_whose_results() -> None:
    def step(x: Any, p: Any) -> Any:
        y = ops.tanh(x)
        return ops.cond(p > 0, lambda: y @ ops.transpose(y, (1, 0)), lambda: ops.zeros((2, 2), y.dtype))

    found = guard.neighbours(model_of(step, X, np.float32(1.0)))
    assert {"input Tanh", "Tanh If^", "Tanh Transpose", "Elementwise If", "If output"} <= found


def test_inputs_and_constants_without_elements_are_called_empty() -> None:
    constant = helper.make_tensor("c", TensorProto.FLOAT, [0], [])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    nodes = [helper.make_node("Concat", ["x", "c"], ["y"], axis=0)]
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])], [constant])
    assert guard.neighbours(helper.make_model(graph)) == {"input Concat", "empty Concat", "Concat output"}


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Dense(32, 3))

    def construct(self, x: Any) -> Any:
        return self.layers(x)


def test_ordinary_training_steps_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_survives", lambda *given: pytest.fail("an ordinary step was tried"))
    x, y = np.ones((2, 1, 4, 4), np.float32), np.zeros(2, np.int32)
    for optimizer, manager in ((nn.Momentum, 2.0**10), (nn.Adam, None)):
        net = Network()
        options = {"momentum": 0.9} if optimizer is nn.Momentum else {}
        update = optimizer(net.trainable_params(), 0.1, **options)
        loss = nn.WithLossCell(net, nn.CrossEntropyLoss())
        scale = nn.DynamicLossScaleUpdateCell(manager, 2, 100) if manager else None
        step = nn.TrainOneStepWithLossScaleCell(loss, update, scale) if scale else nn.TrainOneStepCell(loss, update)
        graphls.compile(step, x, y)(x, y)


def open_at(levels: list[str], dies_at: set[str] = frozenset(), refuses_at: set[str] = frozenset()) -> Any:
    """What opens a session, which is the name of its level; the levels that are asked for go into the list."""

    def opened(level: str) -> str:
        levels.append(level)
        assert level not in dies_at
        if level in refuses_at:
            raise ValueError(f"no {level}\nand more")
        return level

    return opened


LEVELS = SimpleNamespace(**{level: level for level in guard.LEVELS})
RUNTIME = SimpleNamespace(__version__="1", __file__="/none/onnxruntime/__init__.py", GraphOptimizationLevel=LEVELS)
MODEL = helper.make_model(helper.make_graph([helper.make_node("Never", ["x"], ["y"])], "g", [], []))


def test_a_model_that_is_refused_gets_fewer_optimizations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "is_unusual", lambda model: False)
    asked: list[str] = []
    with pytest.warns(UserWarning, match="could not optimize the step, which may be slow: no ORT_ENABLE_ALL"):
        session = guard.open_guarded(RUNTIME, MODEL, "cpu", open_at(asked, refuses_at=set(guard.LEVELS[:2])))
    assert session == "ORT_ENABLE_BASIC" and asked == list(guard.LEVELS[:3])
    with pytest.raises(GraphlsError, match=r"ONNX Runtime refused the step: no ORT_ENABLE_ALL \(tests/"):
        guard.open_guarded(RUNTIME, MODEL, "cpu", open_at([], refuses_at=set(guard.LEVELS)))


@pytest.mark.parametrize(
    ("nodes", "outputs", "level"), [(12_000, 2, 0), (4204, 451, 0), (7886, 2407, 2), (15762, 4807, 3)]
)
def test_large_graphs_with_many_outputs_get_fewer_optimizations(nodes: int, outputs: int, level: int) -> None:
    graph = onnx.GraphProto()
    graph.node.extend(onnx.NodeProto() for _ in range(nodes))
    graph.output.extend(onnx.ValueInfoProto() for _ in range(outputs))
    assert guard.first_level(graph) == guard.LEVELS[level]


def test_inputs_count_where_branches_may_read_them() -> None:
    graph = onnx.GraphProto()
    graph.node.extend(onnx.NodeProto() for _ in range(6600))
    graph.input.extend(onnx.ValueInfoProto() for _ in range(6300))
    assert guard.first_level(graph) == "ORT_ENABLE_ALL"
    graph.node.add(op_type="If")
    assert guard.first_level(graph) == "ORT_DISABLE_ALL"


def test_a_model_that_ends_the_process_is_never_opened_at_that_level(
    monkeypatch: pytest.MonkeyPatch, memory: Path
) -> None:
    tried: list[str] = []
    dies_at = set(guard.LEVELS[:2])

    def survives(runtime: Any, model: bytes, level: str) -> bool:
        tried.append(level)
        return level not in dies_at

    monkeypatch.setattr(guard, "_survives", survives)
    for _ in range(2):
        with pytest.warns(UserWarning, match="would end the process if it optimized this step in full"):
            assert guard.open_guarded(RUNTIME, MODEL, "cpu", open_at([], dies_at)) == "ORT_ENABLE_BASIC"
        guard._survived.clear()
    assert tried == list(guard.LEVELS[:3]), "a second run of the script remembers the trial"
    assert [file.read_text().split()[1:] for file in memory.iterdir()] == [["ORT_ENABLE_BASIC"]]


def test_a_model_that_always_ends_the_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_survives", lambda *given: False)
    with pytest.raises(GraphlsError, match=r'compile it with backend="numpy"'):
        guard.open_guarded(RUNTIME, MODEL, "cpu", open_at([], set(guard.LEVELS)))
    assert guard.open_guarded(RUNTIME, MODEL, "cuda", open_at([])) == "ORT_ENABLE_ALL", "another device is not tried"


def test_a_folder_that_cannot_be_written_is_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(guard, "_survives", lambda *given: True)
    assert guard.open_guarded(RUNTIME, MODEL, "cpu", open_at([])) == "ORT_ENABLE_ALL"


def test_a_trial_runs_the_model_and_its_end_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = load_runtime()
    data = model_of(lambda x, i: (ops.softmax(x, -1), i + 1), X, np.ones(2, np.int64)).SerializeToString()
    assert guard._survives(runtime, data, "ORT_ENABLE_ALL")
    assert guard._survives(runtime, b"no model", "ORT_ENABLE_ALL"), "a refusal is no death"
    ends = tmp_path / "ends.py"
    ends.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(guard, "TRIAL", ends)
    assert not guard._survives(runtime, data, "ORT_ENABLE_ALL")
    ends.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(guard, "PATIENCE", 0.3)
    assert guard._survives(runtime, data, "ORT_ENABLE_ALL"), "slowness is no death"


def test_a_trial_needs_nothing_of_graphls_and_prints_what_was_refused() -> None:
    runtime = load_runtime()
    command = [sys.executable, "-I", guard.TRIAL, Path(runtime.__file__).parents[1], "ORT_ENABLE_ALL"]
    run = subprocess.run(command, input=b"no model", capture_output=True, check=False, timeout=600)
    assert run.returncode == 0 and b"protobuf" in run.stderr.lower()
    assert "graphls" not in guard.TRIAL.read_text().replace("nothing of graphls", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the signal is that of a POSIX system")
def test_the_pattern_that_ended_older_runtimes_is_unusual() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    body = helper.make_graph([helper.make_node("Sin", ["y"], ["z"])], "b", [], [_info("z")])
    nodes.append(helper.make_node("If", ["p"], ["r"], then_branch=body, else_branch=body))
    graph = helper.make_graph(nodes, "g", [_info("x"), _info("w")], [_info("r")])
    assert guard.is_unusual(helper.make_model(graph))


def _info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 2, 2])
