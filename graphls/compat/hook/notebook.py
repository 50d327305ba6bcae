"""Running the cells of a notebook, one after the other, in this process."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from graphls.base.tracebacks import show_in_notebook


class NotRunnable(Exception):
    """There is no such program, or nothing that runs it; `code` is the exit code with which Python says so."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def run_cells(notebook: bytes, main: ModuleType) -> int:
    """Run the cells of Python of a notebook in a module, up to the first error; returns the exit code.

    `notebook` is JSON of nbformat 3 or 4. IPython runs the cells, so that magics, `!commands` and `await` do what they
    do in Jupyter, and the value of a last line is shown. Errors are shown on stderr. `SystemExit` passes through.

    Raises NotRunnable where IPython is not there, and for what is no notebook.
    """
    cells = [*_cells(notebook)]
    shell = _shell(main)
    for cell in cells:
        done = shell.run_cell(cell, store_history=True)  # which counts the cells
        error = done.error_before_exec or done.error_in_exec
        if isinstance(error, SystemExit):
            raise error
        if error is not None:
            return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _cells(notebook: bytes) -> Iterator[str]:
    """The text of each cell of code: `source`, in nbformat 3 `input` of the cells of a worksheet."""
    try:
        found = json.loads(notebook)
        sheets = [found] if "cells" in found else found["worksheets"]
        for cell in (cell for sheet in sheets for cell in sheet["cells"] if cell["cell_type"] == "code"):
            yield "".join(cell["source"] if "source" in cell else cell["input"])
    except (ValueError, TypeError, LookupError):
        raise NotRunnable("the file is no notebook of nbformat 3 or 4, which Jupyter writes as JSON") from None


def _shell(main: ModuleType) -> Any:
    """What runs cells: IPython, without its history and with its tracebacks on stderr."""
    try:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
    except ImportError:
        raise NotRunnable("a notebook needs IPython, which is not installed: pip install ipython") from None

    class Shell(InteractiveShell):
        def _showtraceback(self, etype: type, evalue: BaseException, stb: list[str]) -> None:
            if etype is not SystemExit:
                print(self.InteractiveTB.stb2text(stb), file=sys.stderr)

    quiet = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": _colours()}})
    warnings.filterwarnings("ignore", "To exit: use 'exit', 'quit', or Ctrl-D")
    shell: Any = Shell.instance(user_module=main, config=quiet)
    shell.set_custom_exc((Exception, KeyboardInterrupt), show_in_notebook)
    return shell


def _colours() -> str:
    return "Neutral" if sys.stderr.isatty() else "NoColor"
