"""Running a script as `python script.py` does, with `mindspore` on graphls."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, TracebackType

from graphls.compat.finder import install, is_installed, uninstall
from graphls.context import kept_context
from graphls.context.parallel import kept_parallel_context


def run_script(path: str, arguments: Sequence[str] = ()) -> int:
    r"""Run a file as a main module in this process; returns the exit code that Python would end with.

    As `run_main`, but afterwards `sys.argv`, `sys.path`, `__main__`, the settings of the context and the import hook
    are as before.

    Examples:
        >>> from pathlib import Path
        >>> from graphls.compat import run_script
        >>> _ = Path("script.py").write_text("import mindspore as ms\nprint(ms.Tensor([1, 2]).sum())\n")
        >>> run_script("script.py")
        3
        0
    """
    with _kept():
        return run_main(path, arguments)


def run_main(path: str, arguments: Sequence[str] = ()) -> int:
    """Run a file as the main module of this process, for good; returns the exit code that Python would end with.

    `sys.argv`, `sys.path[0]` and `__main__` are as Python sets them. An error that the script does not catch is
    printed with the script's own lines; `SystemExit` passes through. A file that cannot be read gives 2.
    """
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        print(f"graphls: can't open file {path!r}: {error.strerror}", file=sys.stderr)
        return 2
    main = _main_module(path)
    sys.argv = [path, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    sys.modules["__main__"] = main
    install()
    try:
        exec(compile(source, main.__dict__["__file__"], "exec"), main.__dict__)
    except (Exception, KeyboardInterrupt) as error:
        error = error.with_traceback(_within_script(error))
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


@contextmanager
def _kept() -> Iterator[None]:
    """Give the process back, behind a block, what running a script changes of it."""
    argv, path, main, is_new = sys.argv, [*sys.path], sys.modules["__main__"], not is_installed()
    try:
        with kept_context(), kept_parallel_context():
            yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main
        if is_new:
            uninstall()


def _main_module(path: str) -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__.update(__file__=os.path.abspath(path), __builtins__=__builtins__, __cached__=None)
    return main


def _within_script(error: BaseException) -> TracebackType | None:
    """The traceback without the lines of this file, which come first."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename == __file__:
        found = found.tb_next
    return found
