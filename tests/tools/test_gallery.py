"""The notebooks of docs/gallery were run, and hold what they show; test_notebooks.py is about running them."""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from graphls.base.text.charts import Line, chart
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
    assert re.findall(r"\((\w+)\.ipynb\)", page) == [path.stem for path in PATHS] and len(PATHS) == 14
    assert re.findall(r"images/(\w+)\.", page) == [path.stem for path in PATHS]


def test_a_notebook_that_needs_other_packages_is_left_out_without_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gallery, "find_spec", lambda name: None)
    assert gallery.runnable(PATHS) == [path for path in PATHS if path.stem != "12_from_torch"]
    text = "12_from_torch is left out without torch and onnxscript: make gallery-torch runs it"
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr(gallery, "find_spec", lambda name: name)
    assert gallery.runnable(PATHS) == PATHS


FROM_SCRATCH = gallery.GALLERY / "00_from_scratch.ipynb"


def test_the_compiler_from_scratch_is_short_and_stands_alone() -> None:
    """Its functions, classes and tables of rules have at most 400 lines, without docstrings and blank lines."""
    tree = ast.parse("\n\n\n".join(map(gallery.source_of, code_cells(FROM_SCRATCH))))
    imports = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    imports |= {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert not any(name.partition(".")[0] == "graphls" for name in imports)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    assert sum(len(ast.unparse(node).splitlines()) for node in tree.body if is_definition(node)) <= 400


def is_definition(node: ast.stmt) -> bool:
    """Whether a statement defines a function, a class or a table, whose name is in capitals."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    is_table = any(isinstance(target, ast.Name) and target.id.isupper() for target in targets)
    return is_table or isinstance(node, (ast.FunctionDef, ast.ClassDef))


def test_the_table_of_the_compiler_from_scratch_names_what_there_is() -> None:
    paths = re.findall(r"`(graphls/[\w/.]+)`", gallery.source_of(gallery.read(FROM_SCRATCH)["cells"][-1]))
    root = gallery.GALLERY.parents[1]
    assert len(paths) > 10 and [path for path in paths if not (root / path).exists()] == []


def test_a_picture_with_another_one_inside_is_a_file_of_its_own() -> None:
    """Charts are as wide as their page, which a file does not have, and have their lines in a picture of their own."""
    html = chart("Loss", [Line("loss", [(1, 2.0), (2, 1.0)], "red")]) + "<svg>another</svg>"
    cell = {"metadata": {"picture": 1}, "outputs": [{"data": {"text/html": html}}]}
    end, content = gallery.picture({"cells": [cell]})
    outer = ElementTree.fromstring(content)
    inner = outer[0]
    assert end == ".svg" and outer.get("viewBox") == "0 0 640 220" and "padding" not in content.decode()
    assert (inner.get("x"), inner.get("width"), inner.get("height")) == ("52", "574", "154")
    assert len(inner.findall(".//{*}path")) == 1 and b"another" not in content
