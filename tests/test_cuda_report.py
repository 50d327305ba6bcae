"""The report of `python -m tests.cuda`, which itself needs a GPU; see tests/cuda."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cuda import __main__ as run
from tests.cuda import report

ROOT = Path(__file__).parent.parent


def line(id: str, outcome: str, text: str = "", notes: tuple[str, ...] = ()) -> str:
    return json.dumps({"id": id, "outcome": outcome, "seconds": 1.0, "notes": notes, "text": text})


def test_a_run_that_was_stopped_tells_what_it_had(tmp_path: Path) -> None:
    wrong = "assert 1 == 2\nand more"
    lines = [line("b", "failed", wrong), line("a", "passed", notes=("12 ms",)), line("c", "failed", wrong)]
    lines += [line("d", "skipped", "no loop"), line("b", "passed"), '{"id": "e", "outc']
    (tmp_path / "results").write_text("\n".join(lines))
    found = report.read(tmp_path / "results")
    assert [(result.id, result.outcome) for result in found] == [
        ("a", "passed"), ("b", "failed"), ("c", "failed"), ("d", "skipped")
    ]  # fmt: skip
    text = report.section("checks", "was stopped after 9 s", 9.0, found)
    assert text.startswith("== checks: was stopped after 9 s, 9 s: 1 passed, 2 failed, 1 skipped\n12 ms\n")
    assert "skipped 1: no loop" in text and text.count("assert 1 == 2") == 1
    assert report.read(tmp_path / "none") == []


def test_folders_that_run_on_a_card_exist() -> None:
    assert all((ROOT / "tests" / folder).exists() for folder in run.FOLDERS)
    named = {file.name for file in (ROOT / "tests" / "cuda").glob("test_*.py")}
    assert named == {Path(a).name for stage in run.stages("") for a in stage.arguments if a.startswith("tests/cuda/")}


def test_without_a_card_nothing_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(report, "fault_of_card", lambda: "no card")
    assert run.main([]) == 2
    assert "There is no GPU to test: no card" in capsys.readouterr().out
