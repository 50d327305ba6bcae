"""Tables for a terminal: labels to the left, numbers to the right, and no line longer than it may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphls.plain import columns, fitted

LEAST = 12
"""Columns that are left of a label, however narrow the terminal is."""

GAP = "  "


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The lines of a table; the first column is cut where it must be, and so is the second one if it is of outputs."""
    widths = [max(map(columns, column)) for column in zip(header, *rows, strict=True)]
    left = 2 if header[1] == "output" else 1
    _shrink(widths, left, width)
    for row in (header, *rows):
        cells = (fitted(text, widths[i], right=i >= left) for i, text in enumerate(row))
        yield GAP.join(cells).rstrip()


def _shrink(widths: list[int], left: int, width: int) -> None:
    """Narrow the columns of labels until all columns fit: the later ones to a third, the first to what is left."""
    room = width - sum(widths[left:]) - len(GAP) * (len(widths) - 1)
    if sum(widths[:left]) <= room:
        return
    for i in range(left - 1, 0, -1):
        widths[i] = max(LEAST, min(widths[i], max(room // 3, room - widths[0])))
        room -= widths[i]
    widths[0] = max(LEAST, min(widths[0], room))
