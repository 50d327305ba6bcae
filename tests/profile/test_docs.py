"""docs/profiling.md is true: its blocks run, and what does not depend on the time is what they print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnxruntime
import pytest

from tests.diagnosis.test_docs import run_page

PAGE = Path(__file__).parent.parent.parent / "docs" / "profiling.md"
TIMES = re.compile(r"\d+\.\d{3}|\d+\.\d%")


def untimed(text: str) -> list[str]:
    """The lines of a text without times and widths."""
    return [re.sub(r" +", " ", TIMES.sub("", line)) for line in text.splitlines()]


def lasting(text: str) -> list[str]:
    """The lines on phases and cells, without times, and those on memory."""
    _, phases, cells, _, _, memory = text.split("\n\n")
    timed = untimed("\n".join((phases, cells)))
    return timed + memory.rstrip().splitlines()


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bless: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (_, nothing), (expected, printed), (_, data), (rows, segments) = run_page(text, tmp_path, monkeypatch)
    assert nothing == "" and len(data.splitlines()) == 6
    assert len(json.loads((tmp_path / "step.json").read_text())) > 1000
    if bless:
        found = iter((printed, segments))
        PAGE.write_text(re.sub(r"```text\n.*?```", lambda _: f"```text\n{next(found)}```", text, flags=re.DOTALL))
        return
    assert untimed(segments) == untimed(rows)
    runs_here = f"ONNX Runtime {onnxruntime.__version__} " in expected  # another has other kernels
    assert lasting(printed)[0 if runs_here else -3 :] == lasting(expected)[0 if runs_here else -3 :]
