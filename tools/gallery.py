"""Run the notebooks of docs/gallery and save their outputs: `make gallery`, or `python -m tools.gallery`.

Each notebook runs in a kernel of Jupyter of its own, in an empty folder. An error ends the run and names the cell, and
so does a warning, unless the cell has the tag `warns`. A notebook that requires a package which is not installed is
left out, unless it is named. With `--check` nothing is written, and cells must show the kinds of things that the file
has.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
LARGEST = 150_000
"""Bytes that a notebook may have with all that it shows."""

LONGEST = 300
"""Seconds that one cell may take."""

WARNS = "warns"
"""The tag of a cell that warns; a warning of any other is an error."""

PREPARED = """
import itertools, warnings

def mind_warnings(info=None, *, _counts=itertools.count(1)):
    warnings.simplefilter("always" if next(_counts) in {counts} else "error")

warnings.formatwarning = lambda message, category, *rest: f"{{category.__name__}}: {{message}}\\n"
get_ipython().events.register("pre_run_cell", mind_warnings)
get_ipython().events.register("post_run_cell", lambda *_: warnings.resetwarnings())
"""
"""Code that a kernel runs before a notebook, with the numbers of the cells that warn; warnings show no path."""

QUIET = ["--log-level=CRITICAL"]
"""The kernel itself logs nothing."""

Output = dict[str, Any]


def notebooks() -> list[Path]:
    """All notebooks, in the order of their names."""
    return sorted(GALLERY.glob("*.ipynb"))


def runnable(paths: Sequence[Path]) -> list[Path]:
    """The notebooks whose required packages, in the metadata `requires`, are installed; prints which ones are not."""
    required = {path: read(path)["metadata"].get("requires", ()) for path in paths}
    lacking = {path: [name for name in names if not find_spec(name)] for path, names in required.items()}
    for path, names in lacking.items():
        if names:
            print(f"{path.stem} is left out without {' and '.join(names)}: make gallery-torch runs it", flush=True)
    return [path for path, names in lacking.items() if not names]


def read(path: Path) -> dict[str, Any]:
    """The dict of the file of a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def written(notebook: dict[str, Any]) -> str:
    """The text of the file, as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def source_of(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def run(notebook: dict[str, Any], folder: str | Path = ".") -> dict[str, Any]:
    """The notebook with the outputs of a new run.

    Raises CellExecutionError where a cell raises or warns, with the traceback that a notebook shows, and ValueError for
    a cell that does not warn although it has the tag.
    """
    done = iter(_executed([cell for cell in notebook["cells"] if _is_code(cell)], folder))
    return {**notebook, "cells": [next(done) if _is_code(cell) else cell for cell in notebook["cells"]]}


def _is_code(cell: dict[str, Any]) -> bool:
    return bool(cell["cell_type"] == "code")


def _executed(cells: list[dict[str, Any]], folder: str | Path) -> list[dict[str, Any]]:
    """Cells with code, run in a kernel one after the other."""
    import nbformat
    from nbclient import NotebookClient

    warns = [count for count, cell in enumerate(cells, 1) if WARNS in cell["metadata"].get("tags", ())]
    sources = [PREPARED.format(counts=warns), *map(source_of, cells)]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    place = {"metadata": {"path": str(folder)}}
    limits = {"timeout": LONGEST, "startup_timeout": LONGEST}
    client = NotebookClient(book, kernel_name="python3", resources=place, extra_arguments=QUIET, **limits)
    with tempfile.TemporaryDirectory() as settings, client.setup_kernel(env={**os.environ, "IPYTHONDIR": settings}):
        for index, cell in enumerate(book.cells):
            client.execute_cell(cell, index, store_history=index > 0)
    results = [_file_outputs(each.outputs) for each in book.cells[1:]]
    silent = [count for count in warns if not any(output.get("name") == "stderr" for output in results[count - 1])]
    if silent:
        raise ValueError(f"Cell {silent[0]} has the tag {WARNS!r} and does not warn.")
    numbered = enumerate(zip(cells, results, strict=True), 1)
    return [{**cell, "outputs": outputs, "execution_count": count} for count, (cell, outputs) in numbered]


def _file_outputs(outputs: Sequence[Output]) -> list[Output]:
    """The outputs of a cell in the form of a file: texts by lines, and consecutive prints as one."""
    results: list[Output] = []
    for output in outputs:
        sorted_output = {key: output[key] for key in sorted(output)}
        if "data" in output:
            results.append({**sorted_output, "data": _forms(output["data"])})
        elif results and results[-1].get("name") == output["name"]:
            results[-1]["text"] = _lines("".join(results[-1]["text"]) + output["text"])
        else:
            results.append({**sorted_output, "text": _lines(output["text"])})
    return results


def _forms(data: dict[str, str]) -> dict[str, str | list[str]]:
    """The forms in which a cell shows a value; of two pictures the one without loss."""
    return {form: _form(form, data[form]) for form in sorted(data) if form != "image/jpeg" or "image/png" not in data}


def _form(form: str, data: str) -> str | list[str]:
    """One of the forms in which a cell shows a value; where it lies in memory and the files of cells differ by run."""
    if form.startswith("image/") and form != "image/svg+xml":
        return data.strip()
    return _lines(PLACE.sub("", data) if form == "text/plain" else data)


PLACE = re.compile(r" at 0x[0-9a-fA-F]+|[^\s'\"]*/ipykernel_\d+/")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def kinds(notebook: dict[str, Any]) -> list[list[list[str]]]:
    """The kinds of the outputs of each cell, without their content: numbers and times differ by run."""
    cells = filter(_is_code, notebook["cells"])
    return [[sorted(o.get("data", [o.get("name", "")])) for o in cell["outputs"]] for cell in cells]


PICTURE = re.compile(r"<svg(?:(?!</?svg).|<svg.*?</svg>)*</svg>", re.DOTALL)
MARGINS = re.compile(r'style="font:([^;"]*);[^"]*height:(\d+)px[^"]*padding:(\d+)px (\d+)px (\d+)px (\d+)px[^"]*"')
ALONE = 640
"""Pixels across of a picture that is as wide as its page, in a file of its own."""
COLOURS = re.compile(r'style="(--[^"]*)"')


def picture(notebook: dict[str, Any]) -> tuple[str, bytes]:
    """The picture of a notebook, with the suffix of its file.

    The metadata `picture` of a cell is the number of the picture among its pictures, from 1.
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
    margins = MARGINS.search(svg.partition(">")[0])
    if margins:  # those of CSS, which only a page has
        height, top, right, bottom, left = map(int, margins.groups()[1:])
        size = f'width="{ALONE - left - right}" height="{height - top - bottom}" overflow="visible"'
        inner = svg.replace(margins[0], f'x="{left}" y="{top}" {size} style="font:{margins[1]}"', 1)
        return f'{head}width="{ALONE}" height="{height}" viewBox="0 0 {ALONE} {height}" {style}">{inner}</svg>\n'
    return svg.replace("<svg ", head, 1).replace('style="', style, 1) + "\n"


def run_file(path: Path, is_check: bool) -> str:
    """Run a notebook in an empty folder, write it unless this is a check, and return what went wrong, or nothing."""
    before = _seconds()
    with tempfile.TemporaryDirectory() as folder:
        try:
            notebook = run(read(path), folder)
        except Exception as error:
            return f"{path.name}:\n{COLOUR.sub('', str(error))}"
    if is_check and kinds(notebook) != kinds(read(path)):
        return f"{path.name} shows other things than its file has: make gallery writes it anew."
    text = written(notebook)
    size = len(text.encode())
    end, image = picture(notebook)
    if not is_check:
        path.write_text(text, encoding="utf-8")
        (GALLERY / "images" / path.stem).with_suffix(end).write_bytes(image)
    print(f"{path.stem:24} {_seconds() - before:5.1f} s of CPU  {size / 1000:6.1f} kB", flush=True)
    return f"{path.name} has {size:,} bytes, more than {LARGEST:,}." if size > LARGEST else ""


COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _seconds() -> float:
    """The processor seconds of kernels that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tools.gallery", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of notebooks, such as 01_digits; all where none is given")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    paths = [GALLERY / f"{name}.ipynb" for name in options.names] or runnable(notebooks())
    faults = [fault for path in paths if (fault := run_file(path, options.check))]
    print(*faults, sep="\n", end="")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
