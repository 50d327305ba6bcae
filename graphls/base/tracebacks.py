"""Traceback folding: tracebacks printed by Python and notebooks leave out the frames of graphls.

`GRAPHLS_TRACEBACK=full` in the environment shows them. An error that comes from within graphls, and is neither a
GraphlsError nor a test that failed nor a Ctrl-C, is a defect and shown in full.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from graphls.base.errors import GraphlsError
from graphls.base.location import is_own, is_package

VARIABLE = "GRAPHLS_TRACEBACK"
Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def are_full() -> bool:
    """Whether tracebacks show the frames of graphls, too."""
    return os.environ.get(VARIABLE) == "full"


def fold_tracebacks() -> None:
    """Fold the tracebacks that scripts, the Python prompt and notebooks of this process print from now on."""
    sys.excepthook = folding(sys.excepthook)
    notebook = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if notebook is not None and not notebook.custom_exceptions:
        notebook.set_custom_exc((Exception, KeyboardInterrupt), show_in_notebook)


def folding(show: Hook) -> Hook:
    """An exception hook that calls another one with folded tracebacks."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with folded(error) as count:
            if count:
                print(f"{_left_out(count)}:", file=sys.stderr)
            show(kind, error, error.__traceback__ if count else trace)

    return hook


def show_in_notebook(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: int | None = None
) -> None:
    """Show an error of a cell as IPython does."""
    with folded(error) as count:
        shell.showtraceback((kind, error, error.__traceback__ if count else trace), tb_offset=tb_offset)
        if count:
            print(f"{_left_out(count)}.", file=sys.stderr)


def _left_out(count: int) -> str:
    return f"{count} frame{'s' * (count != 1)} of graphls left out, {VARIABLE}=full shows all"


@contextmanager
def folded(error: BaseException) -> Iterator[int]:
    """Remove the frames of graphls from an error and its causes within the block; yields how many there were."""
    before = [(each, each.__traceback__) for each in chain(error)]
    short = [_without_own(each) for each, _ in before]
    try:
        for (each, _), frames in zip(before, short, strict=True):
            each.__traceback__ = _linked(frames)
        yield sum(len(_frames(trace)) - len(frames) for (_, trace), frames in zip(before, short, strict=True))
    finally:
        for each, trace in before:
            each.__traceback__ = trace


def chain(error: BaseException) -> list[BaseException]:
    """An error and those that led to it, each once: an error whose cause was raised while it was handled is its own."""
    errors: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and not any(each is other for other in errors):
            errors.append(each)
            waiting += [each.__cause__, each.__context__]
    return errors


def _frames(trace: TracebackType | None) -> list[TracebackType]:
    """A traceback as a list, outermost first."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    return frames


def _without_own(error: BaseException) -> list[TracebackType]:
    """The frames of an error without those of graphls, and of the standard library where graphls calls it.

    All where nothing would be left, and where the error is a defect of graphls.
    """
    frames = _frames(error.__traceback__)
    retained: list[TracebackType] = []
    is_inside = False
    for frame in frames:
        file = frame.tb_frame.f_code.co_filename
        is_inside = is_package(file) or (is_inside and is_own(file))
        if not is_inside:
            retained.append(frame)
    is_foldable = isinstance(error, (GraphlsError, KeyboardInterrupt)) or not is_inside or _is_test(frames[-1])
    return retained if retained and is_foldable and not are_full() else frames


def _is_test(frame: TracebackType) -> bool:
    """Whether a frame sets pytest's `__tracebackhide__`, as those of `graphls.testing` do."""
    return bool(frame.tb_frame.f_locals.get("__tracebackhide__"))


def _linked(frames: list[TracebackType]) -> TracebackType | None:
    """A new traceback of these frames, so that the one of the error stays for debuggers."""
    trace: TracebackType | None = None
    for each in reversed(frames):
        trace = TracebackType(trace, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return trace
