"""The error of a row that could not be made, with the traceback of the code that failed."""

from __future__ import annotations

import traceback
from types import TracebackType

from graphls.ir.errors import GraphlsError, GraphRuntimeError
from graphls.ir.location import Location, is_own


class DatasetError(GraphRuntimeError):
    """A fault in a dataset's data or in code that a dataset calls.

    The first line is one sentence with the line where the node of the pipeline was made; `trace` is the traceback of
    the code that failed, wherever it ran.
    """

    has_text = True

    def __init__(self, message: str, location: Location | None = None, trace: str = "") -> None:
        super().__init__(message, location)
        self.args = (f"{self.args[0]}\n\n{trace.rstrip()}" if trace else self.args[0],)


def described(error: BaseException) -> str:
    """The name of an error and its text, in one line; errors of graphls are sentences and need no name."""
    try:
        text = " ".join(str(error).split()).rstrip(".")
    except BaseException as fault:  # by code of the user, whatever it is
        return f"{type(error).__name__}, whose text cannot be made because of a {type(fault).__name__}"
    if isinstance(error, GraphlsError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def trace_of(error: BaseException) -> str:
    """The traceback from the first frame on that is not graphls's own; nothing where all are."""
    start: TracebackType | None = error.__traceback__
    while start is not None and is_own(start.tb_frame.f_code.co_filename):
        start = start.tb_next
    return "" if start is None else "".join(traceback.format_exception(type(error), error, start))
