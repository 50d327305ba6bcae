"""`python -m graphls dump`: pages and pictures from files of IR text."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphls.cli.main import main

TEXT = "graph @main(%x: f32[4]) {\n  %y = square(%x) : f32[4]  // forward\n  return %y\n}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "00_trace.ir"
    path.write_text(TEXT)
    return path


def test_without_options_it_prints_the_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("  %y", "%y").replace("// forward", "   //   remark"))
    assert main(["dump", str(file)]) == 0
    assert capsys.readouterr().out == TEXT


def test_a_page_has_a_tab_for_each_file_and_those_of_a_directory_in_order(file: Path) -> None:
    second = file.with_name("01_fold.ir")
    second.write_text(TEXT.replace("square", "relu"))
    page = file.with_name("page.html")
    assert main(["dump", str(file.parent), "--html", str(page)]) == 0
    text = page.read_text()
    assert text.index('"name":"00_trace"') < text.index('"name":"01_fold"')
    assert main(["dump", str(second), str(file), "--html", str(page)]) == 0
    text = page.read_text()
    assert text.index('"name":"01_fold"') < text.index('"name":"00_trace"')


def test_pictures_are_of_the_last_file(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / file.name
    other.parent.mkdir()
    other.write_text(TEXT.replace("square", "relu"))
    dot, svg = tmp_path / "a.dot", tmp_path / "a.svg"
    assert main(["dump", str(file), str(other), "--dot", str(dot), "--svg", str(svg)]) == 0
    assert "relu" in dot.read_text() and "square" not in dot.read_text()
    assert "relu" in svg.read_text() and svg.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe", "not UTF-8"), (b"graph @main(", "page.ir"), (None, "has no .ir files")],
    ids=["bytes", "text", "empty directory"],
)
def test_a_wrong_file_is_one_line_and_leaves_no_page(
    tmp_path: Path, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "page.ir").write_bytes(content)
    page = tmp_path / "page.html"
    assert main(["dump", str(tmp_path), "--html", str(page)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error and not page.exists()
