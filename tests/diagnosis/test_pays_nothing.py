"""Who does not ask pays nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import graphls
from tests.diagnosis.networks import X, Y, identity, scaled_step

ROOT = Path(__file__).parent.parent.parent
LAZY = [
    "graphls.inspect.diagnosis",
    *(f"graphls.passes.{name}" for name in ("overflow.rescale", "overflow.watch", "autodiff.widen")),
]

RUN = """
import sys
import numpy as np
import graphls
from graphls import nn
net = nn.WithLossCell(nn.Dense(4, 3).to_float(graphls.float16), nn.MSELoss())
optimizer = nn.SGD(net.trainable_params(), 0.1)
cell = nn.TrainOneStepWithLossScaleCell(net, optimizer, nn.DynamicLossScaleUpdateCell(4, 2, 3))
x, y = np.ones((2, 4), np.float32), np.ones((2, 3), np.float32)
step = graphls.compile(cell, x, y, backend="numpy")
step(x, y)
print(*sys.modules)
"""


def test_no_module_is_imported_before_somebody_asks() -> None:
    run = subprocess.run([sys.executable, "-c", RUN], cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    found = run.stdout.split()
    assert [name for name in found if name.startswith(tuple(LAZY)) or name == "graphls.primitives.summary"] == []


def test_the_step_is_the_same_before_and_after() -> None:
    step = scaled_step(identity, "numpy")
    text, session = str(step.graph), step._session
    step.explain_overflow(X, Y)
    step.gradient_ranges(X, Y)
    assert str(step.graph) == text and step._session is session
    assert str(scaled_step(identity, "numpy").graph) == text
    assert "summary" not in text and "scale_factor" not in text


def test_what_is_compiled_for_answers_is_kept() -> None:
    step = scaled_step(identity, "onnxruntime")
    assert step._diagnosis is None
    step.explain_overflow(X, Y)
    watched = step._diagnosis.watched
    step.explain_overflow(X, Y)
    assert step._diagnosis.watched is watched


def test_the_dump_of_the_step_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHLS_DUMP", str(tmp_path))
    step = scaled_step(identity, "numpy")
    folder = tmp_path / step.graph.name
    stages = {path.name: path.read_text() for path in folder.iterdir()}
    step.explain_overflow(X, Y)
    step.gradient_ranges(X, Y)
    assert {path.name: path.read_text() for path in folder.iterdir()} == stages
    assert graphls.parse(stages["00_trace.ir"]).name == step.graph.name
