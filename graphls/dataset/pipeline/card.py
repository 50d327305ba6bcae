"""What a dataset says of itself, as text and in a notebook: its columns, how many rows, and the nodes below it."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.base.text.tables import Table
from graphls.dataset.pipeline.node import Node

HEADER = ("node", "columns", "line", "rows")
MOST_NODES = 60
"""The most nodes that are listed."""


def headline(node: Node) -> str:
    """A dataset in one line; no row is made for it."""
    columns = ", ".join(map(shown, node.columns)) or "no columns"
    return f"{type(node).__name__}: {columns}; {_rows(node)}"


def text_of(node: Node) -> str:
    """A dataset as a table of its nodes, the last of the pipeline first."""
    return "\n".join([headline(node), "", *_table(node).lines()])


def page_of(node: Node) -> str:
    """The same as HTML."""
    page = Page("Dataset", headline(node))
    _table(node).add_to(page)
    return page.text()


def _table(node: Node) -> Table:
    nodes = list(_below(node, 0))
    rows = [_row(each, depth) for each, depth in nodes[:MOST_NODES]]
    rest = [(f"({len(nodes) - MOST_NODES} more)", "", "", "")] if len(nodes) > MOST_NODES else []
    return Table(HEADER, [*rows, *rest], texts=3)


def _below(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
    """A node and those that it takes its rows from; only several of them are indented."""
    yield node, depth
    for child in node.children:
        yield from _below(child, depth + (len(node.children) > 1))


def _row(node: Node, depth: int) -> tuple[str, ...]:
    place = "" if node.location is None else f"{node.location.file}:{node.location.line}"
    columns = ", ".join(map(shown, node.columns))
    return "  " * depth + type(node).__name__, columns, shown(place), _rows(node).removesuffix(" rows")


def _rows(node: Node) -> str:
    """How many rows a pass has, where that is known without one."""
    if not node.is_indexed:
        return "rows are counted by a pass"
    length = node.length()
    return "rows without end" if length == inf else f"{int(length):,} row{'s' * (length != 1)}"
