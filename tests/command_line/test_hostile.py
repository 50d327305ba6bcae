"""The command line in the folder of a stranger: links, modules, escape sequences and broken text that lie there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphls.cli.main import main
from tests.importing import onnx_models as models

TEXT = "graph @g(%x: f32[2]) {\n  %y = exp(%x) : f32[2]  // forward\n  return %y\n}\n"
OWN = ("html", "json", "secrets", "networkx", "webbrowser", "tokenize")
LATE = ("html", "webbrowser")  # Python itself lets `-m` read the others while it imports the package


def test_a_page_is_not_written_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    model = tmp_path / "folder" / "x.onnx"
    model.parent.mkdir()
    model.write_bytes(models.branch().SerializeToString())
    (model.parent / "x.onnx.html").symlink_to(precious)
    assert main(["view", str(model), "--no-open"]) == 1
    assert "x.onnx.html is a link to another file; name the page to write with --html." in capsys.readouterr().err
    assert precious.read_text() == "mine"
    assert main(["view", str(model), "--no-open", "--html", str(tmp_path / "own.html")]) == 0


@pytest.mark.parametrize("arguments", [["opt", "g.ir", "--html", "page.html"], ["opt", "--import", "mine", "g.ir"]])
@pytest.mark.parametrize("names", [OWN, LATE])
def test_modules_in_the_working_directory_stand_for_none_of_python(
    tmp_path: Path, names: tuple[str, ...], arguments: list[str]
) -> None:
    program, folder = tmp_path / "graphls", tmp_path / "folder"
    program.write_text("from graphls.cli.main import main\nraise SystemExit(main())")
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(f"open('ran_{name}', 'w')")
    (folder / "mine.py").write_text("open('imported', 'w').close()")
    (folder / "g.ir").write_text(TEXT)
    command = [sys.executable, *(["-m", "graphls"] if names is LATE else [str(program)]), *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)
    assert not list(folder.glob("ran_*"))
    assert (folder / "imported").exists() is ("mine" in arguments)


def test_an_error_shows_escape_sequences_and_sends_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.ir"
    for text in (TEXT.replace("exp(%x)", 'exp(%"\x1b]0;title\x07")'), "\x1b[2J", 'graph @"\x9b31m\u202e" {'):
        path.write_text(text, encoding="utf-8")
        assert main(["opt", str(path)]) == 1
        error = capsys.readouterr().err
        assert error.rstrip("\n").isprintable()


@pytest.mark.parametrize("node", ["exp() ", "transpose(%x) {permutation=[3]}", "reshape(%x) {shape=none}", "concat()"])
def test_passes_over_broken_text_end_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], node: str
) -> None:
    path = tmp_path / "g.ir"
    path.write_text(TEXT.replace("exp(%x)", node))
    for passes in ("fold", "cse", "dce", "order", "merge", "factor", "gradient"):
        if main(["opt", "-p", passes, str(path)]):
            assert capsys.readouterr().err.startswith("graphls: ")


def test_ten_megabytes_of_brackets_are_refused_at_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.ir"
    path.write_text("(" * 10_000_000)
    assert main(["opt", str(path)]) == 1
    assert "expected 'graph' and found '('" in capsys.readouterr().err


def test_new_files_have_the_umask_and_old_ones_keep_their_mode(tmp_path: Path) -> None:
    source, new, old = tmp_path / "g.ir", tmp_path / "new.ir", tmp_path / "old.ir"
    source.write_text(TEXT)
    old.touch()
    old.chmod(0o640)
    before = os.umask(0o077)
    try:
        assert main(["opt", str(source), "-o", str(new)]) == 0
        assert main(["opt", str(source), "-o", str(old)]) == 0
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (new, old)] == [0o600, 0o640]
