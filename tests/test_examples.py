"""The examples run from an empty folder and learn."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_training_flow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accuracy = loaded("training_flow").main(str(tmp_path))
    printed = capsys.readouterr().out
    assert accuracy > 0.9
    assert "a batch by name: {'image': ((32, 1, 8, 8), Float32), 'label': ((32,), Int32)}" in printed
    assert "epoch: 8 step: 44, loss is " in printed and "Train epoch time: " in printed
    assert (tmp_path / "lenet-8_44.ckpt").is_file() and (tmp_path / "lenet-graph.meta").is_file()
