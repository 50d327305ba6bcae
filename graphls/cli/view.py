"""`python -m graphls view`: shows any ONNX model, or a graph in IR text, as an HTML page in the browser."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from graphls.base.errors import GraphFileError
from graphls.cli.dump import read_graph
from graphls.inspect.viz.html import write_page
from graphls.ir.graph import Graph


def add_view(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    parser = commands.add_parser("view", help="show an ONNX model or IR text in the browser", description=view.__doc__)
    parser.set_defaults(command=view)
    parser.add_argument("file", help="an ONNX model of any producer, or a file of IR text that ends in .ir")
    parser.add_argument("--html", metavar="PAGE", help="the page to write; by default beside the file")
    parser.add_argument("--no-open", action="store_true", help="write the page without opening a browser")


def view(options: argparse.Namespace) -> int:
    """Write a page that shows a graph, and open it in the browser."""
    file = Path(options.file)
    graph = read_any(file)
    page = Path(options.html).resolve() if options.html else _page_beside(file)
    write_page(page, {file.stem: graph}, below=Path.cwd())
    print(page)
    if not options.no_open:
        webbrowser.open(page.as_uri())
    return 0


def _page_beside(file: Path) -> Path:
    """The default path of the page of a file; raises GraphFileError for a symbolic link, which may be a stranger's."""
    page = file.resolve().with_name(f"{file.name}.html")
    if page.is_symlink():
        raise GraphFileError(f"{page} is a link to another file; name the page to write with --html.")
    return page


def read_any(file: Path) -> Graph:
    """The graph of a file of IR text (`.ir`) or of any ONNX model; raises GraphlsError for other files."""
    if file.suffix == ".ir":
        return read_graph(str(file))
    from graphls.onnx.importing.reader import read_onnx

    return read_onnx(file)
