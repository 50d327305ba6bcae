"""Runs a script, a folder, a module or a notebook as Python and Jupyter do, with `mindspore` on graphls."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pkgutil import get_importer
from types import CodeType, ModuleType, TracebackType
from typing import Any

from graphls.base.tracebacks import show_in_notebook
from graphls.compat.hook.finder import Mirror, install, is_installed, uninstall
from graphls.compat.hook.resolution import REACHED
from graphls.runtime.context import Replacement, forced_device, kept_context
from graphls.runtime.context.parallel import OneRank, preserved_parallel_context


class NotRunnable(Exception):
    """The program is missing or cannot be run; `code` is the exit code that Python has for that."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


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
    with _restored():
        return run_main(path, arguments)


def run_main(program: str, arguments: Sequence[str] = (), is_module: bool = False) -> int:
    """Run a program as the main module of this process, for good; returns the exit code that Python would end with.

    A program is a Python file, a notebook (`.ipynb`), a folder or an archive with a `__main__.py`, or the name of a
    module, as after `python -m`. `sys.argv`, `sys.path[0]` and `__main__` are as Python sets them, for a notebook as
    Jupyter does. An uncaught error is printed with the lines of the program; `SystemExit` passes through.
    """
    sys.argv = ["-m" if is_module else program, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = _first_folder(program, is_module)
    install()
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __cached__=None)
    try:
        if program.endswith(".ipynb") and not is_module:
            return run_cells(_read(program), main)
        exec(_code(program, is_module, main), main.__dict__)
    except NotRunnable as error:
        print(f"graphls: {error}", file=sys.stderr)
        return error.code
    except (Exception, KeyboardInterrupt) as error:
        error = error.with_traceback(_within_program(error))
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def run_and_report(program: str, arguments: Sequence[str] = (), is_module: bool = False) -> int:
    """As `run_main`, with a report on stderr at the end, also after an error, of everything that was replaced."""
    try:
        return run_main(program, arguments, is_module)
    finally:
        print(report(), file=sys.stderr)


def report() -> str:
    """The devices and settings that were replaced since the hook was installed, and the names that are not offered."""
    lines = [*_devices(), *_settings(), *_names()]
    return "\n".join(["graphls exec:", *(f"  {line}" for line in lines or ["nothing was replaced"])])


def _devices() -> Iterator[str]:
    if forced_device():
        yield f"everything ran on {forced_device()}, whatever device_target said"
    for target, device in Replacement.devices.items():
        yield f"device_target {target!r} is not there; {device} took its place"


def _settings() -> Iterator[str]:
    for name, value in OneRank.left_out.items():
        yield f"{name}={value!r} means several devices and was left out"


def _names() -> Iterator[str]:
    mirrors = [module for module in [*sys.modules.values()] if isinstance(module, Mirror)]
    named = {message for mirror in mirrors for message in mirror.not_offered}
    for message in sorted(named - REACHED):
        yield f"named and never used: {message}"
    for message in sorted(REACHED):
        yield f"used: {message}"


def _first_folder(program: str, is_module: bool) -> str:
    """The first entry of `sys.path`: a folder or an archive itself, else that of the file, or the current one."""
    if is_module:
        return os.getcwd()
    return _absolute(program) if get_importer(program) else os.path.dirname(os.path.realpath(program))


def _absolute(path: str) -> str:
    """A path joined to the current folder; `os.path.abspath` would also normalise it, which Python does not."""
    return os.path.join(os.getcwd(), path)


def _code(program: str, is_module: bool, main: ModuleType) -> CodeType:
    """The code of a program; sets the names in the main module that Python sets."""
    if not is_module and get_importer(program) is None:
        path = _absolute(program)
        loader = SourceFileLoader("__main__", path)
        main.__dict__.update(__file__=path, __loader__=loader)
        return loader.source_to_code(_read(program), path)
    spec = _spec_of_module(program) if is_module else _spec_of_folder(program)
    code: CodeType | None = getattr(spec.loader, "get_code", lambda name: None)(spec.name)
    if code is None:
        raise NotRunnable(f"No code object available for {spec.name}")
    names = {"__file__": spec.origin, "__loader__": spec.loader, "__package__": spec.parent, "__spec__": spec}
    main.__dict__.update(names, __cached__=spec.cached)
    if is_module:
        sys.argv[0] = str(spec.origin)
    return code


def _read(path: str) -> bytes:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            return file.read()
    except OSError as error:
        raise NotRunnable(f"can't open file {path!r}: {error.strerror}", 2) from None


def _spec_of_folder(path: str) -> ModuleSpec:
    """The spec of the module `__main__` in a folder or an archive."""
    importer: Any = get_importer(_absolute(path))
    spec: ModuleSpec | None = importer.find_spec("__main__")
    if spec is None:
        raise NotRunnable(f"can't find '__main__' module in {path!r}")
    return spec


def _spec_of_module(name: str) -> ModuleSpec:
    """The spec of a module, or of `__main__` in a package; imports the packages around it."""
    try:
        spec = find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a package around the module imports a missing one
        spec = None
    if spec is None:
        raise NotRunnable(f"No module named {name}")
    if spec.submodule_search_locations is None:
        return spec
    if name.endswith(".__main__") or find_spec(f"{name}.__main__") is None:
        raise NotRunnable(f"No module named {name}.__main__; {name!r} is a package and cannot be directly executed")
    return _spec_of_module(f"{name}.__main__")


@contextmanager
def _restored() -> Iterator[None]:
    """Restore, after a block, the state of the process that running a program changes."""
    argv, path, main, is_new = sys.argv, [*sys.path], sys.modules["__main__"], not is_installed()
    try:
        with kept_context(), preserved_parallel_context():
            yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main
        if is_new:
            uninstall()


def _within_program(error: BaseException) -> TracebackType | None:
    """The traceback without the frames of this module, which come first."""
    traceback = error.__traceback__
    while traceback is not None and _runs_programs(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback


def _runs_programs(file: str) -> bool:
    return file == __file__ or file.startswith("<frozen importlib")


def run_cells(notebook: bytes, main: ModuleType) -> int:
    """Run the code cells of a notebook in a module, up to the first error; returns the exit code.

    `notebook` is JSON of nbformat 3 or 4. IPython runs the cells, so that magics, `!commands` and `await` work as in
    Jupyter, and the value of a last line is shown. Errors are shown on stderr. `SystemExit` passes through.

    Raises NotRunnable without IPython, and for a file that is not a notebook.
    """
    cells = [*_cells(notebook)]
    shell = _shell(main)
    for cell in cells:
        result = shell.run_cell(cell, store_history=True)  # which counts the cells
        error = result.error_before_exec or result.error_in_exec
        if isinstance(error, SystemExit):
            raise error
        if error is not None:
            return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _cells(notebook: bytes) -> Iterator[str]:
    """The text of each code cell: `source`, in nbformat 3 `input` of the cells of a worksheet."""
    try:
        document = json.loads(notebook)
        sheets = [document] if "cells" in document else document["worksheets"]
        for cell in (cell for sheet in sheets for cell in sheet["cells"] if cell["cell_type"] == "code"):
            yield "".join(cell["source"] if "source" in cell else cell["input"])
    except (ValueError, TypeError, LookupError):
        raise NotRunnable("the file is not a notebook of nbformat 3 or 4, which Jupyter writes as JSON") from None


def _shell(main: ModuleType) -> Any:
    """The IPython shell that runs the cells, without a history file and with tracebacks on stderr."""
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
