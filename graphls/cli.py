"""The command line: run passes over IR text, run scripts of MindSpore, and look at the installation."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from graphls.cli_view import add_view

EXEC = "Run a script as Python does, with every import of mindspore resolved to graphls; its exit code is the result."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0, 1 after an error (one line on stderr) and 2 for wrong usage."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["exec"] and arguments[1:2] and not arguments[1].startswith("-"):
        from graphls.compat.script import run_script

        return run_script(arguments[1], arguments[2:])
    options = _parser().parse_args(arguments)
    from graphls.ir.errors import GraphlsError

    try:
        return int(options.command(options))
    except (GraphlsError, OSError, ImportError) as error:
        print(f"graphls: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="graphls", description="Training steps as one static graph.")
    commands = parser.add_subparsers(required=True, metavar="command")
    opt = commands.add_parser("opt", help="run passes over a graph in IR text", description=optimize.__doc__)
    opt.set_defaults(command=optimize)
    opt.add_argument("file", help="a file of IR text, or - for the standard input")
    opt.add_argument("-p", "--passes", default="", help="a pipeline such as 'gradient, overflow{mode=window}, dce'")
    opt.add_argument("-o", "--output", default="-", help="the file to write, or - for the standard output")
    opt.add_argument("--verify", action="store_true", help="check the graph after every pass")
    opt.add_argument("--print-between-passes", action="store_true", help="print every stage to stderr")
    opt.add_argument("--time-passes", action="store_true", help="print the time of every pass to stderr")
    opt.add_argument("--import", dest="modules", action="append", default=[], help="a module that registers passes")
    doctor = commands.add_parser("doctor", help="check this installation", description=diagnose.__doc__)
    doctor.set_defaults(command=diagnose)
    operators = commands.add_parser("operators", help="list operators and cells", description=list_operators.__doc__)
    operators.set_defaults(command=list_operators)
    operators.add_argument("-o", "--output", default="-", help="the file to write, or - for the standard output")
    script = commands.add_parser("exec", help="run a script that imports mindspore", description=EXEC)
    script.add_argument("script", help="a Python file")
    script.add_argument("arguments", nargs="*", help="what the script finds in sys.argv")
    add_view(commands)
    return parser


def optimize(options: argparse.Namespace) -> int:
    """Run a pipeline of passes over a graph and print the graph that comes out."""
    sys.path.insert(0, os.getcwd())
    for module in options.modules:
        import_module(module)
    from graphls.ir.files import write_text
    from graphls.ir.parse import parse
    from graphls.ir.text import dump
    from graphls.passes import parse_pipeline

    pipeline = parse_pipeline(options.passes)
    standard = options.file == "-"
    text = sys.stdin.read() if standard else _text_of(options.file)
    graph = parse(text, file="<stdin>" if standard else options.file)
    for stage in pipeline.steps(graph, verify=options.verify):
        graph = stage.graph
        if options.print_between_passes:
            print(f"// {stage.name}\n{dump(graph)}", file=sys.stderr)
        if options.time_passes and stage.seconds:
            print(f"{stage.name:24} {1000 * stage.seconds:9.3f} ms", file=sys.stderr)
    if options.output == "-":
        sys.stdout.write(dump(graph))
    else:
        write_text(Path(options.output), dump(graph))
    return 0


def _text_of(file: str) -> str:
    from graphls.ir.errors import GraphValueError

    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise GraphValueError(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}.") from None


def diagnose(options: argparse.Namespace) -> int:
    """Print the versions that are installed, and whether float16 overflows on each provider as it must."""
    from graphls.doctor import examine

    return examine()


def list_operators(options: argparse.Namespace) -> int:
    """Print every operator and cell with what it takes, and the names of MindSpore that lack, as Markdown."""
    from graphls.coverage import page
    from graphls.ir.files import write_text

    if options.output == "-":
        sys.stdout.write(page())
    else:
        write_text(Path(options.output), page())
    return 0
