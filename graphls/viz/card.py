"""What a notebook shows of the difference of two graphs."""

from __future__ import annotations

from graphls.ir.graph import Difference
from graphls.text.html import Page
from graphls.text.plain import shortened, shown

MOST_LINES = 200
LONGEST_LINE = 2000
MARKS = {"+": "added", "-": "removed", "~": "changed"}


def difference_card(difference: Difference) -> str:
    """The text of a difference as HTML, with a colour for each mark; of a long one the first lines."""
    first, *lines = str(difference).splitlines()
    names = (shown(graph.name, 60) for graph in (difference.before, difference.after))
    page = Page("Difference of graphs", "From @{} to @{}".format(*names))
    page.notes([first])
    page.lines((shortened(line, LONGEST_LINE), MARKS.get(line[0])) for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        page.notes([f"{len(lines) - MOST_LINES} more lines; print the difference for all."])
    return page.text()
