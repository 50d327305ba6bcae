"""What errors say of the cell that they come from, where no line of the user is inside of it."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

from graphls.ir.errors import GraphlsError

_OURS = __name__.partition(".")[0] + "."


def say_cell(error: GraphlsError, cell: Any, name: str) -> None:
    """Let an error that leaves a cell say which one it is, by its name in the cell that calls it.

    That is said of the innermost cell, if its class is one of graphls: `body.6 Dense(256, 10), made at model.py:12`.
    """
    if error.has_text:
        return
    is_ours = type(cell).__module__.startswith(_OURS)
    error.within(name, _described(cell) if is_ours and error.path is None else "")


def _described(cell: Any) -> str:
    """A cell with its first sizes, and where it was made: Dense(256, 10), made at model.py:12."""
    values = re.findall(r"\w+=(\([^)]*\)|[^,]+)", cell.extend_repr())
    sizes = takewhile(lambda value: re.fullmatch(r"\d+|\(.*\)", value), values[:3])
    made = cell.__dict__.get("_made_at")
    return f"{type(cell).__name__}({', '.join(sizes)}){f', made at {made}' if made else ''}"
