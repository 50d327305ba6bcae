"""`python -m graphls export`: writes a training step as a bundle that any ONNX Runtime can train."""

from __future__ import annotations

import argparse

from graphls.base.errors import GraphTypeError
from graphls.cli.arguments import function_of
from graphls.step.api import compile
from graphls.step.export.page_files import check_data, write_page
from graphls.step.step import Compiled


def add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    text = "write a training step as a folder for any ONNX Runtime"
    parser = commands.add_parser("export", help=text, description=export_step.__doc__)
    parser.set_defaults(command=export_step)
    parser.add_argument("step", metavar="module:function", help="it returns a compiled step, or a cell and its inputs")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument("--opset", type=int, help="the ONNX opset version, 17 to 25")
    parser.add_argument("--page", action="store_true", help="add a page that trains; the function returns data too")
    parser.add_argument("--runtime", metavar="FOLDER", help="onnxruntime-web for the page; by default from npm")
    parser.add_argument("--with-loops", default="", metavar="LANGUAGES", help="python, javascript or python,javascript")


def export_step(options: argparse.Namespace) -> int:
    """Write the step that a function without arguments returns, with the current values of its states."""
    result = function_of(options.step, "export")()
    step, data = _parts(options.step, result)
    loops = [name for name in options.with_loops.split(",") if name]
    if options.page:
        check_data(step, data)
    folder = step.export(options.output, opset=options.opset, loops=loops)
    if options.page:
        write_page(folder, data, options.runtime)
    print(f"{folder}: " + ", ".join(sorted(path.name for path in folder.iterdir())))
    return 0


def _parts(name: str, result: object) -> tuple[Compiled, object]:
    """The step and the data in the result of a function: a step, a step with data, or a cell with its inputs."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Compiled):
        return result
    step = compile(*result) if isinstance(result, tuple) else result
    if not isinstance(step, Compiled):
        kind = type(step).__name__
        raise GraphTypeError(f"{name} returns a {kind}, not a compiled step or a tuple of a cell and inputs.")
    return step, None
