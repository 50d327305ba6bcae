"""Pages of the stages of a graph: one HTML file that opens from disk, without a network or a server."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path, write_text
from graphls.base.text.colours import theme
from graphls.base.text.html import Page
from graphls.base.text.plain import shortened, shown
from graphls.inspect.viz.page_data import page_data
from graphls.ir.graph import Difference, Graph

if TYPE_CHECKING:
    from graphls.inspect.diagnosis.recording import Recording
    from graphls.inspect.profile import Profile

SCRIPTS = ("model.js", "layout.js", "drawing.js", "text.js", "panels.js", "numbers.js", "search.js", "main.js")


def write_page(
    path: str | os.PathLike[str], stages: Mapping[str, Graph], title: str | None = None, profile: Profile | None = None,
    below: Path | None = None, notes: Sequence[str] = (), values: Recording | None = None, device: str | None = None,
) -> Path:  # fmt: skip
    """Write the page of these stages to a file, at once or not at all, and return its path; see `page`.

    Raises GraphFileError where the file cannot be written.
    """
    file = as_path(path)
    write_text(file, page(stages, title, profile, below, notes, values, device))
    return file


def page(
    stages: Mapping[str, Graph], title: str | None = None, profile: Profile | None = None, below: Path | None = None,
    notes: Sequence[str] = (), values: Recording | None = None, device: str | None = None,
) -> str:  # fmt: skip
    """The HTML of a page with a tab for each stage; the same stages give the same text.

    `title` is the name of the last graph unless given; a profile shows times in the last stage. Lines of source are
    part of the page: those of all `.py` files and notebook cells that the graphs name or, where the graphs may be a
    stranger's, of files `below` a folder only. `notes` are sentences above all stages. `values` are those of a run of
    the last stage. Its memory and operations are drawn for a `device`: "cpu" or "cuda" of ONNX Runtime, or "numpy".
    Raises GraphValueError where there is no stage.
    """
    if not stages:
        raise GraphValueError("A page shows at least one graph; give it the stages by name.")
    title = (title or list(stages.values())[-1].name).encode(errors="replace").decode()
    shown = page_data(stages, title, profile, below, values, device)
    data = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    script = '(() => {\n"use strict";\n' + "\n".join(map(_asset, SCRIPTS)) + "})();\n"
    style = theme() + _asset("page.css")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n</head>\n<body>\n'
        f'{_noted(notes)}{_asset("page.html")}<script type="application/json" id="data">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _noted(notes: Sequence[str]) -> str:
    return f'<p class="notes" role="note">{escape(" ".join(notes))}</p>\n' if notes else ""


def _asset(name: str) -> str:
    return (files("graphls.inspect.viz") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source expression of a script or style in the policy of the page, so that no other one runs in it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


OPEN_LINES, MOST_LINES = 24, 200
LONGEST_LINE = 2000
MARKS = {"+": "added", "-": "removed", "~": "changed"}


def difference_card(difference: Difference) -> str:
    """The text of a difference as HTML, with a colour for each mark; the first lines of a long one.

    It folds into its first line, which has the counts, and begins so where it is longer than OPEN_LINES.
    """
    first, *lines = str(difference).splitlines()
    before, after = (shown(graph.name, 60) for graph in (difference.before, difference.after))
    page = Page("Difference of graphs", f"Changes of @{after}" if before == after else f"From @{before} to @{after}")
    if not lines:
        page.notes([first])
        return page.text()
    page.fold(first, is_open=len(lines) <= OPEN_LINES)
    page.lines((shortened(line, LONGEST_LINE), MARKS.get(line[0])) for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        page.notes([f"{len(lines) - MOST_LINES} more lines; print the difference for all."])
    page.end_fold()
    return page.text()
