"""`python -m graphls export`: a step of a Python module as a folder that any ONNX Runtime trains from."""

from __future__ import annotations

import argparse

from graphls.base.errors import GraphTypeError
from graphls.cli.training.functions import function_of
from graphls.step.api import compile
from graphls.step.export.page_files import check_data, write_page
from graphls.step.step import Compiled


def add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    text = "write a training step as a folder for any ONNX Runtime"
    parser = commands.add_parser("export", help=text, description=export_step.__doc__)
    parser.set_defaults(command=export_step)
    parser.add_argument("step", metavar="module:function", help="returns a compiled step, or a cell and its inputs")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument("--opset", type=int, help="the version of the operators of ONNX, 17 to 25")
    parser.add_argument("--page", action="store_true", help="with a page that trains; the function returns data, too")
    parser.add_argument("--runtime", metavar="FOLDER", help="onnxruntime-web for the page; else npm brings it")
    parser.add_argument("--with-loops", default="", metavar="LANGUAGES", help="python, javascript or both, by commas")


def export_step(options: argparse.Namespace) -> int:
    """Write the step that a function without arguments returns, with the values that its states have then."""
    given = function_of(options.step, "export")()
    step, data = _parts(options.step, given)
    loops = [name for name in options.with_loops.split(",") if name]
    if options.page:
        check_data(step, data)
    folder = step.export(options.output, opset=options.opset, loops=loops)
    if options.page:
        write_page(folder, data, options.runtime)
    print(f"{folder}: " + ", ".join(sorted(path.name for path in folder.iterdir())))
    return 0


def _parts(name: str, given: object) -> tuple[Compiled, object]:
    """The step that a function has returned, by itself, as a cell with its inputs, or with data."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Compiled):
        return given
    step = compile(*given) if isinstance(given, tuple) else given
    if not isinstance(step, Compiled):
        kind = type(step).__name__
        raise GraphTypeError(f"{name} returns a {kind}, not a compiled step or a tuple of a cell and inputs.")
    return step, None
