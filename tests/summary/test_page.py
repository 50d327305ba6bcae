"""The page on summaries says what its blocks print."""

from __future__ import annotations

import re

import pytest

from tests.test_docs import DOCS, run

PAGE = "seeing_a_step.md"


def test_the_page_shows_what_its_blocks_print(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    names = run(PAGE)
    shown = re.findall(r"```text\n(.*?)```", (DOCS / PAGE).read_text(encoding="utf-8"), re.DOTALL)
    assert capsys.readouterr().out == "".join(shown)
    assert names["dense"].flops == 64 * 32 * (2 * 72 + 1)
