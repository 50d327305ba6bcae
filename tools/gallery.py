"""Run the notebooks of docs/gallery and write what they show into them: `make gallery`, or `python -m tools.gallery`.

Each notebook runs in a process of its own, in an empty folder, and as IPython would run it: a cell shows what it prints
and the value of its last line. IPython itself is not needed, so that this takes a second for each notebook and no
further package. An error ends the run and names the cell, and so does a warning, unless the cell has the tag `warns`.
With `--check` nothing is written.
"""

from __future__ import annotations

import argparse
import ast
import base64
import json
import linecache
import multiprocessing
import os
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
LARGEST = 150_000
"""Bytes that a notebook may have with all that it shows."""

WARNS = "warns"
"""The tag of a cell that warns; a warning of any other is an error."""

FORMS = {"_repr_html_": "text/html", "_repr_svg_": "image/svg+xml", "_repr_png_": "image/png"}
"""The methods by which objects show themselves in notebooks, and what they give."""

Output = dict[str, Any]


def notebooks() -> list[Path]:
    """All notebooks, in the order of their names."""
    return sorted(GALLERY.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    """A notebook as the dict that its file is."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def written(notebook: dict[str, Any]) -> str:
    """The text of the file, as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def source_of(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


class Shell:
    """The names that the cells of one notebook share, and what each of them shows."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "display": self.display}
        self.outputs: list[Output] = []
        self.count = 0

    def run(self, source: str) -> list[Output]:
        """Run a cell and return its outputs; raises what it raises."""
        self.count += 1
        self.outputs = []
        file = f"<ipython-input-{self.count}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        body = ast.parse(source, file).body
        last = body.pop() if body else None
        if last is not None and not isinstance(last, ast.Expr):
            body.append(last)
        printed = _Printed(self.outputs)
        with redirect_stdout(printed):
            exec(compile(ast.Module(body, []), file, "exec"), self.names)
            if isinstance(last, ast.Expr):
                self._show(eval(compile(ast.Expression(last.value), file, "eval"), self.names))
        return self.outputs

    def run_and_warn(self, source: str) -> list[Output]:
        """Run a cell that must warn, and show its warnings as IPython does, in front."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.run(source)
        if not caught:
            raise ValueError(f"Cell {self.count} has the tag {WARNS!r} and does not warn.")
        texts = [f"{each.category.__name__}: {each.message}\n" for each in caught]
        return [{"output_type": "stream", "name": "stderr", "text": texts}, *self.outputs]

    def display(self, *things: object) -> None:
        """Show objects, as IPython's function of this name does."""
        for thing in things:
            self.outputs.append({"output_type": "display_data", "data": bundle(thing), "metadata": {}})

    def _show(self, value: object) -> None:
        if value is not None:
            result = {"output_type": "execute_result", "execution_count": self.count}
            self.outputs.append({**result, "data": bundle(value), "metadata": {}})


class _Printed(StringIO):
    """What a cell prints, put behind what it has shown before."""

    def __init__(self, outputs: list[Output]) -> None:
        super().__init__()
        self.outputs = outputs

    def write(self, text: str) -> int:
        if not self.outputs or self.outputs[-1]["output_type"] != "stream":
            self.outputs.append({"output_type": "stream", "name": "stdout", "text": []})
        stream = self.outputs[-1]
        stream["text"] = ("".join(stream["text"]) + text).splitlines(keepends=True)
        return len(text)


def bundle(value: object) -> dict[str, Any]:
    """What a notebook keeps of a value: its text, and its picture or table where it has one."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))  # another one each time
    found: dict[str, Any] = {"text/plain": text.splitlines(keepends=True)}
    for method, form in FORMS.items():
        shown = getattr(value, method, lambda: None)()
        if isinstance(shown, bytes):
            found[form] = base64.b64encode(shown).decode()
        elif shown is not None:
            found[form] = shown.splitlines(keepends=True)
    return found


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with what its cells show now; raises what a cell raises, and a warning as an error."""
    shell, cells = Shell(), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                method = shell.run_and_warn if WARNS in cell["metadata"].get("tags", ()) else shell.run
                cell = {**cell, "outputs": method(source_of(cell)), "execution_count": shell.count}
            cells.append(cell)
    return {**notebook, "cells": cells}


PICTURE = re.compile(r"<svg.*?</svg>", re.DOTALL)
COLOURS = re.compile(r'style="(--[^"]*)"')


def picture(notebook: dict[str, Any]) -> tuple[str, bytes]:
    """The picture that stands for a notebook, with the end of its file's name.

    A cell says by its metadata `picture` that it shows it, and which of its pictures it is, from 1.
    """
    cell = next(cell for cell in notebook["cells"] if "picture" in cell["metadata"])
    number = cell["metadata"]["picture"] - 1
    shown = [output["data"] for output in cell["outputs"] if "data" in output]
    images = [data["image/png"] for data in shown if "image/png" in data]
    if images:
        return ".png", base64.b64decode(images[number])
    text = "".join("".join(data.get("image/svg+xml", data.get("text/html", ""))) for data in shown)
    return ".svg", _alone(PICTURE.findall(text)[number], COLOURS.search(text)).encode()


def _alone(svg: str, colours: re.Match[str] | None) -> str:
    """A picture of a page as a file of its own: with its name space, and the colours that the page has defined."""
    head = "<svg " if " xmlns=" in svg.partition(">")[0] else '<svg xmlns="http://www.w3.org/2000/svg" '
    style = f'style="color-scheme:light dark;{colours[1] + ";" if colours else ""}'
    return svg.replace("<svg ", head, 1).replace('style="', style, 1) + "\n"


def run_file(path: Path, is_check: bool) -> str:
    """Run a notebook in an empty folder, write it unless this is a check, and return what went wrong, or nothing."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            notebook = run(read(path))
        except Exception:
            return f"{path.name}:\n{traceback.format_exc()}"
        finally:
            os.chdir(before)
    text = written(notebook)
    size = len(text.encode())
    end, image = picture(notebook)
    if not is_check:
        path.write_text(text, encoding="utf-8")
        (GALLERY / "images" / path.stem).with_suffix(end).write_bytes(image)
    print(f"{path.stem:24} {time.process_time() - start:5.1f} s of CPU  {size / 1000:6.1f} kB", flush=True)
    return f"{path.name} has {size:,} bytes, more than {LARGEST:,}." if size > LARGEST else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tools.gallery", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of notebooks, such as 01_digits; all where none is given")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    paths = [GALLERY / f"{name}.ipynb" for name in options.names] or notebooks()
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        faults = [fault for path in paths if (fault := pool.apply(run_file, (path, options.check)))]
    print(*faults, sep="\n", end="")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
