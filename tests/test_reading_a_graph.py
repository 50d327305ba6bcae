"""docs/reading_a_graph.md is what the code makes, leaves no line of its graph out, and its commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from graphls.cli.main import main
from tools.fill_blocks import filled, stages_of

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "reading_a_graph.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert filled(PAGE) == PAGE, "docs/reading_a_graph.md is stale: run `make pages`"


def test_the_page_explains_every_line() -> None:
    whole, *excerpts = re.findall(r"<!-- (?:stage|lines) [^\n]*-->\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert {*whole.splitlines()} - {line for text in excerpts for line in text.splitlines()} == {"}"}


def test_a_block_that_asks_for_what_is_not_there_is_an_error() -> None:
    with pytest.raises(AssertionError, match="No line begins with '%nothing'"):
        filled(PAGE.replace("%network -->", "%nothing -->"))


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, graph in stages_of(PAGE).items():
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / f"{name}.ir").write_text(str(graph), encoding="utf-8")
    commands = re.findall(r"^    python -m graphls (.*)$", PAGE, re.MULTILINE)
    assert [main(shlex.split(command, comments=True)) for command in commands] == [1, 0]
    out, err = capsys.readouterr()
    assert out.startswith("Nodes: 0 added, 0 removed, 2 changed") and "// 03_dce\nNodes: " in err and "total" in err
