"""Tables for terminals and notebooks: labels left-aligned, numbers right-aligned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphls.base.text.html import Page
from graphls.base.text.plain import columns, fitted

LEAST = 12
"""Columns that are left of a label, however narrow the terminal is."""

GAP = "  "
Row = Sequence[str]


@dataclass(frozen=True)
class Table:
    """A header and rows of texts, with sentences that stand above; the first `texts` columns are not numbers."""

    header: Row
    rows: Sequence[Row]
    texts: int = 1
    sentences: Sequence[str] = ()

    def lines(self, width: int | None = None) -> Iterator[str]:
        """The lines for a terminal; those of the table take `width` columns at most, for which texts are cut."""
        widths = [max(map(columns, column)) for column in zip(self.header, *self.rows, strict=True)]
        if width is not None:
            _shrink(widths, self.texts, width)
        yield from self.sentences
        for row in (self.header, *self.rows):
            cells = (fitted(text, widths[i], right=i >= self.texts) for i, text in enumerate(row))
            yield GAP.join(cells).rstrip()

    def add_to(self, page: Page) -> None:
        """Show the table on a page of HTML."""
        page.notes(self.sentences)
        page.table(self.header, self.rows, self.texts)


def _shrink(widths: list[int], texts: int, width: int) -> None:
    """Narrow the text columns until all columns fit: the later ones to a third, the first to the remaining width."""
    room = width - sum(widths[texts:]) - len(GAP) * (len(widths) - 1)
    if sum(widths[:texts]) <= room:
        return
    for i in range(texts - 1, 0, -1):
        widths[i] = max(LEAST, min(widths[i], max(room // 3, room - widths[0])))
        room -= widths[i]
    widths[0] = max(LEAST, min(widths[0], room))
