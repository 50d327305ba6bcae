"""Profiles of plans: the plan of the step is what runs, each kernel has a node and an engine, and times add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.ir import engines, walk
from graphls.ir.errors import GraphRuntimeError
from graphls.runtime.engines import Numpy
from graphls.runtime.onednn.engine import Onednn
from graphls.runtime.onnxruntime import profiled
from tests.backends.test_plan import X, Y, states, trained
from tests.profile.test_measure import dropout
from tests.profile.test_report import check_nesting, check_trace

NEEDS_ONEDNN = pytest.mark.skipif(not Onednn().version(), reason="oneDNN is not installed")
ENGINES = ["onnxruntime", "numpy", "mixed", pytest.param("onednn", marks=NEEDS_ONEDNN)]


def settled(engine: str, monkeypatch: pytest.MonkeyPatch) -> graphls.Compiled:
    """A step in segments that no longer overflows; "mixed" computes one node with NumPy, the rest elsewhere."""
    if engine == "mixed":
        monkeypatch.setattr(Numpy, "takes", lambda self, node: node.primitive.name == "log_softmax")
        engine = "numpy"
    step = trained(True, monkeypatch, engine=engine)
    while bool(step(X, Y)[1].asnumpy()):
        pass
    return step


@pytest.mark.parametrize("engine", ENGINES)
def test_every_kernel_is_that_of_a_node_and_has_an_engine(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = settled(engine, monkeypatch)
    profile = step.profile(X, Y, steps=3)
    nodes = set(walk(step.graph))
    kernels = [k for run in profile.runs for k in run.kernels]
    others = {(k.node, k.operator) for k in kernels if k.node not in nodes}
    assert others <= {(None, "Identity"), (None, "overflow_start"), (None, "copy, NumPy")}
    assert {profile.engine_of(k) for k in kernels} == {row.engine for row in step.plan.segments}
    if engine == "mixed":
        assert {row.engine for row in step.plan.segments} == {"numpy", "onnxruntime"}
        found = {k.node.primitive.name for k in kernels if k.node and profile.engine_of(k) == "numpy"}
        assert found - {"constant"} == {"log_softmax"}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_times_of_segments_add_up(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = settled(engine, monkeypatch)
    profile = step.profile(X, Y, steps=4)
    rows = profile.by_segment
    assert sum(row.seconds for row in rows) + profile.between_seconds == pytest.approx(profile.step_seconds)
    assert profile.between_seconds > 0
    for row in rows:
        assert 0 <= row.in_nodes <= row.seconds + 1e-6 * (row.kernels + 1)
        assert (row.seconds > 0) == (row.ran > 0)
    branches = [row.ran for row in rows if row.segment.runs]
    assert sum(branches) >= 4 and {row.ran for row in rows if not row.segment.runs} == {4}
    assert sum(row.kernels for row in rows) == sum(len(run.kernels) for run in profile.runs) / 4
    for run in profile.runs:
        assert [s.number for s in run.segments] == sorted(s.number for s in run.segments)
        spans = {s.number: (s.start, s.start + s.seconds) for s in run.segments}
        for kernel in run.kernels:
            begin, end = spans[kernel.segment]
            assert begin - 1e-9 <= kernel.start <= kernel.start + kernel.seconds <= end + 2e-6
    text = str(profile)
    assert "(between them)" in text and " if false" in text and "ms under the profiler are between the segments" in text
    assert ("NumPy" in text) == (engine in ("numpy", "mixed"))
    assert ("oneDNN 3" in text) == (engine == "onednn")
    assert ("ONNX Runtime" in text) == (engine != "numpy")
    assert "if false" in profile._repr_html_()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_profile_changes_no_state(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, other = (settled(engine, monkeypatch) for _ in range(2))
    before = states(step)
    step.profile(X, Y, steps=2)
    assert states(step) == before
    graphls.set_seed(3)
    first = [t.asnumpy().tobytes() for t in step(X, Y)]
    graphls.set_seed(3)
    assert first == [t.asnumpy().tobytes() for t in other(X, Y)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trace_has_segments_and_what_crosses(engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    step = settled(engine, monkeypatch)
    profile = step.profile(X, Y, steps=2)
    profile.save_trace(tmp_path / "trace.json")
    slices = [e for e in check_trace(tmp_path / "trace.json", has_segments=True) if e["cat"] == "segments"]
    assert [e["args"]["engine"] for e in slices] == [
        step.plan.segments[s.number].engine for run in profile.runs for s in run.segments
    ]
    assert slices[0]["args"]["bytes given"] == step.plan.segments[0].gives > 0
    check_nesting([(e["ts"], e["ts"] + e["dur"]) for e in slices])
    arrows = [e for e in json.loads((tmp_path / "trace.json").read_text()) if e["ph"] in "sf"]
    begun, ended = ([e for e in arrows if e["ph"] == kind] for kind in "sf")
    assert [e["id"] for e in begun] == [e["id"] for e in ended] == list(range(1, len(begun) + 1)) != []
    assert all(b["ts"] <= e["ts"] for b, e in zip(begun, ended, strict=True))
    sizes = {f"%{row.value}": row.bytes for row in step.plan.crossing}
    assert all(sizes[e["name"]] == e["args"]["bytes"] for e in arrows)


def test_calls_of_python_are_timed_too() -> None:
    def function(x: Any) -> Any:
        return ops.sum(ops.exp(ops.pure_callback(np.cos, x, x)))

    step = graphls.compile(function, X)
    profile = step.profile(X, steps=2)
    found = {profile.engine_of(k): k.node.primitive.name for run in profile.runs for k in run.kernels if k.node}
    assert found.keys() == {"host", "onnxruntime"} and found["host"] in ("py_func", "pure_callback", "call")
    assert "Python 3." in str(profile)


def test_an_engine_without_times_has_whole_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        name, runs_python, writes_in_place, runs_whole = "numpy", True, False, False
        takes, open, check = Numpy.takes, Numpy.open, Numpy.check

    monkeypatch.setattr(Plain, "takes", lambda self, node: node.primitive.name == "log_softmax")
    monkeypatch.setitem(engines._engines, "numpy", Plain())
    step = trained(True, monkeypatch, engine="numpy")
    profile = step.profile(X, Y, steps=2)
    rows = [row for row in profile.by_segment if row.segment.engine == "numpy" and row.ran]
    assert rows and all(row.seconds > 0 and row.kernels == row.in_nodes == 0 for row in rows)
    assert " and numpy" in str(profile)


def test_what_crosses_is_held_and_states_count_as_the_plan_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    step = settled("numpy", monkeypatch)
    memory = step.profile(X, Y, steps=1).memory
    assert memory.crossing == sum(row.bytes for row in step.plan.crossing)
    twice = {w.state for w in step.graph.writes}
    assert memory.states == sum(s.type.nbytes * (1 + (s in twice)) for s in step.graph.states)
    assert memory.peak == sum((memory.states, memory.inputs, memory.constants, memory.crossing)) + sum(
        held.bytes for held in memory.live
    )


def test_a_step_in_one_piece_has_no_table_of_segments(tmp_path: Path) -> None:
    step, inputs = dropout("onnxruntime")
    profile = step.profile(*inputs, steps=1)
    assert profile.by_segment == () and profile.between_seconds == 0 and "segment" not in str(profile)
    assert {profile.engine_of(k) for run in profile.runs for k in run.kernels} == {"onnxruntime"}
    profile.save_trace(tmp_path / "trace.json")
    assert "segment" not in (tmp_path / "trace.json").read_text()


def test_a_full_profile_of_a_segment_ends_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    step = settled("onnxruntime", monkeypatch)
    whole = profiled.ProfiledOrtPart.runs
    monkeypatch.setattr(profiled.ProfiledOrtPart, "runs", lambda self, path: whole(self, path)[:4])
    profile = step.profile(X, Y, steps=5)
    assert 0 < profile.steps < profile.requested == 5
    monkeypatch.setattr(profiled.ProfiledOrtPart, "runs", lambda self, path: [])
    with pytest.raises(GraphRuntimeError, match="more operators than the profile"):
        step.profile(X, Y, steps=5)


def test_nothing_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = settled("mixed", monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    step.profile(X, Y, steps=1)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("graphls.runtime.profiled_plan.ProfiledPlan.run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        step.profile(X, Y, steps=1)
    assert list(tmp_path.iterdir()) == []
