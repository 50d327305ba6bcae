"""`python -m graphls dump`: graphs in IR text as an HTML page, DOT, SVG, or as text in its standard form."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from graphls.base.errors import GraphValueError
from graphls.base.files.files import open_file, write_text
from graphls.inspect.viz.dot import to_dot
from graphls.inspect.viz.html import write_page
from graphls.inspect.viz.svg import to_svg
from graphls.ir.graph import Graph
from graphls.ir.parse import parse
from graphls.ir.text import dump


def add_dump(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    parser = commands.add_parser("dump", help="draw graphs of IR text", description=dump_files.__doc__)
    parser.set_defaults(command=dump_files)
    parser.add_argument("files", nargs="+", metavar="file", help="IR text of a stage, or a directory of .ir files")
    parser.add_argument("--html", metavar="PAGE", help="write one page with a tab for each stage")
    parser.add_argument("--dot", metavar="FILE", help="write the last stage in the DOT language")
    parser.add_argument("--svg", metavar="FILE", help="write a picture of the last stage")


def dump_files(options: argparse.Namespace) -> int:
    """Draw graphs of IR text; without --html, --dot and --svg, print the last one as text in standard form."""
    stages = read_stages(options.files)
    last = list(stages.values())[-1]
    if options.html:
        write_page(options.html, stages, below=Path.cwd())
    if options.dot:
        write_text(Path(options.dot), to_dot(last))
    if options.svg:
        write_text(Path(options.svg), to_svg(last))
    if not (options.html or options.dot or options.svg):
        sys.stdout.write(dump(last))
    return 0


def read_stages(names: list[str]) -> dict[str, Graph]:
    """The graphs of files by file name without `.ir`; those of a directory in the order of their names.

    Raises GraphValueError for a directory without `.ir` files; else as `read_graph`.
    """
    files: list[Path] = []
    for path in map(Path, names):
        matches = sorted(path.glob("*.ir")) if os.path.isdir(path) else [path]
        if not matches:
            raise GraphValueError(f"The directory {path} has no .ir files; name one that a step was dumped into.")
        files += matches
    stages: dict[str, Graph] = {}
    for file in files:
        name = str(file) if file.stem in stages else file.stem
        stages[name] = read_graph(str(file))
    return stages


def read_graph(file: str) -> Graph:
    """The graph in a file of IR text, or in the standard input (-).

    Raises GraphValueError for bytes that are not UTF-8, GraphSyntaxError for text that is not IR.
    """
    if file == "-":
        return parse(sys.stdin.read(), file="<stdin>")
    try:
        with open_file(file, "r", encoding="utf-8") as opened:
            return parse(opened.read(), file=file)
    except UnicodeDecodeError as error:
        raise GraphValueError(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}.") from None
