"""docs/overflow.md is true: its blocks run one after the other, and print what it says."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "overflow.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def run_page(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What each block of a page says it prints, and prints; together the blocks are the file train.py."""
    blocks = [(match[1], match[2] or "") for match in BLOCK.finditer(text)]
    (folder / "train.py").write_text("".join(code for code, _ in blocks))
    monkeypatch.chdir(folder)
    linecache.clearcache()  # which may know another train.py
    names: dict[str, Any] = {}
    line, results = 0, []
    for code, expected in blocks:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * line + code, "train.py", "exec"), names)
        line += code.count("\n")
        results.append((expected, output.getvalue()))
    return results


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bless: bool) -> None:
    text = PAGE.read_text()
    results = run_page(text, tmp_path, monkeypatch)
    assert len(results) == 7 and sum(bool(printed) for _, printed in results) == 6
    if bless:
        printed = iter([f"```text\n{printed}```" for _, printed in results if printed])
        PAGE.write_text(re.sub(r"```text\n.*?```", lambda _: next(printed), text, flags=re.DOTALL))
    else:
        assert [printed for _, printed in results] == [expected for expected, _ in results]
