"""Source locations: the line of the user's file that is running."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED = tuple(f"{os.sep}{folder}{os.sep}" for folder in ("site-packages", "dist-packages"))
_COMMANDS = ("graphls", "graphls.exe")
CELL = r"Cell[ ]In\[\d+\]"
"""The pattern of a notebook's name for a cell; a space in brackets counts in verbose patterns, too."""
_CELL = re.compile(CELL, re.ASCII)
_OLD_CELL = re.compile(r"<ipython-input-(\d+)(?:-\w+)?>", re.ASCII)


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a user's file, or of a notebook cell, whose `file` is the notebook's name for it: Cell In[2].

    `compiled` is the name of the file under which a notebook has compiled the cell, by which `linecache` has its
    lines; "" for other lines, and for those of a text, whose cells may be of another notebook.

    Examples:
        >>> from graphls.ir import Location
        >>> print(Location("train.py", 12))
        train.py:12
    """

    file: str
    line: int
    compiled: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}{self.before_line}{self.line}"

    @property
    def before_line(self) -> str:
        """The text between the file and the line, as Python and notebooks write it."""
        return ", line " if _CELL.fullmatch(self.file) else ":"

    @property
    def code(self) -> str:
        """The name of the file that has the code."""
        return self.compiled or self.file


def _notebook_cell(file: str) -> str | None:
    """A notebook's name for the cell with a file name, such as Cell In[2].

    IPython maps file names to cells; older versions have the number in the file name.
    """
    old = _OLD_CELL.fullmatch(file)
    if old is not None:
        return f"Cell In[{old[1]}]"
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    parts = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)(file)
    return " ".join(parts) if parts and parts[0] == "Cell" else None


def user_location() -> Location | None:
    """The innermost line on the stack that is not graphls's own, PyTorch's or NumPy's; None where there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_own(file) and not _is_own_frame(frame):  # most of the dozens of frames are of own files
            return _location(file, frame.f_lineno)
        frame = frame.f_back
    return None


def location_of(code: CodeType) -> Location:
    """The line on which a function begins."""
    return _location(code.co_filename, code.co_firstlineno)


def line_of(error: BaseException) -> Location | None:
    """The user's innermost line that an error went through; None where there is none."""
    traceback, innermost = error.__traceback__, None
    while traceback is not None:
        innermost = innermost if _is_own_frame(traceback.tb_frame) else traceback
        traceback = traceback.tb_next
    return None if innermost is None else _location(innermost.tb_frame.f_code.co_filename, innermost.tb_lineno)


@lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a file is graphls's own, or one that only calls others: the standard library's or the command's."""
    if file.startswith((_PACKAGE, "<frozen")) or os.path.basename(file) in _COMMANDS:
        return True
    return file.startswith(_STANDARD_LIBRARY) and not any(folder in file for folder in _INSTALLED)


def is_package(file: str) -> bool:
    """Whether a file is one of graphls."""
    return file.startswith(_PACKAGE)


def _is_own_frame(frame: Any) -> bool:
    file = frame.f_code.co_filename
    module = str(frame.f_globals.get("__name__"))
    is_generated = file == "<string>" and module.startswith("graphls.")  # by a dataclass
    return is_generated or module.partition(".")[0] in ("torch", "numpy") or is_own(file)


def _location(file: str, line: int) -> Location:
    # Not cached, since a cell that runs again has another number; other files need no such call.
    cell = _notebook_cell(file) if "IPython" in sys.modules or file[:1] == "<" else None
    return _in_file(file, line) if cell is None else Location(cell, line, file)


@lru_cache(maxsize=65536)
def _in_file(file: str, line: int) -> Location:
    try:
        folder = os.getcwd() + os.sep
    except FileNotFoundError:  # somebody has deleted it
        return Location(file, line)
    return Location(file.removeprefix(folder), line)
