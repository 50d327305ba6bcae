"""The notebooks of docs/gallery hold what they show, and what runs them fails where it must."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from tools import gallery

PATHS = gallery.notebooks()


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in gallery.read(path)["cells"] if cell["cell_type"] == "code"]


def notebook(*sources: str, **metadata: Any) -> dict[str, Any]:
    cells = [{"cell_type": "code", "metadata": metadata, "source": s.splitlines(keepends=True)} for s in sources]
    return {"cells": cells}


def shown(*sources: str, **metadata: Any) -> list[Any]:
    """What the cells of a notebook show: texts that are printed, and dicts of forms."""
    outputs = [o for cell in gallery.run(notebook(*sources, **metadata))["cells"] for o in cell["outputs"]]
    return ["".join(o["text"]) if o["output_type"] == "stream" else o["data"] for o in outputs]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_was_run_from_above_and_ends_with_a_statement(path: Path) -> None:
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any(isinstance(node, ast.Assert) for node in ast.parse(gallery.source_of(cells[-1])).body)
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    text = path.read_text(encoding="utf-8")
    assert text == gallery.written(gallery.read(path)) and len(text.encode()) <= gallery.LARGEST
    assert not re.search(r" at 0x[0-9a-f]{6}|/tmp/|/home/|/root/", text)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_picture_of_a_notebook_is_the_one_in_it(path: Path) -> None:
    end, image = gallery.picture(gallery.read(path))
    assert (gallery.GALLERY / "images" / path.stem).with_suffix(end).read_bytes() == image
    colours = set(re.findall(rb"var\((--\w+)\)", image))
    assert end == ".png" or (b"xmlns=" in image and colours <= set(re.findall(rb"(--\w+):", image)))


def test_the_page_of_the_gallery_shows_every_notebook() -> None:
    page = (gallery.GALLERY / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\((\w+)\.ipynb\)", page) == [path.stem for path in PATHS] and len(PATHS) == 10
    assert re.findall(r"images/(\w+)\.", page) == [path.stem for path in PATHS]


def test_the_overflow_is_found_again() -> None:
    """The quickest notebook runs here; `make gallery` runs all."""
    run = gallery.run(gallery.read(gallery.GALLERY / "09_overflow.ipynb"))
    outputs = [cell["outputs"] for cell in run["cells"] if cell["cell_type"] == "code"]
    kept = [cell["outputs"] for cell in code_cells(gallery.GALLERY / "09_overflow.ipynb")]
    assert [[sorted(o.get("data", ())) for o in cell] for cell in outputs] == [
        [sorted(o.get("data", ())) for o in cell] for cell in kept
    ]


def test_a_cell_shows_what_it_prints_and_its_last_value() -> None:
    assert shown("x = 1\nprint('a\\nb')\nx + 1", "x = 3", "x", "None", "") == [
        "a\nb\n",
        {"text/plain": ["2"]},
        {"text/plain": ["3"]},
    ]
    source = (
        "class A:\n  def __repr__(self): return '<A at 0x7f12ab>'\n  def _repr_html_(self): return '<b>\\n</b>'\nA()"
    )
    assert shown(source) == [{"text/plain": ["<A>"], "text/html": ["<b>\n", "</b>"]}]
    assert shown("print(1)\ndisplay(2, 3)\nprint(4)") == ["1\n", {"text/plain": ["2"]}, {"text/plain": ["3"]}, "4\n"]


def test_cells_are_sources_that_graphls_can_read() -> None:
    source = "import graphls\ndef f(x):\n    if x.sum() > 0:\n        return x\n    return -x\n"
    assert shown(source, "print(graphls.compile(f, graphls.Tensor([1.0]))(graphls.Tensor([-2.0])))") == ["[2.]\n"]


def test_what_fails_names_the_cell() -> None:
    with pytest.raises(AssertionError, match="too small") as failed:
        gallery.run(notebook("x = 1", "assert x > 1, 'too small'"))
    assert "ipython-input-2" in str(failed.traceback[-1].path)


def test_a_warning_is_an_error_unless_the_cell_says_that_it_warns() -> None:
    source = "import warnings\nwarnings.warn('mind this')\n1"
    with pytest.raises(UserWarning, match="mind this"):
        gallery.run(notebook(source))
    assert shown(source, tags=["warns"]) == ["UserWarning: mind this\n", {"text/plain": ["1"]}]
    with pytest.raises(ValueError, match="does not warn"):
        gallery.run(notebook("1", tags=["warns"]))


def test_a_run_writes_what_is_shown_or_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "images").mkdir()
    monkeypatch.setattr(gallery, "GALLERY", tmp_path)
    path = tmp_path / "one.ipynb"
    html = '<p style="--red:#f00"><svg style="a:b" fill="var(--red)"></svg></p>'
    cell = f"class A:\n  def _repr_html_(self): return {html!r}\nA()"
    before = gallery.written(notebook(cell, picture=1))
    path.write_text(before)
    assert gallery.run_file(path, True) == "" and path.read_text() == before
    assert gallery.run_file(path, False) == "" and path.read_text() != before
    head, style = '<svg xmlns="http://www.w3.org/2000/svg" ', "color-scheme:light dark;--red:#f00;a:b"
    picture = (tmp_path / "images" / "one.svg").read_text()
    assert picture == f'{head}style="{style}" fill="var(--red)"></svg>\n'
    path.write_text(gallery.written(notebook("1 / 0")))
    assert "one.ipynb" in gallery.run_file(path, False) and "CPU" in capsys.readouterr().out
