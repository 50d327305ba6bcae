"""`python -m graphls view`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graphls.cli.main import main
from graphls.ir import Graph, dump
from tests.importing import onnx_models as models

TEXT = "graph @g(%x: f32[2]) {\n  %y = exp(%x) : f32[2]  // forward\n  return %y\n}\n"


class Seen:
    """What would have been written and opened."""

    def __init__(self) -> None:
        self.pages: dict[Path, Mapping[str, Graph]] = {}
        self.opened: list[str] = []

    def write_page(self, path: Path, stages: Mapping[str, Graph], **ignored: Any) -> None:
        self.pages[path] = stages

    def open(self, address: str) -> bool:
        self.opened.append(address)
        return True


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()
    monkeypatch.setattr("graphls.cli.view.write_page", seen.write_page)
    monkeypatch.setattr("webbrowser.open", seen.open)
    return seen


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a b.onnx"
    path.write_bytes(models.branch().SerializeToString())
    return path


def test_a_model_is_shown_beside_its_file_and_opened(
    seen: Seen, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(model)]) == 0
    page = model.parent / "a b.onnx.html"
    assert capsys.readouterr() == (f"{page}\n", "")
    ((path, stages),) = seen.pages.items()
    assert path == page
    assert {name: graph.name for name, graph in stages.items()} == {"a b": "made"}
    assert seen.opened == [page.as_uri()] and "%20" in seen.opened[0]


def test_the_page_can_lie_elsewhere_and_stay_closed(seen: Seen, model: Path, tmp_path: Path) -> None:
    assert main(["view", str(model), "--html", str(tmp_path / "out.html"), "--no-open"]) == 0
    assert list(seen.pages) == [tmp_path / "out.html"]
    assert seen.opened == []


def test_a_relative_path_is_opened_by_its_full_address(
    seen: Seen, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    assert main(["view", model.name, "--html", "out.html"]) == 0
    assert seen.opened == [(model.parent / "out.html").as_uri()]


def test_ir_text_is_shown(seen: Seen, tmp_path: Path) -> None:
    (tmp_path / "g.ir").write_text(TEXT)
    assert main(["view", str(tmp_path / "g.ir"), "--no-open"]) == 0
    (stages,) = seen.pages.values()
    assert [dump(graph) for graph in stages.values()] == [TEXT]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.onnx", b"", "a.onnx is not an ONNX model: there is no graph in it."),
        ("a.onnx", b"\xff\xfe", "a.onnx is not an ONNX model, or not all of one"),
        ("a.ir", b"\xff\xfe", "a.ir is not UTF-8 text"),
        ("a.ir", b"graph", "a.ir:1:"),
        ("missing.onnx", None, "missing.onnx cannot be read: No such file or directory."),
    ],
)
def test_errors_are_one_line(
    seen: Seen, name: str, content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert main(["view", str(tmp_path / name)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert not seen.pages and not seen.opened
