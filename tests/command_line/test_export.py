"""`python -m graphls export` on steps of modules in the working directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphls
from graphls.cli.main import main

MODULE = """
import numpy as np
import graphls
from graphls import nn

def parts():
    network = nn.Dense(4, 2)
    loss = nn.WithLossCell(network, nn.MSELoss())
    step = nn.TrainOneStepCell(loss, nn.Adam(network.trainable_params())).set_train()
    return step, np.ones((8, 4), np.float32), np.ones((8, 2), np.float32)

def compiled():
    return graphls.compile(*parts())

def number():
    return 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "steps_to_export.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("function", ["parts", "compiled"])
def test_a_step_is_written(function: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["export", f"steps_to_export:{function}", "-o", "out", "--with-loops", "python,javascript"]
    assert main(command) == 0
    files = "predict.onnx, state.safetensors, step.ir, step.json, step.mjs, step.onnx, step.py"
    assert capsys.readouterr().out == f"out: {files}\n"
    step = graphls.load_step(folder / "out")
    assert float(step(np.ones((8, 4), np.float32), np.ones((8, 2), np.float32))) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["steps_to_export:number"], "steps_to_export:number returns a int, not a compiled step"),
        (["steps_to_export:part"], "has no function 'part'; did you mean 'parts'"),
        (["nowhere:step"], "There is no module 'nowhere'"),
        (["steps_to_export:parts", "--with-loops", "rust"], "no loop in 'rust'; there are python, javascript."),
        (["steps_to_export:parts", "--opset", "5"], "5"),
    ],
)
def test_errors(arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *arguments, "-o", "out"]) == 1
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1 and not (folder / "out").exists()
