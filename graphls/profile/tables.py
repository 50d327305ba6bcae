"""Tables of a profile, as text and as HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphls.diagnosis.html import Page
from graphls.ir.graph import Node
from graphls.ir.text import reference

LONGEST = 48
"""Longer names are cut, in the middle."""

_PLAIN = re.compile(r"[A-Za-z0-9_.%@:/\\<>()\[\],-]+")
Row = Sequence[str]


@dataclass(frozen=True)
class Table:
    """A header and rows of texts, with sentences that stand above; the first `texts` columns are no numbers."""

    sentences: tuple[str, ...]
    header: Row
    rows: tuple[Row, ...]
    texts: int = 1

    def __str__(self) -> str:
        rows = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join([*self.sentences, *(self._line(row, widths) for row in rows)])

    def _line(self, row: Row, widths: Sequence[int]) -> str:
        cells = [
            text.ljust(width) if i < self.texts else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()


def page_of(title: str, headline: str, tables: Iterable[Table]) -> str:
    """Tables as HTML that stands alone."""
    page = Page(title, headline)
    for table in tables:
        page.notes(table.sentences)
        page.table(table.header, map(_indented, table.rows))
    return page.text()


def _indented(row: Row) -> Row:
    """A row whose first text keeps its indentation in HTML."""
    name = row[0].lstrip(" ")
    return ["\u00a0" * (len(row[0]) - len(name)) + name, *row[1:]]


def shown(text: str, longest: int = LONGEST) -> str:
    """A name in one line of printable characters: plain as it is, others quoted, long ones without their middle."""
    if len(text) > longest:
        half = (longest - 1) // 2
        text = f"{text[:half]}...{text[-half:]}"
    return text if _PLAIN.fullmatch(text) or not text else json.dumps(text)


def line_of(node: Node) -> str:
    """The user's line that made a node."""
    return f"{shown(node.loc.file)}:{node.loc.line}" if node.loc else "-"


def name_of(node: Node) -> str:
    """The name of the first result of a node, as the text form has it; that of the primitive where there is none."""
    return shown(reference(node.outputs[0])) if node.outputs else node.primitive.name


def milliseconds(seconds: float) -> str:
    """A time in milliseconds."""
    return f"{1000 * seconds:.3f}"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{share:.1%}"


def count(number: float) -> str:
    """A mean number of calls."""
    return f"{number:.0f}" if number == round(number) else f"{number:.1f}"


def size(bytes: int) -> str:
    """A number of bytes in the unit that suits it."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if bytes >= factor:
            return f"{bytes / factor:.1f} {unit}"
    return f"{bytes} B"
