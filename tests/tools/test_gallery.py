"""The notebooks of docs/gallery were run, and hold what they show; test_notebooks.py is about running them."""

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
